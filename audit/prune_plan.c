/*
 * Decides how far a log may be pruned. Runs in the command line, as whoever holds the log's key;
 * reads all of the log, which the verifier has found whole. It must never let go what a start, a
 * verdict that stays or a person's open question needs, nor what is not sealed and signed.
 */
#include "audit/prune_plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/live.h"
#include "audit/prune_keep.h"
#include "common/clock.h"

#include "common/banned.h"

#define LIVE_KEPT 2 /* of live/: so many of the newest a start may begin at */

struct search {
	struct log_files seg;
	struct prune_plan *plan;
	uint64_t to;
};

/* --- limits --------------------------------------------------------------------------------- */

/* The last beginning of a segment that is at most `most`. */
static uint64_t
begin_of(const struct search *s, uint64_t most)
{
	uint64_t at = s->seg.n[0] != 0 ? s->seg.number[0][0] : 0;

	for (size_t i = 0; i < s->seg.n[0] && s->seg.number[0][i] <= most; i++)
		at = s->seg.number[0][i];
	return at;
}

static void PRINTF_LIKE(3, 4) cap(struct search *s, uint64_t most, const char *fmt, ...)
{
	uint64_t at = begin_of(s, most);
	va_list ap;

	if (at >= s->to)
		return;
	s->to = at;
	va_start(ap, fmt);
	(void)vsnprintf(s->plan->why, sizeof(s->plan->why), fmt, ap);
	va_end(ap);
}

/* The time of a segment's first record. */
static int
begin_time(int logdir, uint64_t first, int64_t *ret, struct err *err)
{
	struct segment *seg = NULL;
	AUTO_FD int dir = -1;
	struct str line, body;
	struct record rec;
	struct hash leaf;
	uint64_t off;
	int r = log_open_dir(logdir, LOG_SEG, &dir, err);

	if (r != 0 || (r = segment_open(dir, first, &seg, err)) != 0)
		return r;
	if (segment_next(seg, &line, &off, NULL) != SEGMENT_LINE ||
	    (r = record_parse_line(line, &body, &leaf, err)) != 0 ||
	    (r = record_parse(body, &rec, err)) != 0)
		r = err_set(
		    err, ERR_TAMPER, "segment %" PRIu64 " does not begin with a record", first);
	else
		r = clock_parse(rec.time, ret, err);
	segment_free(seg);
	return r;
}

/* What the person asked for. */
static int
ask(struct search *s, int logdir, const struct prune_limit *limit, struct err *err)
{
	s->to = begin_of(s, limit->seq);
	for (size_t i = s->seg.n[0]; i-- > 1 && limit->time_us != INT64_MAX;) {
		int64_t us;
		int r;

		if (s->seg.number[0][i] > s->to)
			continue;
		if ((r = begin_time(logdir, s->seg.number[0][i], &us, err)) != 0)
			return r;
		if (us <= limit->time_us)
			return 0;
		s->to = s->seg.number[0][i - 1];
	}
	return 0;
}

static int
cap_signed(struct search *s, int logdir, const struct verdict *v, struct err *err)
{
	AUTO_LOG_FILES struct log_files live = {0};
	int r = log_files_list(logdir, LOG_LIVE, "", NULL, &live, err);

	if (r != 0)
		return r;
	cap(s, v->verified, "what follows no checkpoint covers");
	for (size_t i = 0; i < v->nwitnessed; i++)
		cap(s, v->witnessed[i].size, "what follows %.60s has not witnessed",
		    v->witnessed[i].name);
	if (live.n[0] < LIVE_KEPT)
		cap(s, 0, "the log has no two places where a start can begin");
	else
		cap(s, live.number[0][live.n[0] - LIVE_KEPT], "a start may begin to read here");
	return 0;
}

/* --- what is not over ------------------------------------------------------------------------ */

static void
cap_live(void *arg, struct str body, const struct hash *root UNUSED)
{
	struct str type = canon_plain(canon_get(body, "type")), run;
	struct search *s = arg;
	uint64_t seq;

	/* Single lines of these are kept; rates and refusals are told by others. */
	if (prune_keep_type(type) || !canon_u64(canon_get(body, "seq"), &seq))
		return;
	run = canon_plain(canon_get(body, "run"));
	cap(s, seq, "record %" PRIu64 " (%.*s%s%.*s) is not over", seq, STR_ARG(type),
	    run.n != 0 ? " of run " : "", STR_ARG(run));
}

static int
read_live(struct search *s, int logdir, int64_t *ret_last_us, struct err *err)
{
	struct live *live = live_new();
	struct chain *c = NULL;
	struct record rec;
	struct hash leaf;
	int r = chain_open(logdir, 0, &c, err);

	while (r == 0 && (r = chain_next(c, &rec, &leaf, err)) == 1) {
		live_record(live, &rec, chain_tree(c));
		r = clock_parse(rec.time, ret_last_us, err);
	}
	if (r == 0)
		live_each(live, cap_live, s);
	live_free(live);
	chain_free(c);
	return r;
}

/* --- all -------------------------------------------------------------------------------------- */

int
prune_plan(int logdir, const struct verdict *v, const struct prune_limit *limit, bool write,
    struct prune_plan *ret, struct err *err)
{
	struct search s = {.plan = ret};
	int64_t last_us = 0;
	int r = log_files_list(logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &s.seg, err);

	*ret = (struct prune_plan){.why = ""};
	if (r == 0)
		r = ask(&s, logdir, limit, err);
	(void)snprintf(ret->why, sizeof(ret->why),
	    "a segment goes as a whole, and this one has records that are to stay, or is being "
	    "written");
	if (r == 0)
		r = cap_signed(&s, logdir, v, err);
	if (r == 0)
		r = read_live(&s, logdir, &last_us, err);
	ret->order.from = s.seg.n[0] != 0 ? s.seg.number[0][0] : 0;
	ret->order.to.size = s.to;
	memcpy(ret->order.to.origin, v->origin, sizeof(ret->order.to.origin));
	if (r == 0 && s.to > ret->order.from)
		r = prune_keep(logdir, &s.seg, last_us, write, ret, err);
	log_files_free(&s.seg);
	return r;
}
