/*
 * Queries. Runs in the command line. The index says where to look; what is shown is what the log's
 * line says, found by its number and hash, held against the record behind it, and against each
 * filter again. What an index leaves out, nothing here can see: `log index --rebuild` makes it
 * anew, and a query without it reads all.
 */
#include <inttypes.h>

#include "audit/index_int.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct query {
	struct index *x;
	const struct index_query *q;
	index_show_fn *fn;
	void *arg;
	struct index_found *found;
	struct reader *rd;
	struct canon_tree *tree;
	uint64_t term[INDEX_TERMS_MAX]; /* hashes */
	bool has[INDEX_TERMS_MAX];	/* of the record being matched */
	bool done;
	/* behind the index */
	struct reader_place *tail;
	size_t ntail;
	struct err stopped; /* why reading stopped, if it did */
	int stop;
};

/* --- one record ----------------------------------------------------------------------------- */

static void
match_term(void *arg, enum index_kind kind, struct str value)
{
	struct query *y = arg;

	for (size_t i = 0; i < y->q->n; i++)
		if (!y->has[i] && y->q->term[i].kind == kind &&
		    index_term_eq(kind, y->q->term[i].value, value))
			y->has[i] = true;
}

/* Of each kind one; of texts all. */
static bool
kinds_hold(const struct query *y)
{
	bool asked[INDEX_NKINDS] = {false}, held[INDEX_NKINDS] = {false};

	for (size_t i = 0; i < y->q->n; i++) {
		enum index_kind k = y->q->term[i].kind;

		if (k == INDEX_TEXT && !y->has[i])
			return false;
		asked[k] = true;
		held[k] |= y->has[i];
	}
	for (size_t k = 0; k < INDEX_NKINDS; k++)
		if (asked[k] && !held[k])
			return false;
	return true;
}

static bool
matches(struct query *y, const struct record *r)
{
	int64_t us;

	if (r->seq < y->q->first || r->seq > y->q->last || clock_parse(r->time, &us, NULL) != 0 ||
	    us < y->q->from_us || us > y->q->to_us)
		return false;
	if (y->q->n == 0)
		return true;
	memset(y->has, 0, sizeof(y->has));
	index_terms(r, y->tree, match_term, y);
	return kinds_hold(y);
}

static void
show(struct query *y, const struct record *r, const struct hash *leaf)
{
	if (y->q->limit != 0 && y->found->shown == y->q->limit) {
		y->found->more = true;
		y->done = true;
		return;
	}
	y->found->shown++;
	y->done = !y->fn(y->arg, r, leaf);
}

/* What the index says is at a place. */
static int
look(struct query *y, const struct reader_place *at, struct err *err)
{
	struct record r;
	struct hash leaf;
	int rc = reader_at(y->rd, at, &r, &leaf, err);

	y->found->looked++;
	if (rc == ERR_NOT_FOUND && !reader_holds(y->rd, at->seq)) { /* pruned since we began */
		err_clear(err);
		return 0;
	}
	if (rc == ERR_TAMPER)
		err->code = rc = ERR_STATE;
	/* Changed with its own hash, or so that it does not match any more: the next one says. */
	if (rc == 0)
		rc = reader_at_followed(y->rd, &leaf, err);
	if (rc == 0 && matches(y, &r))
		show(y, &r, &leaf);
	return rc;
}

/* --- blocks --------------------------------------------------------------------------------- */

/* The records of a block that the index has for these terms. */
static int
block_bits(struct query *y, uint64_t n, struct index_bits *out, struct err *err)
{
	memset(out, 0xff, sizeof(*out));
	for (size_t k = 0; k < INDEX_NKINDS; k++) {
		struct index_bits any = {{0}};
		bool asked = false;

		for (size_t i = 0; i < y->q->n; i++) {
			int r;

			if (y->q->term[i].kind != k)
				continue;
			asked = true;
			if ((r = index_bits(y->x, n, y->term[i], &any, err)) != 0)
				return r;
			if (k != INDEX_TEXT)
				continue;
			for (size_t w = 0; w < ARRAY_LEN(any.w); w++)
				out->w[w] &= any.w[w];
			any = (struct index_bits){{0}};
		}
		for (size_t w = 0; asked && k != INDEX_TEXT && w < ARRAY_LEN(any.w); w++)
			out->w[w] &= any.w[w];
	}
	return 0;
}

static bool
is_empty(const struct index_bits *b)
{
	for (size_t w = 0; w < ARRAY_LEN(b->w); w++)
		if (b->w[w] != 0)
			return false;
	return true;
}

/* 1: it has some. Nothing of SQLite's is held when this returns, for the reader may be slow. */
static int
ask_block(struct query *y, uint64_t n, struct index_bits *bits, int64_t time[2],
    uint8_t places[INDEX_BLOCK * 4], struct err *err)
{
	int r = index_lock(y->x, LOCK_SH, err);

	if (r != 0)
		return r;
	if ((r = block_bits(y, n, bits, err)) == 0 && !is_empty(bits))
		r = index_block(y->x, n, time, places, err);
	index_unlock(y->x);
	return r;
}

