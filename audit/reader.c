/*
 * Reads records by place. Runs in the command line and in exports; writes nothing. The places may
 * come from an index that somebody forged: what is at a place is believed only if it is a whole
 * line, with its hash and the number that was asked for.
 */
#include "audit/reader.h"

#include <fcntl.h>
#include <inttypes.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define FIRST_READ ((size_t)4096)

struct reader {
	int segdir;
	struct log_files files;
	/* onwards */
	size_t at; /* segment being read, or to be opened next */
	struct segment *seg;
	uint64_t seq; /* of the next record */
	uint64_t skip;
	struct hash prev;
	bool has_prev, ended;
	/* by place */
	int fd;
	size_t open;		    /* whose segment fd is */
	struct reader_place behind; /* the record that reader_at gave last */
	uint8_t line[RECORD_LINE_MAX], next[RECORD_LINE_MAX];
};

int
reader_open(int logdir, struct reader **ret, struct err *err)
{
	AUTO(reader) struct reader *r = xcalloc(1, sizeof(*r));
	int rc;

	r->segdir = r->fd = -1;
	if ((rc = log_open_dir(logdir, LOG_SEG, &r->segdir, err)) != 0 ||
	    (rc = log_files_list(logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &r->files, err)) != 0)
		return rc;
	r->seq = reader_first(r);
	*ret = TAKE_PTR(r);
	return 0;
}

void
reader_free(struct reader *r)
{
	if (r == NULL)
		return;
	segment_free(r->seg);
	log_files_free(&r->files);
	cleanup_close_fd(&r->fd);
	cleanup_close_fd(&r->segdir);
	free(r);
}

uint64_t
reader_first(const struct reader *r)
{
	return r->files.n[0] != 0 ? r->files.number[0][0] : 0;
}

bool
reader_holds(const struct reader *r, uint64_t seq)
{
	return r->files.n[0] != 0 && seq >= reader_first(r);
}

/* The segment that holds seq; one does (reader_holds). */
static size_t
segment_of(const struct reader *r, uint64_t seq)
{
	size_t lo = 0, hi = r->files.n[0];

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->files.number[0][mid] <= seq)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

uint64_t
reader_segment(const struct reader *r, uint64_t seq)
{
	return r->files.n[0] != 0 ? r->files.number[0][segment_of(r, seq)] : 0;
}

int
reader_seek(struct reader *r, const struct reader_place *at, struct err *err)
{
	if (!reader_holds(r, at->seq))
		return err_set(err, ERR_NOT_FOUND, "no segment holds record %" PRIu64, at->seq);
	segment_free(r->seg);
	r->seg = NULL;
	r->at = segment_of(r, at->seq);
	r->seq = at->seq;
	r->skip = at->off;
	r->has_prev = r->ended = false;
	return 0;
}

/* Was what could not be opened pruned since the files were listed? Then they are listed anew. */
static bool
pruned_meanwhile(struct reader *r)
{
	if (!log_segments_pruned(r->segdir, reader_first(r), &r->files))
		return false;
	cleanup_close_fd(&r->fd);
	return true;
}

/* --- onwards -------------------------------------------------------------------------------- */

/* Where it is now: at the first record that is there, or in the segment that was due. */
static void
begin_again(struct reader *r)
{
	if (!reader_holds(r, r->seq)) {
		r->seq = reader_first(r);
		r->skip = 0;
		r->has_prev = false;
	}
	r->at = segment_of(r, r->seq);
}

/* 1: the next line, whole or not; 0: the log ends here. */
static int
next_line(struct reader *r, struct str *ret_line, uint64_t *ret_off, struct err *err)
{
	while (r->at < r->files.n[0]) {
		uint64_t first = r->files.number[0][r->at];
		int rc;

		if (r->seg == NULL) {
			if (r->skip == 0 && first != r->seq)
				return err_set(err, ERR_TAMPER,
				    "segment %" PRIu64 " begins where record %" PRIu64
				    " must stand",
				    first, r->seq);
			rc = segment_open(r->segdir, first, &r->seg, err);
			if (rc == ERR_NOT_FOUND && pruned_meanwhile(r)) {
				err_clear(err);
				begin_again(r);
				continue;
			}
			if (rc != 0)
				return rc;
			segment_skip(r->seg, r->skip);
			r->skip = 0;
		}
		if ((rc = segment_next(r->seg, ret_line, ret_off, err)) != SEGMENT_END)
			return rc < 0 ? rc : 1;
		segment_free(r->seg);
		r->seg = NULL;
		r->at++;
	}
	return 0;
}

static int
parse(struct reader *r, struct str line, struct record *ret, struct hash *leaf, struct err *err)
{
	struct str body;

	if (record_parse_line(line, &body, leaf, err) != 0 || record_parse(body, ret, err) != 0)
		return err_wrap(err, "record %" PRIu64, r->seq);
	if (ret->seq != r->seq)
		return err_set(err, ERR_TAMPER, "record %" PRIu64 " stands where %" PRIu64 " must",
		    ret->seq, r->seq);
	if (r->has_prev && !hash_eq(&ret->prev, &r->prev))
		return err_set(
		    err, ERR_TAMPER, "record %" PRIu64 " does not follow the one before", r->seq);
	return 0;
}

