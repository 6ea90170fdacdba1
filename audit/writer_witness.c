/*
 * Who is asked for a cosignature, and when. Runs in the writer. Each witness is asked for the
 * newest signed head, one request at a time: at once when an action waits for it, else every some
 * seconds. A witness that does not answer is asked again and holds up nobody but those actions.
 */
#include "audit/writer_witness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/writer_witness_int.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define EVERY_MS 10000
#define AGAIN_MS 1000 /* after a failure; doubled while nobody waits */
#define AGAIN_MAX_MS 60000
#define TICK_MIN_MS 50

/* --- what core is told ------------------------------------------------------------------- */

void
witnesses_tell(const struct witnesses *w)
{
	AUTO_BUF struct buf b = BUF(8192);

	if (w == NULL || *w->core == NULL)
		return;
	buf_u32(&b, (uint32_t)w->n);
	for (size_t i = 0; i < w->n; i++) {
		const struct one *o = &w->one[i];

		buf_lz(&b, o->key.name);
		buf_u64(&b, o->cosigned ? o->size : 0);
		buf_u64(&b, (uint64_t)o->since_us);
		buf_lz(&b, o->conflict != CONFLICT_NONE ? conflict_name(o->conflict) : "");
		buf_u8(&b, o->proven);
		buf_lz(&b, o->why);
	}
	ipc_send(*w->core, MSG_W_WITNESSES, &b, NULL, 0);
}

static uint64_t
wait_ms(const struct witnesses *w, const struct one *o)
{
	uint64_t ms = AGAIN_MS;

	for (unsigned i = 1; i < o->failed && ms < AGAIN_MAX_MS; i++)
		ms *= 2;
	if (w->need > o->size)
		return AGAIN_MS;
	return ms < AGAIN_MAX_MS ? ms : AGAIN_MAX_MS;
}

void
wit_failed(struct witnesses *w, struct one *o, const char *fmt, ...)
{
	char why[sizeof(o->why)];
	AUTO_FREE char *vis = NULL;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	vis = log_vis(str_z(why));
	if (strcmp(o->why, vis) != 0)
		log_warn("witness %s: %s", o->key.name, vis);
	(void)snprintf(o->why, sizeof(o->why), "%s", vis);
	if (o->since_us == 0)
		o->since_us = clock_wall_us();
	o->failed++;
	o->due_ms = loop_now_ms(w->loop) + wait_ms(w, o);
	if (w->store != NULL)
		witnesses_tell(w);
}

/* --- asking -------------------------------------------------------------------------------- */

static void
ask(struct witnesses *w, struct one *o)
{
	AUTO_BUF struct buf b = BUF(COSIGN_REQUEST_MAX + 256);
	struct hash proof[TREE_PROOF_MAX];
	size_t n = o->size != 0 ? tree_span_proof(o->span, proof) : 0;

	buf_reset(&o->request);
	cosign_request_put(&o->request, o->size, proof, n, buf_str(&o->note));
	o->asked = true;
	o->id = ++w->last_id;
	o->asked_size = w->fed.size;
	tree_span_begin(o->next, &w->fed);
	buf_u32(&b, (uint32_t)(o - w->one));
	buf_u64(&b, o->id);
	buf_lstr(&b, buf_str(&o->request));
	follow_carry(w->follow, &b);
}

/* What was cosigned for this size must be what the log has there: else it was changed here. */
static bool
is_ours(const struct one *o)
{
	struct hash root = tree_root(&o->span->at);

	return !o->cosigned || hash_eq(&root, &o->root);
}

static void
ask_next(struct witnesses *w, struct one *o)
{
	if (o->size > w->fed.size && o->cosigned) {
		/* Its own cosignature, which lies here, says so. */
		o->asked_size = w->fed.size;
		wit_conflict(w, o, CONFLICT_ROLLBACK, wit_files_proof(w, o), COSIGN_CONFLICT,
		    STR(""), o->size);
	} else if (o->size != 0 && !o->spanned) {
		wit_locate(w, o);
	} else if (o->size != 0 && !is_ours(o)) {
		o->asked_size = w->fed.size;
		wit_conflict(
		    w, o, CONFLICT_FORK, wit_files_proof(w, o), COSIGN_FORK, STR(""), o->size);
	} else {
		ask(w, o);
	}
}

static void
on_due(void *arg)
{
	struct witnesses *w = arg;

	w->timer = NULL;
	wit_next(w);
}

void
wit_next(struct witnesses *w)
{
	uint64_t now = loop_now_ms(w->loop), next = UINT64_MAX, size;
	struct str note;

	if (w->store == NULL || !w->up)
		return;
	note = store_head(w->store, &size);
	wit_feed(w, size);
	for (size_t i = 0; i < w->n; i++) {
		struct one *o = &w->one[i];

		if (o->asked || w->reading.of == o || (o->cosigned && o->size == size))
			continue;
		if (o->due_ms <= now) {
			buf_reset(&o->note);
			buf_put_str(&o->note, note);
			ask_next(w, o);
		}
		if (!o->asked && w->reading.of != o && o->due_ms < next)
			next = o->due_ms;
	}
	loop_timer_del(TAKE_PTR(w->timer));
	if (next != UINT64_MAX)
		w->timer = loop_timer_add(
		    w->loop, next > now + TICK_MIN_MS ? next - now : TICK_MIN_MS, on_due, w);
}