static int
query_block(struct query *y, uint64_t n, struct err *err)
{
	uint8_t places[INDEX_BLOCK * 4];
	struct index_bits bits;
	int64_t time[2];
	int r = ask_block(y, n, &bits, time, places, err);

	if (r <= 0)
		return r;
	if (time[1] < y->q->from_us || time[0] > y->q->to_us)
		return 0;
	for (uint32_t i = 0; i < INDEX_BLOCK && !y->done; i++) {
		uint32_t at = y->q->oldest ? i : INDEX_BLOCK - 1 - i;
		struct reader_place p = {
		    .seq = n * INDEX_BLOCK + at, .off = index_u32(places + (size_t)at * 4)};

		if ((bits.w[at / 64] >> (at % 64) & 1) == 0 || p.seq < y->q->first ||
		    p.seq > y->q->last || !reader_holds(y->rd, p.seq))
			continue;
		if (p.off == INDEX_NO_PLACE)
			return err_set(
			    err, ERR_STATE, "index: no place for record %" PRIu64, p.seq);
		if ((r = look(y, &p, err)) != 0)
			return r;
	}
	return 0;
}

static int
query_blocks(struct query *y, uint64_t newest, struct err *err)
{
	uint64_t lo = reader_first(y->rd) / INDEX_BLOCK, hi = newest;
	int r = 0;

	if (y->q->first / INDEX_BLOCK > lo)
		lo = y->q->first / INDEX_BLOCK;
	if (y->q->last / INDEX_BLOCK < hi)
		hi = y->q->last / INDEX_BLOCK;
	for (uint64_t i = lo; i <= hi && r == 0 && !y->done; i++)
		r = query_block(y, y->q->oldest ? i : hi - (i - lo), err);
	return r;
}

/* --- behind the index ------------------------------------------------------------------------ */

static void
keep(struct query *y, const struct reader_place *at)
{
	if ((y->ntail & (y->ntail - 1)) == 0)
		y->tail =
		    xreallocarray(y->tail, y->ntail != 0 ? 2 * y->ntail : 1, sizeof(*y->tail));
	y->tail[y->ntail++] = *at;
}

/* From behind the newest block to the log's end: shown in passing, or kept to be shown backwards.
 */
static int
read_tail(struct query *y, bool has_blocks, const struct reader_place *last, struct err *err)
{
	struct reader_place at;
	struct record r;
	struct hash leaf;
	int rc = 0;

	if (has_blocks && (rc = reader_seek(y->rd, last, err)) == 0 &&
	    (rc = reader_next(y->rd, &r, &at, &leaf, err)) == 0)
		return err_set(err, ERR_STATE, "index: is ahead of the log");
	if (rc == ERR_NOT_FOUND || (rc == 1 && at.seq != last->seq)) /* pruned meanwhile */
		return err_set(err, ERR_STATE, "index: ends before the log begins");
	if (rc < 0)
		return rc;
	while (!y->done && (rc = reader_next(y->rd, &r, &at, &leaf, err)) == 1) {
		y->found->looked++;
		if (!matches(y, &r))
			continue;
		if (y->q->oldest)
			show(y, &r, &leaf);
		else
			keep(y, &at);
	}
	if (rc != ERR_TAMPER)
		return rc < 0 ? rc : 0;
	y->stop = rc;
	y->stopped = *err;
	return 0;
}

static int
show_tail(struct query *y, struct err *err)
{
	int r = 0;

	for (size_t i = y->ntail; i > 0 && r == 0 && !y->done; i--)
		r = look(y, &y->tail[i - 1], err);
	return r;
}

static int
run(struct query *y, struct err *err)
{
	struct reader_place last;
	struct hash leaf;
	uint64_t newest = 0;
	int has = 0, r = 0;

	if (y->x != NULL) {
		if ((r = index_lock(y->x, LOCK_SH, err)) != 0)
			return r;
		has = index_newest(y->x, &newest, &last, &leaf, err);
		index_unlock(y->x);
	}
	if (has < 0)
		return has;
	if (y->q->oldest && has == 1)
		r = query_blocks(y, newest, err);
	if (r == 0 && !y->done)
		r = read_tail(y, has == 1, &last, err);
	if (r == 0 && !y->q->oldest)
		r = show_tail(y, err);
	if (r == 0 && !y->q->oldest && has == 1 && !y->done)
		r = query_blocks(y, newest, err);
	return r;
}

int
index_query(struct index *x, int logdir, const struct index_query *q, index_show_fn *fn, void *arg,
    struct index_found *ret, struct err *err)
{
	struct query y = {.x = x, .q = q, .fn = fn, .arg = arg, .found = ret};
	int r;

	*ret = (struct index_found){0};
	if ((r = reader_open(logdir, &y.rd, err)) == 0) {
		y.tree = canon_tree_new();
		for (size_t i = 0; i < q->n; i++)
			y.term[i] = index_term_hash(q->term[i].kind, q->term[i].value);
		r = run(&y, err);
	}
	canon_tree_free(y.tree);
	reader_free(y.rd);
	free(y.tail);
	if (r == 0 && y.stop != 0) {
		if (err != NULL)
			*err = y.stopped;
		return y.stop;
	}
	return r;
}