int
reader_next(struct reader *r, struct record *ret, struct reader_place *ret_place,
    struct hash *ret_leaf, struct err *err)
{
	struct str line;
	uint64_t off;
	int rc;

	if (r->ended || (rc = next_line(r, &line, &off, err)) == 0)
		return 0;
	r->ended = true; /* unless it is a record */
	if (rc < 0)
		return rc;
	/* What is being written ends without LF, and so does what a crash left. */
	if (r->at + 1 == r->files.n[0] && line.n != 0 && line.p[line.n - 1] != '\n')
		return 0;
	if ((rc = parse(r, line, ret, ret_leaf, err)) != 0)
		return rc;
	*ret_place = (struct reader_place){.seq = r->seq, .off = off};
	r->prev = *ret_leaf;
	r->has_prev = true;
	r->seq++;
	r->ended = false;
	return 1;
}

/* --- by place ------------------------------------------------------------------------------- */

static int
open_for(struct reader *r, uint64_t seq, struct err *err)
{
	size_t at = segment_of(r, seq);
	char name[LOG_NAME_SIZE];

	if (r->fd >= 0 && r->open == at)
		return 0;
	cleanup_close_fd(&r->fd);
	log_name(name, r->files.number[0][at], LOG_LINES);
	r->open = at;
	return log_open_file(r->segdir, name, O_RDONLY, &r->fd, err);
}

/* The line at a place, with its LF. ERR_TAMPER: none; *ret is then what stands there. */
static int
line_at(struct reader *r, const struct reader_place *at, uint8_t line[RECORD_LINE_MAX],
    struct str *ret, struct err *err)
{
	const uint8_t *lf = NULL;
	size_t n = 0;
	int rc;

	if (!reader_holds(r, at->seq))
		return err_set(err, ERR_NOT_FOUND, "no segment holds record %" PRIu64, at->seq);
	rc = open_for(r, at->seq, err);
	if (rc == ERR_NOT_FOUND && pruned_meanwhile(r)) {
		err_clear(err);
		return line_at(r, at, line, ret, err);
	}
	if (rc != 0)
		return rc;
	for (size_t want = FIRST_READ; lf == NULL; want = RECORD_LINE_MAX) {
		if ((rc = log_pread(r->fd, line, want, at->off, &n, err)) != 0)
			return rc;
		lf = memchr(line, '\n', n);
		if (want == RECORD_LINE_MAX)
			break;
	}
	*ret = str_mem(line, lf != NULL ? (size_t)(lf - line) + 1 : n);
	if (lf == NULL)
		return err_set(err, ERR_TAMPER, "no line of record %" PRIu64 " at byte %" PRIu64,
		    at->seq, at->off);
	return 0;
}

static int
record_of(struct str line, const struct reader_place *at, struct record *ret, struct hash *ret_leaf,
    struct err *err)
{
	struct str body;

	if (record_parse_line(line, &body, ret_leaf, err) != 0 || record_parse(body, ret, err) != 0)
		return err_wrap(err, "record %" PRIu64, at->seq);
	if (ret->seq != at->seq)
		return err_set(err, ERR_TAMPER,
		    "record %" PRIu64 " is not at byte %" PRIu64 ": %" PRIu64 " is", at->seq,
		    at->off, ret->seq);
	return 0;
}

int
reader_at(struct reader *r, const struct reader_place *at, struct record *ret,
    struct hash *ret_leaf, struct err *err)
{
	struct str line;
	int rc = line_at(r, at, r->line, &line, err);

	if (rc == 0)
		rc = record_of(line, at, ret, ret_leaf, err);
	if (rc == 0)
		r->behind = (struct reader_place){.seq = at->seq + 1, .off = at->off + line.n};
	return rc;
}

int
reader_at_followed(struct reader *r, const struct hash *leaf, struct err *err)
{
	struct reader_place at = r->behind;
	struct record next;
	struct hash its;
	struct str line;
	int rc;

	if (reader_segment(r, at.seq) == at.seq)
		at.off = 0; /* it is the first of a segment */
	rc = line_at(r, &at, r->next, &line, err);
	if (rc == ERR_NOT_FOUND ||
	    (rc == ERR_TAMPER && line.n < RECORD_LINE_MAX && r->open + 1 == r->files.n[0])) {
		err_clear(err); /* pruned meanwhile; or the log ends, maybe in an unfinished line */
		return 0;
	}
	if (rc == 0)
		rc = record_of(line, &at, &next, &its, err);
	if (rc == 0 && !hash_eq(&next.prev, leaf))
		rc = err_set(
		    err, ERR_TAMPER, "record %" PRIu64 " does not follow the one before", at.seq);
	return rc;
}
