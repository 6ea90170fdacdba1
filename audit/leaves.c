/*
 * Reads leaf hashes of a log, of records that were pruned as well. Runs in the command line. What
 * lies there may have been changed by whoever could write there: a wrong leaf is for the root to
 * find, a missing one is found here.
 */
#include "audit/leaves.h"

#include <fcntl.h>
#include <inttypes.h>

#include "common/cleanup.h"

#include "common/banned.h"

#define AT_ONCE 512 /* leaves of a file */

struct part {
	uint64_t first, end; /* its records; end UINT64_MAX: no segment follows */
	bool leaves;	     /* there is a file of them */
};

struct reading {
	struct leaves_place *at;
	const struct part *part;
	uint64_t to;
	leaves_fn *fn;
	void *arg;
};

/* How many of these numbers are at most seq. */
static size_t
up_to(const struct log_files *f, int which, uint64_t seq)
{
	size_t lo = 0, hi = f->n[which];

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->number[which][mid] <= seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The segment that record seq is in. Of a pruned one the leaves alone are there. */
static bool
part_of(const struct log_files *f, uint64_t seq, struct part *ret)
{
	bool found = false;

	*ret = (struct part){.end = UINT64_MAX};
	for (int which = 0; which < 2; which++) {
		size_t i = up_to(f, which, seq);

		if (i != 0 && (!found || f->number[which][i - 1] >= ret->first)) {
			ret->first = f->number[which][i - 1];
			ret->leaves = which == 1;
			found = true;
		}
		if (i < f->n[which] && f->number[which][i] < ret->end)
			ret->end = f->number[which][i];
	}
	return found;
}

static void
give(struct reading *r, const struct hash *leaf)
{
	uint64_t seq = r->at->seq++;

	r->fn(r->arg, seq, leaf, seq + 1 == r->part->end);
}

static int
of_leaves(int segdir, struct reading *r, struct err *err)
{
	uint64_t first = r->part->first;
	struct hash some[AT_ONCE];
	char name[LOG_NAME_SIZE];
	AUTO_FD int fd = -1;
	size_t n = 0;
	int rc;

	log_name(name, first, LOG_LEAVES);
	rc = log_open_file(segdir, name, O_RDONLY, &fd, err);
	while (rc == 0 && r->at->seq < r->to) {
		uint64_t want = r->to - r->at->seq < AT_ONCE ? r->to - r->at->seq : AT_ONCE;

		rc = log_pread(fd, some, want * HASH_LEN, (r->at->seq - first) * HASH_LEN, &n, err);
		for (size_t i = 0; rc == 0 && i < n / HASH_LEN; i++)
			give(r, &some[i]);
		if (n < HASH_LEN)
			break;
	}
	return rc;
}

static int
of_lines(int segdir, struct reading *r, struct err *err)
{
	struct leaves_place *at = r->at;
	bool known = at->segment == r->part->first && at->off != 0;
	uint64_t seq = known ? at->seq : r->part->first, off;
	struct segment *s = NULL;
	struct str line, body;
	struct hash leaf;
	int rc = segment_open(segdir, r->part->first, &s, err);

	if (rc == 0 && known)
		segment_skip(s, at->off);
	for (; rc == 0 && at->seq < r->to; seq++) {
		int how = segment_next(s, &line, &off, err);

		if (how < 0)
			rc = how;
		if (how != SEGMENT_LINE)
			break;
		if (seq < at->seq)
			continue;
		if (record_parse_line(line, &body, &leaf, NULL) != 0)
			break;
		at->segment = r->part->first;
		at->off = off + line.n;
		give(r, &leaf);
	}
	segment_free(s);
	return rc;
}

int
leaves_each(int segdir, const struct log_files *files, struct leaves_place *at, uint64_t size,
    leaves_fn *fn, void *arg, struct err *err)
{
	int rc = 0;

	while (rc == 0 && at->seq < size) {
		uint64_t before = at->seq;
		struct part p;
		struct reading r = {.at = at, .part = &p, .fn = fn, .arg = arg};

		if (part_of(files, before, &p)) {
			r.to = p.end < size ? p.end : size;
			rc = p.leaves ? of_leaves(segdir, &r, err) : of_lines(segdir, &r, err);
		}
		if (rc == 0 && at->seq == before)
			return err_set(err, ERR_TAMPER,
			    "record %" PRIu64 " is not there or not whole, but %" PRIu64
			    " were signed",
			    before, size);
	}
	return rc;
}
