/*
 * What a verifier says: the exit status and the lines for people. Runs in the command line. Texts
 * in the findings were made printable where they were found.
 */
#include "audit/verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "audit/canon.h"
#include "common/clock.h"

#include "common/banned.h"

#define TIME_MAX_S UINT64_C(253402300800) /* the year 10000: what a clock text can say */

void
verdict_fault(struct verdict *v, const struct log_fault *f)
{
	if (v->nfaults == VERIFY_FAULTS_MAX)
		v->more++;
	else
		v->faults[v->nfaults++] = *f;
}

void
verdict_found(
    struct verdict *v, enum log_kind kind, uint64_t seq, uint64_t last, const char *fmt, ...)
{
	struct log_fault f = {.kind = kind, .seq = seq, .last = last};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	verdict_fault(v, &f);
}

void
verdict_foreign(struct verdict *v, const char *sub, const struct log_files *f)
{
	if (f->foreign != 0)
		verdict_found(v, LOG_KIND_FOREIGN, 0, 0, "%s holds %s%s", sub, f->foreign_name,
		    f->foreign > 1 ? " and more" : "");
}

static void
own_witnesses(struct verdict *v, struct str list)
{
	struct str one;
	size_t at = 0;

	v->own.n = 0;
	while (list.n != 0 && v->own.n < COSIGNERS_MAX && canon_next(list, &at, &one))
		if (cosigner_parse(canon_plain(one), &v->own.key[v->own.n], NULL) == 0)
			v->own.n++;
}

void
verdict_adopted(struct verdict *v, const struct record *r)
{
	uint64_t n = 0;

	if (str_eqz(r->type, "log.open"))
		own_witnesses(v, canon_get(r->data, "witnesses"));
	if (!str_eqz(r->type, "log.open") || !canon_u64(canon_get(r->data, "unsigned"), &n) ||
	    n == 0 || n > r->batch)
		return;
	if (v->nadopted == VERIFY_ADOPTED_MAX)
		v->more_adopted++;
	else
		v->adopted[v->nadopted++] =
		    (struct adopted){.seq = r->seq, .first = r->batch - n, .n = n};
}

bool
verdict_clean(const struct verdict *v)
{
	return v->nfaults == 0 && v->config[0] == '\0';
}

int
verdict_status(const struct verdict *v)
{
	if (v->nfaults != 0)
		return 1;
	if (v->config[0] != '\0')
		return 2;
	return v->verified == 0 || v->size != v->verified || v->torn != 0 || v->unread != 0 ? 3 : 0;
}

void
verdict_put_last(struct buf *out, const struct verdict *v)
{
	if (v->nfaults != 0) {
		buf_printf(out, "TAMPER, %zu findings", v->nfaults + v->more);
		if (v->verified != 0)
			buf_put_z(out, "; heads hold");
	} else {
		buf_put_z(out, v->verified != 0 ? "VERIFIED" : "UNSIGNED, no checkpoint");
	}
	if (v->verified != 0) {
		buf_printf(out, " to size %" PRIu64 ", root ", v->verified);
		enc_base64(out, str_mem(v->root.b, HASH_LEN));
		buf_printf(out, ", signed by %s, last record %s", v->origin, v->time);
	}
	if (v->size > v->verified)
		buf_printf(out, " + %" PRIu64 " unsigned", v->size - v->verified);
	if (v->pruned != 0)
		buf_printf(out, " + %" PRIu64 " pruned", v->pruned);
	if (v->torn != 0)
		buf_printf(out, " + %" PRIu64 " torn bytes", v->torn);
	if (v->unread != 0)
		buf_printf(out, " + %" PRIu64 " not looked into", v->unread);
	buf_put_c(out, '\n');
}

static void
put_pruned(struct buf *out, const struct verdict *v)
{
	if (v->pruned == 0)
		return;
	buf_printf(out, "pruned up to %" PRIu64, v->pruned);
	if (v->pruned_at[0] != '\0')
		buf_printf(out, " on %s by %s", v->pruned_at, v->pruned_by);
	buf_printf(out,
	    ": its records are not here, but for %" PRIu64 " that were kept; %" PRIu64
	    " are hashes alone\n",
	    v->kept, v->pruned - v->kept);
}

static void
put_adopted(struct buf *out, const struct verdict *v)
{
	for (size_t i = 0; i < v->nadopted; i++) {
		const struct adopted *a = &v->adopted[i];

		buf_printf(out,
		    "%" PRIu64 " records from seq %" PRIu64
		    " on were adopted unsigned at seq %" PRIu64 " after a crash\n",
		    a->n, a->first, a->seq);
	}
	if (v->more_adopted != 0)
		buf_printf(out, "and %zu starts more adopted records unsigned\n", v->more_adopted);
}

static void
put_witnessed(struct buf *out, const struct verdict *v)
{
	for (size_t i = 0; i < v->nwitnessed; i++) {
		const struct witnessed *w = &v->witnessed[i];
		char at[CLOCK_TEXT_SIZE];

		if (w->size == 0) {
			buf_printf(out, "not witnessed by %s", w->name);
		} else {
			clock_format_s((int64_t)(w->time_s % TIME_MAX_S) * 1000000, at);
			buf_printf(out, "witnessed at %" PRIu64 " by %s, %s", w->size, w->name, at);
		}
		buf_put_z(out, v->own_word ? ", by the log's own word\n" : "\n");
	}
}

static void
put_resumed(struct buf *out, const struct verdict *v)
{
	if (v->resumed != 0)
		buf_printf(out,
		    "resumed at %" PRIu64 ": the form of records 0 to %" PRIu64
		    " was judged by the run that kept that head; their bytes are as signed\n",
		    v->resumed, v->resumed - 1);
	if (v->unlike != 0)
		buf_printf(out,
		    "not resumed at %" PRIu64
		    ": what stands before it does not fit that head, or was pruned meanwhile; all "
		    "was read from record 0\n",
		    v->unlike);
}

void
verdict_put(struct buf *out, const struct verdict *v)
{
	put_resumed(out, v);
	for (size_t i = 0; i < v->nfaults; i++) {
		const struct log_fault *f = &v->faults[i];

		buf_printf(out, "TAMPER at seq %" PRIu64, f->seq);
		if (f->last > f->seq)
			buf_printf(out, " to %" PRIu64, f->last);
		buf_printf(out, ": %s: %s\n", log_kind_name(f->kind), f->text);
	}
	if (v->more != 0)
		buf_printf(out, "and %zu findings more\n", v->more);
	if (v->config[0] != '\0')
		buf_printf(out, "CONFIG: %s\n", v->config);
	put_adopted(out, v);
	put_pruned(out, v);
	if (v->erasures != 0)
		buf_printf(
		    out, "content of %zu runs is erased, by %zu records\n", v->erased, v->erasures);
	put_witnessed(out, v);
	buf_printf(out, "%" PRIu64 " checkpoints and %" PRIu64 " blobs hold\n", v->heads, v->blobs);
	verdict_put_last(out, v);
}
