/*
 * What the writer tells of witnesses (process: core). The writer verified their cosignatures and
 * made them durable; core counts. Silence, a conflict and a writer that is gone count as no. That
 * the log was forked or set back stops all that needs witnesses once it is proven; that one of them
 * says so does not, or each of them could stop the service.
 */
#include "broker/core_witness.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/core_record.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define WITNESSES 8
#define NAME_SIZE 201
#define CONFLICT_SIZE 16
#define WHY_SIZE 512

struct seen {
	char name[NAME_SIZE], conflict[CONFLICT_SIZE], why[WHY_SIZE];
	uint64_t size;	  /* that it cosigned last */
	int64_t since_us; /* it has not since; 0: it has */
	bool proven;	  /* the conflict: by a head that the log's own key signed */
};
struct core_witnesses {
	size_t n;
	struct seen v[WITNESSES];
};

/* --- what is told ------------------------------------------------------------------------- */

static bool
take(char *to, size_t size, struct str s)
{
	AUTO_FREE char *vis = log_vis(s);

	return (size_t)snprintf(to, size, "%s", vis) < size;
}

static int
read_all(struct rd *body, struct core_witnesses *w, struct err *err)
{
	uint32_t n = rd_u32(body);

	if (n > WITNESSES)
		return err_set(err, ERR_PROTOCOL, "%u witnesses, limit %d", n, WITNESSES);
	for (; w->n < n && !body->bad; w->n++) {
		struct seen *s = &w->v[w->n];
		struct str name = rd_lstr(body);
		bool ok;

		s->size = rd_u64(body);
		s->since_us = (int64_t)rd_u64(body);
		ok = take(s->name, sizeof(s->name), name);
		ok = take(s->conflict, sizeof(s->conflict), rd_lstr(body)) && ok;
		s->proven = rd_u8(body) != 0;
		(void)take(s->why, sizeof(s->why), rd_lstr(body));
		if (!ok || s->since_us < 0)
			return err_set(err, ERR_PROTOCOL, "W_WITNESSES is malformed");
	}
	return rd_end(body) ? 0 : err_set(err, ERR_PROTOCOL, "W_WITNESSES is malformed");
}

int
core_witness_on_told(
    struct core_peer *p, struct rd *body, int *fds UNUSED, size_t nfds UNUSED, struct err *err)
{
	struct core_witnesses *w = xcalloc(1, sizeof(*w));
	struct core *c = p->core;
	int rc = read_all(body, w, err);

	if (rc != 0) {
		free(w);
		return rc;
	}
	free(c->witnesses);
	c->witnesses = w;
	core_record_witnessed(c);
	return 0;
}

void
core_witness_writer_gone(struct core *c)
{
	core_witness_free(c);
}

void
core_witness_free(struct core *c)
{
	free(TAKE_PTR(c->witnesses));
}

/* --- counting -------------------------------------------------------------------------------- */

static const struct seen *
refusing(const struct core_witnesses *w)
{
	for (size_t i = 0; w != NULL && i < w->n; i++)
		if (w->v[i].conflict[0] != '\0' && w->v[i].proven)
			return &w->v[i];
	return NULL;
}

/* Whoever contradicts this log counts for nothing, also for what it cosigned before. */
static bool
has_seen(const struct seen *s, uint64_t seq)
{
	return s->conflict[0] == '\0' && s->size > seq;
}

bool
core_witness_covers(const struct core *c, unsigned needed, uint64_t seq)
{
	const struct core_witnesses *w = c->witnesses;
	unsigned have = 0;

	for (size_t i = 0; w != NULL && i < w->n; i++)
		have += has_seen(&w->v[i], seq);
	return have >= needed && refusing(w) == NULL;
}

unsigned
core_witness_needed(const struct core *c, uint32_t effects)
{
	return c->policy != NULL ? policy_requires(c->policy, effects).witnesses : 0;
}

void
core_witness_ask(const struct core *c, uint32_t effects, struct core_append *a)
{
	struct policy_requires r = {.checkpoint = (effects & ~EFFECT_SET_DATA) != 0};

	if (c->policy != NULL)
		r = policy_requires(c->policy, effects);
	if (r.checkpoint)
		a->flags |= CORE_REC_CHECKPOINT;
	a->witnesses = r.witnesses;
	a->witness_s = r.within_s;
}