void
witnesses_signed(struct witnesses *w, bool urgent)
{
	uint64_t size, soon;

	if (w == NULL || w->store == NULL)
		return;
	(void)store_head(w->store, &size);
	wit_feed(w, size);
	if (urgent) {
		w->need = size - 1;
		soon = loop_now_ms(w->loop) + AGAIN_MS;
		for (size_t i = 0; i < w->n; i++) {
			struct one *o = &w->one[i];

			if (o->failed == 0)
				o->due_ms = 0;
			else if (o->due_ms > soon)
				o->due_ms = soon;
		}
	}
	if (urgent || w->timer == NULL)
		wit_next(w);
}

/* --- answers --------------------------------------------------------------------------------- */

int
witnesses_carried(struct witnesses *w, struct rd *body, struct err *err)
{
	uint32_t i = rd_u32(body);
	uint64_t id = rd_u64(body);
	unsigned status = rd_u16(body);
	struct str answer = rd_lstr(body), why = rd_lstr(body);
	struct one *o;

	if (!rd_end(body) || w == NULL || i >= w->n || answer.n > COSIGN_ANSWER_MAX)
		return err_set(err, ERR_PROTOCOL, "W_CARRIED is malformed");
	o = &w->one[i];
	if (!o->asked || o->id != id)
		return err_set(err, ERR_PROTOCOL, "W_CARRIED was not asked for");
	o->due_ms = loop_now_ms(w->loop) + EVERY_MS;
	wit_answer(w, o, status, answer, why);
	o->asked = false;
	if (o->since_us == 0 && w->need >= o->size)
		o->due_ms = 0;
	witnesses_tell(w);
	wit_next(w);
	return 0;
}

void
witnesses_wire(struct witnesses *w, bool up)
{
	if (w == NULL)
		return;
	w->up = up;
	for (size_t i = 0; i < w->n; i++) {
		struct one *o = &w->one[i];

		o->asked = false; /* whether it was cosigned, the next answer tells */
		if (up)
			o->due_ms = 0;
		else
			wit_failed(w, o, "the courier is gone");
	}
	witnesses_tell(w);
	wit_next(w);
}

/* --- life ---------------------------------------------------------------------------------------
 */

int
witnesses_config(const struct json *list, struct cosigners *ret, struct err *err)
{
	*ret = (struct cosigners){0};
	if (json_count(list) > COSIGNERS_MAX)
		return err_set(err, ERR_CONFIG, "more than %d witnesses", COSIGNERS_MAX);
	for (size_t i = 0; i < json_count(list); i++) {
		if (cosigner_parse(json_str(json_at(list, i)), &ret->key[i], err) != 0)
			return ERR_CONFIG;
		ret->n++;
	}
	return 0;
}

void
witnesses_from(struct witnesses *w, const struct tree_range *from)
{
	if (w == NULL)
		return;
	w->from = w->fed = *from;
	w->queue.n = 0;
}

void
witnesses_record(struct witnesses *w, const struct record *r)
{
	struct hash leaf;

	if (w == NULL)
		return;
	/* All before it are signed: whoever must be read for later begins here. */
	if (str_eqz(r->type, "log.segment")) {
		wit_feed(w, r->seq);
		w->from = w->fed;
	}
	leaf = record_leaf(r->body);
	leaves_add(&w->queue, &leaf);
}

void
witnesses_serve(struct witnesses *w, struct store *s, struct follow *f)
{
	if (w == NULL)
		return;
	w->store = s;
	w->follow = f;
	wit_next(w);
}

int
witnesses_open(struct loop *loop, int logdir, const struct cosigners *keys, struct ipc *const *core,
    struct witnesses **ret, struct err *err)
{
	struct witnesses *w;
	int rc;

	if (keys->n == 0 || *ret != NULL)
		return 0;
	w = xcalloc(1, sizeof(*w));

	w->loop = loop;
	w->core = core;
	w->logdir = logdir;
	w->segdir = w->witdir = w->evdir = w->reading.leaves = -1;
	w->n = keys->n;
	for (size_t i = 0; i < w->n; i++) {
		struct one *o = &w->one[i];

		o->key = keys->key[i];
		o->span = xcalloc(1, sizeof(*o->span));
		o->next = xcalloc(1, sizeof(*o->next));
		o->since_us = clock_wall_us();
		(void)snprintf(o->why, sizeof(o->why), "it has not been asked yet");
		buf_init(&o->note, CHECKPOINT_MAX);
		buf_init(&o->request, COSIGN_REQUEST_MAX);
	}
	rc = wit_files_open(w, err);
	if (rc != 0) {
		witnesses_free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

void
witnesses_free(struct witnesses *w)
{
	if (w == NULL)
		return;
	wit_read_stop(w);
	loop_timer_del(w->timer);
	for (size_t i = 0; i < w->n; i++) {
		free(w->one[i].span);
		free(w->one[i].next);
		buf_free(&w->one[i].note);
		buf_free(&w->one[i].request);
	}
	cleanup_close_fd(&w->segdir);
	cleanup_close_fd(&w->witdir);
	cleanup_close_fd(&w->evdir);
	free(w->queue.p);
	free(w);
}
