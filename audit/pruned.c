/*
 * Reads what is left of pruned records. Runs in the writer at each start and in whoever reads a
 * log. Trusts nothing there: a kept line counts only if it has the leaf hash that its segment's
 * leaves say, and these are what the signed root is made of. Writes nothing.
 */
#include "audit/pruned.h"

#include <fcntl.h>
#include <inttypes.h>

#include "common/cleanup.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define LEAVES_MAX ((size_t)256 << 20)

struct pruned {
	int segdir, keptdir; /* keptdir -1: nothing was kept */
	const struct log_files *files;
	uint64_t first; /* the first record that is there */
	uint64_t seg;	/* of the leaves that are read */
	struct buf leaves;
	struct segment *kept; /* NULL: no line of this segment is left */
	struct record line;   /* the next kept one */
	struct hash line_leaf;
	bool has_line;
};

int
pruned_open(int logdir, const struct log_files *files, struct pruned **ret, struct err *err)
{
	struct pruned *p;
	int r;

	*ret = NULL;
	if (files->n[0] == 0 || files->number[0][0] == 0)
		return 0;
	p = xcalloc(1, sizeof(*p));
	p->files = files;
	p->first = files->number[0][0];
	p->segdir = p->keptdir = -1;
	buf_init(&p->leaves, LEAVES_MAX);
	r = log_open_dir(logdir, LOG_SEG, &p->segdir, err);
	if (r == 0)
		r = log_or_none(log_open_dir(logdir, LOG_KEPT, &p->keptdir, err), err);
	if (r != 0) {
		pruned_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void
pruned_free(struct pruned *p)
{
	if (p == NULL)
		return;
	segment_free(p->kept);
	buf_free(&p->leaves);
	cleanup_close_fd(&p->segdir);
	cleanup_close_fd(&p->keptdir);
	free(p);
}

uint64_t
pruned_segment(const struct pruned *p)
{
	return p->seg;
}

/* The next kept line, if there is one. */
static int
next_line(struct pruned *p, struct err *err)
{
	struct str line, body;
	uint64_t off;
	int r;

	p->has_line = false;
	if (p->kept == NULL)
		return 0;
	if ((r = segment_next(p->kept, &line, &off, err)) <= 0)
		return r;
	if (r != SEGMENT_LINE || record_parse_line(line, &body, &p->line_leaf, NULL) != 0 ||
	    record_parse(body, &p->line, NULL) != 0)
		return err_set(err, ERR_TAMPER,
		    LOG_KEPT "/%020" PRIu64 LOG_LINES " holds no record at byte %" PRIu64, p->seg,
		    off);
	p->has_line = true;
	return 0;
}

/* 1: leaves begin at record k; 0: none do. */
static int
open_at(struct pruned *p, uint64_t k, struct err *err)
{
	char name[LOG_NAME_SIZE];
	int r;

	if (k >= p->first || !log_files_has(p->files, 1, k))
		return 0;
	segment_free(TAKE_PTR(p->kept));
	buf_reset(&p->leaves);
	p->seg = k;
	log_name(name, k, LOG_LEAVES);
	if ((r = log_read_file(p->segdir, name, &p->leaves, err)) != 0)
		return r;
	if (p->leaves.n < HASH_LEN)
		return 0;
	if (p->keptdir >= 0 && (r = segment_open(p->keptdir, k, &p->kept, err)) != 0) {
		if (r != ERR_NOT_FOUND)
			return r;
		err_clear(err);
	}
	r = next_line(p, err);
	return r != 0 ? r : 1;
}

static int
not_of_these(const struct pruned *p, struct err *err)
{
	return err_set(err, ERR_TAMPER,
	    LOG_KEPT "/%020" PRIu64 LOG_LINES " holds a record %" PRIu64
		     " that is none of the pruned ones",
	    p->seg, p->line.seq);
}

int
pruned_next(struct pruned *p, uint64_t k, struct hash *ret_leaf, struct record *ret, bool *ret_is,
    struct err *err)
{
	uint64_t n = p->leaves.n / HASH_LEN;
	int r;

	/* The line that was given last is done with only now: it is borrowed. */
	if (p->has_line && p->line.seq + 1 == k && k > p->seg && (r = next_line(p, err)) != 0)
		return r;
	if (n == 0 || k - p->seg >= n) {
		if (p->has_line)
			return not_of_these(p, err);
		if ((r = open_at(p, k, err)) <= 0)
			return r;
	}
	memcpy(ret_leaf->b, p->leaves.p + (k - p->seg) * HASH_LEN, HASH_LEN);
	*ret_is = p->has_line && p->line.seq == k;
	if (p->has_line && (p->line.seq < k || (*ret_is && !hash_eq(&p->line_leaf, ret_leaf))))
		return not_of_these(p, err);
	if (*ret_is)
		*ret = p->line;
	return 1;
}

/* --- what was kept, as the record of a prune names it ------------------------------------- */

struct kept_sum {
	int dir; /* -1: nothing was kept */
	struct log_files files;
	uint64_t from, to;
	struct hash_ctx *all, *own; /* own: of the file that is being read */
	size_t at;
	int fd;
	uint64_t off;
	uint8_t some[65536];
};

int
kept_sum_new(int logdir, uint64_t from, uint64_t to, struct kept_sum **ret, struct err *err)
{
	struct kept_sum *k = xcalloc(1, sizeof(*k));
	int r;

	k->from = from;
	k->to = to;
	k->fd = k->dir = -1;
	k->all = hash_begin();
	r = log_open_dir(logdir, LOG_KEPT, &k->dir, err);
	if (r == 0)
		r = log_files_list(logdir, LOG_KEPT, LOG_LINES, LOG_PACK, &k->files, err);
	r = log_or_none(r, err);
	if (r != 0) {
		kept_sum_free(k);
		return r;
	}
	*ret = k;
	return 0;
}

void
kept_sum_free(struct kept_sum *k)
{
	if (k == NULL)
		return;
	if (k->own != NULL)
		(void)hash_end(k->own);
	if (k->all != NULL)
		(void)hash_end(k->all);
	cleanup_close_fd(&k->fd);
	cleanup_close_fd(&k->dir);
	log_files_free(&k->files);
	free(k);
}

static void
file_end(struct kept_sum *k)
{
	struct hash is = hash_end(TAKE_PTR(k->own));
	uint64_t number = k->files.number[0][k->at];
	uint8_t be[8];

	for (int i = 0; i < 8; i++)
		be[i] = (uint8_t)(number >> (56 - 8 * i));
	hash_add(k->all, be, sizeof(be));
	hash_add(k->all, is.b, HASH_LEN);
	cleanup_close_fd(&k->fd);
	k->off = 0;
	k->at++;
}

int
kept_sum_more(struct kept_sum *k, struct hash *ret, struct err *err)
{
	char name[LOG_NAME_SIZE];
	size_t n = 0;
	int r;

	while (k->at < k->files.n[0] && k->files.number[0][k->at] < k->from)
		k->at++;
	if (k->at == k->files.n[0] || k->files.number[0][k->at] >= k->to) {
		*ret = hash_end(TAKE_PTR(k->all));
		return 0;
	}
	log_name(name, k->files.number[0][k->at], LOG_LINES);
	if (k->fd < 0 && (r = log_open_file(k->dir, name, O_RDONLY, &k->fd, err)) != 0)
		return r;
	if (k->own == NULL)
		k->own = hash_begin();
	if ((r = log_pread(k->fd, k->some, sizeof(k->some), k->off, &n, err)) != 0)
		return r;
	hash_add(k->own, k->some, n);
	k->off += n;
	if (n == 0)
		file_end(k);
	return 1;
}

int
kept_digest(int logdir, uint64_t from, uint64_t to, struct hash *ret, struct err *err)
{
	struct kept_sum *k = NULL;
	int r = kept_sum_new(logdir, from, to, &k, err);

	while (r == 0 && (r = kept_sum_more(k, ret, err)) == 1)
		r = 0;
	kept_sum_free(k);
	return r;
}