/* --- words --------------------------------------------------------------------------------------
 */

/* Those that have not cosigned more than seq records; of UINT64_MAX those that do not answer. */
static void
missing_put(struct buf *b, const struct core_witnesses *w, uint64_t seq)
{
	const char *sep = ": ";

	for (size_t i = 0; i < w->n; i++) {
		const struct seen *s = &w->v[i];
		char since[CLOCK_TEXT_SIZE];

		if (seq != UINT64_MAX ? has_seen(s, seq) : s->since_us == 0)
			continue;
		buf_printf(b, "%s%s", sep, s->name);
		if (s->since_us != 0) {
			clock_format_s(s->since_us, since);
			buf_printf(b, "%s since %s (%s)",
			    s->conflict[0] != '\0' ? " refuses this log" : "", since, s->why);
		} else {
			buf_put_z(b, " (no answer yet)");
		}
		sep = "; ";
	}
}

static char *
conflict_words(const struct seen *s)
{
	return xasprintf(
	    "witness %s refuses this log, with proof (%s): nothing that needs "
	    "witnesses is sent until a person has found out why (cofferdam status, the "
	    "log's evidence/)",
	    s->name, s->why);
}

char *
core_witness_refused(const struct core *c, unsigned needed)
{
	const struct seen *bad = refusing(c->witnesses);

	if (bad != NULL)
		return conflict_words(bad);
	return c->witnesses == NULL || c->witnesses->n < needed ? core_witness_short(c, needed)
								: NULL;
}

char *
core_witness_short(const struct core *c, unsigned needed)
{
	const struct core_witnesses *w = c->witnesses;
	const struct seen *bad = refusing(w);
	AUTO_BUF struct buf b = BUF(8192);
	unsigned good = 0;

	if (needed == 0)
		return NULL;
	if (bad != NULL)
		return conflict_words(bad);
	if (w == NULL || w->n < needed)
		return xasprintf("the policy asks for %u witnesses (effect_requires), broker.json "
				 "has %zu: add them there",
		    needed, w != NULL ? w->n : 0);
	for (size_t i = 0; i < w->n; i++)
		good += w->v[i].since_us == 0;
	if (good >= needed)
		return NULL;
	buf_printf(&b, "%u of %zu witnesses must have cosigned this first and %u do; missing are",
	    needed, w->n, good);
	missing_put(&b, w, UINT64_MAX);
	return buf_dup_z(&b);
}

char *
core_witness_missing(const struct core *c, unsigned needed, uint64_t seq)
{
	const struct core_witnesses *w = c->witnesses;
	const struct seen *bad = refusing(w);
	AUTO_BUF struct buf b = BUF(8192);
	unsigned have = 0;

	if (bad != NULL)
		return conflict_words(bad);
	for (size_t i = 0; w != NULL && i < w->n; i++)
		have += has_seen(&w->v[i], seq);
	buf_printf(&b, "%u witnesses must have cosigned record %llu first and %u did", needed,
	    (unsigned long long)seq, have);
	if (w != NULL) {
		buf_put_z(&b, "; missing are");
		missing_put(&b, w, seq);
	}
	return buf_dup_z(&b);
}

/* --- status ---------------------------------------------------------------------------------- */

void
core_witness_status(struct jcs *j, const struct core *c)
{
	const struct core_witnesses *w = c->witnesses;

	jcs_array(j, "witnesses");
	for (size_t i = 0; w != NULL && i < w->n; i++) {
		const struct seen *s = &w->v[i];

		jcs_open(j, NULL);
		jcs_int(j, "behind", c->log_size > s->size ? (int64_t)(c->log_size - s->size) : 0);
		if (s->conflict[0] != '\0')
			jcs_z(j, "conflict", s->conflict);
		jcs_str_lossy(j, "error", str_z(s->why));
		jcs_z(j, "name", s->name);
		if (s->conflict[0] != '\0')
			jcs_bool(j, "proven", s->proven);
		jcs_time_known(j, "since", s->since_us);
		jcs_int(j, "size", (int64_t)s->size);
		jcs_close(j);
	}
	jcs_array_end(j);
}
