/*
 * What does not fit in a log: which of the known ways of tampering it is. Runs in whoever reads a
 * log by audit/chain.c. Looks on behind the place where the reading stopped, and reads lines before
 * it again; trusts nothing on disk.
 */
#include "audit/chain_int.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/banned.h"

/* --- lines across segments ------------------------------------------------------------ */

int
chain_self_valid(struct str line, struct record *r, struct hash *leaf, struct err *err)
{
	struct str body;

	if (record_parse_line(line, &body, leaf, err) != 0)
		return ERR_TAMPER;
	return record_parse(body, r, err);
}

/* The first line of segment number i. False: it has none that is valid in itself. */
bool
chain_first_seq(struct chain *c, size_t i, uint64_t *ret)
{
	struct segment *s = NULL;
	struct record r;
	struct str line;
	struct hash leaf;
	uint64_t off;
	bool ok;

	if (segment_open(c->segdir, c->files.number[0][i], &s, NULL) != 0)
		return false;
	ok = segment_next(s, &line, &off, NULL) == SEGMENT_LINE &&
	     chain_self_valid(line, &r, &leaf, NULL) == 0;
	if (ok)
		*ret = r.seq;
	segment_free(s);
	return ok;
}

/* Is there, behind the current line, one that is valid in itself and fits? Ends the reading. */
typedef bool match_fn(const struct record *r, uint64_t want);

static int
any_later(struct chain *c, match_fn *match, uint64_t want, bool *ret, struct err *err)
{
	*ret = false;
	for (;;) {
		struct record r;
		struct str line;
		struct hash leaf;
		uint64_t off;
		int k = segment_next(c->seg, &line, &off, err);

		if (k < 0)
			return k;
		if (k == SEGMENT_LINE && chain_self_valid(line, &r, &leaf, NULL) == 0 &&
		    match(&r, want)) {
			*ret = true;
			return 0;
		}
		if (k != SEGMENT_END)
			continue;
		if (c->file == c->files.n[0])
			return 0;
		segment_free(TAKE_PTR(c->seg));
		k = segment_open(c->segdir, c->files.number[0][c->file++], &c->seg, err);
		if (k != 0)
			return k;
	}
}

static bool
has_seq(const struct record *r, uint64_t want)
{
	return r->seq == want;
}

static bool
batch_after(const struct record *r, uint64_t want)
{
	return r->batch > want;
}

/* The leaf of a record before the one that stopped us: all those lines were good. */
static bool
leaf_before(struct chain *c, uint64_t seq, struct hash *ret)
{
	struct segment *s = NULL;
	struct str line, body;
	uint64_t off, at;
	size_t i = 0;
	bool ok = true;

	while (i + 1 < c->files.n[0] && c->files.number[0][i + 1] <= seq)
		i++;
	if (c->files.n[0] == 0 || c->files.number[0][i] > seq ||
	    segment_open(c->segdir, c->files.number[0][i], &s, NULL) != 0)
		return false;
	for (at = c->files.number[0][i]; ok && at <= seq; at++)
		ok = segment_next(s, &line, &off, NULL) == SEGMENT_LINE &&
		     record_parse_line(line, &body, ret, NULL) == 0;
	segment_free(s);
	return ok;
}

/* --- classification -------------------------------------------------------------------- */

void
chain_set_fault(
    struct chain *c, enum log_kind kind, uint64_t seq, uint64_t last, const char *fmt, ...)
{
	va_list ap;

	c->fault.kind = kind;
	c->fault.seq = seq;
	c->fault.last = last;
	va_start(ap, fmt);
	(void)vsnprintf(c->fault.text, sizeof(c->fault.text), fmt, ap);
	va_end(ap);
}

/*
 * A line that is not valid in itself. Torn only if it is the end of the last segment that
 * broke: no whole batch follows, no more bytes than one batch, nothing of it was signed.
 */
int
chain_bad_line(struct chain *c, int how, const char *why, struct err *err)
{
	uint64_t k = c->tree.size, rest = segment_size(c->seg) - c->fault.off;
	bool last = c->file == c->files.n[0], later = false;
	struct record r;
	struct str line;
	struct hash leaf;
	uint64_t off;
	int n;

	if (last && how == SEGMENT_PART && k < c->newest) {
		chain_set_fault(c, LOG_KIND_CUT, k, c->newest - 1,
		    "the log ends within record %" PRIu64 ", signed are %" PRIu64, k, c->newest);
		return 0;
	}
	/* The next line decides between a record that was changed and one pushed in before it. */
	n = segment_next(c->seg, &line, &off, err);
	if (n < 0)
		return n;
	if (n == SEGMENT_LINE && chain_self_valid(line, &r, &leaf, NULL) == 0) {
		later = r.batch > k;
		if (r.seq == k && hash_eq(&r.prev, &c->head))
			chain_set_fault(
			    c, LOG_KIND_INSERTED, k, k, "before record %" PRIu64 ": %s", k, why);
	}
	if (c->fault.kind == LOG_KIND_NONE)
		chain_set_fault(c, LOG_KIND_CHANGED, k, k, "record %" PRIu64 ": %s", k, why);
	if (!last || rest > TORN_MAX || k < c->newest)
		return 0;
	if (!later && (n = any_later(c, batch_after, k, &later, err)) != 0)
		return n;
	if (!later) {
		c->fault.bytes = rest;
		chain_set_fault(
		    c, LOG_KIND_TORN, k, k, "%" PRIu64 " bytes of an unfinished write", rest);
	}
	return 0;
}

/* A line that is valid in itself, but not the next one. */
int
chain_wrong_record(
    struct chain *c, const struct record *r, const struct hash *leaf, struct err *err)
{
	uint64_t k = c->tree.size, seq = r->seq;
	struct hash old;
	bool later;
	int n;

	if (seq == k && !hash_eq(&r->prev, &c->head)) {
		chain_set_fault(c, LOG_KIND_CHANGED, k != 0 ? k - 1 : 0, k,
		    "record %" PRIu64 " follows another record than the one before it", k);
		return 0;
	}
	if (seq == k) {
		chain_set_fault(c, LOG_KIND_CHANGED, k, k,
		    "record %" PRIu64 ": batch %" PRIu64 " cannot be", k, r->batch);
		return 0;
	}
	if (seq < k) {
		if (leaf_before(c, seq, &old) && hash_eq(&old, leaf))
			chain_set_fault(c, LOG_KIND_DUPLICATED, seq, seq,
			    "record %" PRIu64 " stands again before record %" PRIu64, seq, k);
		else
			chain_set_fault(c, LOG_KIND_INSERTED, k, k,
			    "a record with number %" PRIu64 " stands before record %" PRIu64, seq,
			    k);
		return 0;
	}
	if ((n = any_later(c, has_seq, k, &later, err)) != 0)
		return n;
	if (later)
		chain_set_fault(c, LOG_KIND_REORDERED, k, seq,
		    "record %" PRIu64 " stands before record %" PRIu64, seq, k);
	else
		chain_set_fault(c, LOG_KIND_MISSING, k, seq - 1,
		    "record %" PRIu64 " is followed by record %" PRIu64, k != 0 ? k - 1 : 0, seq);
	return 0;
}
