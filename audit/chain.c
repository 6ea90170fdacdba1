/*
 * Reads a log from its first record to its last, or to the first that does not fit, and says
 * which of the known ways of tampering it is. Runs in the writer at each start and in every
 * verifier. Trusts nothing on disk; does not look at signatures (verify.c and recovery do).
 */
#include "audit/chain_int.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/pruned.h"
#include "common/xalloc.h"

#include "common/banned.h"

const char *
log_kind_name(enum log_kind k)
{
	static const char *const names[] = {"none",
#define X(name, word) word,
	    LOG_KINDS(X)
#undef X
	};

	assert((size_t)k < ARRAY_LEN(names));
	return names[k];
}

struct chain *
chain_of_nothing(int logdir, uint64_t newest)
{
	struct chain *c = xcalloc(1, sizeof(*c));

	c->logdir = logdir;
	c->newest = newest;
	c->segdir = -1;
	return c;
}

int
chain_open(int logdir, uint64_t newest, struct chain **ret, struct err *err)
{
	struct chain *c = chain_of_nothing(logdir, newest);
	int r = log_open_dir(logdir, LOG_SEG, &c->segdir, err);

	if (r == 0)
		r = log_files_list(logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &c->files, err);
	if (r == 0)
		r = pruned_open(logdir, &c->files, &c->pruned, err);
	if (r != 0) {
		chain_free(c);
		return r;
	}
	c->gone = c->pruned != NULL ? c->files.number[0][0] : 0;
	*ret = c;
	return 0;
}

void
chain_on_gone(struct chain *c, chain_gone_fn *fn, void *arg)
{
	c->on_gone = fn;
	c->on_gone_arg = arg;
}

bool
chain_skip(struct chain *c, const struct chain_from *from)
{
	size_t i = 0;

	while (i < c->files.n[0] && c->files.number[0][i] < from->tree.size)
		i++;
	if (i == c->files.n[0] || c->files.number[0][i] != from->tree.size)
		return false;
	pruned_free(TAKE_PTR(c->pruned));
	c->gone = 0;
	c->file = i;
	c->tree = from->tree;
	c->head = from->head;
	return true;
}

void
chain_free(struct chain *c)
{
	if (c == NULL)
		return;
	segment_free(c->seg);
	pruned_free(c->pruned);
	cleanup_close_fd(&c->segdir);
	log_files_free(&c->files);
	free(c);
}

uint64_t
chain_size(const struct chain *c)
{
	return c->tree.size;
}

const struct hash *
chain_head(const struct chain *c)
{
	return &c->head;
}

const struct tree_range *
chain_tree(const struct chain *c)
{
	return &c->tree;
}

bool
chain_is_kept(const struct chain *c)
{
	return c->pruned != NULL;
}

uint64_t
chain_segment(const struct chain *c)
{
	if (c->pruned != NULL)
		return pruned_segment(c->pruned);
	return c->file != 0 ? c->files.number[0][c->file - 1] : 0;
}

const struct log_files *
chain_files(const struct chain *c)
{
	return &c->files;
}

const struct log_fault *
chain_fault(const struct chain *c)
{
	return &c->fault;
}

/* The next leaf. False: with it the tree is not the one that a head is said to have signed. */
static bool
push(struct chain *c, const struct hash *leaf)
{
	struct hash root;

	tree_push(&c->tree, leaf);
	c->head = *leaf;
	if (c->tree.size != c->sure.size)
		return true;
	root = tree_root(&c->tree);
	c->unlike = c->ended = !hash_eq(&root, &c->sure.root);
	return !c->unlike;
}

/* --- pruned records ------------------------------------------------------------------------ */

/* What nobody signed does not say that anything was pruned. */
static void
note_prune(struct chain *c, const struct record *r)
{
	uint64_t to;

	if (str_eqz(r->type, "log.prune") && (c->newest == 0 || r->seq < c->newest) &&
	    canon_u64(canon_get(r->data, "to"), &to) && to > c->said)
		c->said = to;
}

/* 1: a record that was kept; 0: there are no more of them, or a fault. */
static int
take_pruned(struct chain *c, struct record *ret, struct hash *ret_leaf, struct err *err)
{
	for (;;) {
		uint64_t k = c->tree.size;
		struct err why = {0};
		bool kept;
		int r = pruned_next(c->pruned, k, ret_leaf, ret, &kept, &why);

		if (r == ERR_TAMPER)
			chain_set_fault(c, LOG_KIND_KEPT, k, k, "%.150s", why.msg);
		if (r == 0)
			pruned_free(TAKE_PTR(c->pruned));
		if (r < 0 && r != ERR_TAMPER)
			return err_set(err, r, "%s", why.msg);
		if (r <= 0)
			return 0;
		if (!push(c, ret_leaf))
			return 0;
		if (kept) {
			note_prune(c, ret);
			return 1;
		}
		if (c->on_gone != NULL)
			c->on_gone(c->on_gone_arg, &c->tree);
	}
}

bool
chain_pruned_ok(struct chain *c)
{
	if (c->gone > c->said && (c->fault.kind == LOG_KIND_NONE || c->fault.kind == LOG_KIND_TORN))
		chain_set_fault(c, LOG_KIND_MISSING, c->said, c->gone - 1,
		    "records %" PRIu64 " to %" PRIu64
		    " are not there, and no signed record says that they were pruned",
		    c->said, c->gone - 1);
	return c->fault.kind == LOG_KIND_NONE;
}

/* --- lines and segments ---------------------------------------------------------------- */

/* The segment due was there when files were listed. If it was pruned since, its rest is read. */
static int
pruned_meanwhile(struct chain *c, struct err *err)
{
	if (!log_segments_pruned(c->segdir, c->tree.size, &c->files))
		return ERR_NOT_FOUND; /* err says what */
	c->file = 0;
	c->gone = c->files.number[0][0];
	err_clear(err);
	return pruned_open(c->logdir, &c->files, &c->pruned, err);
}

/* The next segment file, whose name must be the number of its first record. */
static int
next_segment(struct chain *c, struct err *err)
{
	uint64_t k = c->tree.size, name, first;
	int r;

	segment_free(TAKE_PTR(c->seg));
	if (c->file == c->files.n[0])
		return 0;
	name = c->files.number[0][c->file];
	if (name == k) {
		c->offset = 0;
		r = segment_open(c->segdir, name, &c->seg, err);
		if (r == ERR_NOT_FOUND)
			return pruned_meanwhile(c, err);
		c->file += r == 0;
		return r;
	}
	c->fault.segment = name;
	if (chain_first_seq(c, c->file, &first) && first == k)
		chain_set_fault(c, LOG_KIND_MISPLACED, k, k,
		    "the segment of record %" PRIu64 " is named %" PRIu64, k, name);
	else if (name > k)
		chain_set_fault(c, LOG_KIND_MISSING, k, name - 1,
		    "no segment holds records %" PRIu64 " to %" PRIu64, k, name - 1);
	else
		chain_set_fault(c, LOG_KIND_INSERTED, k, k,
		    "segment %" PRIu64 " stands where record %" PRIu64 " is due", name, k);
	return 0;
}

static int
judge_line(struct chain *c, int how, struct str line, struct record *ret, struct hash *ret_leaf,
    struct err *err)
{
	if (how != SEGMENT_LINE)
		return chain_bad_line(
		    c, how, how == SEGMENT_LONG ? "line too long" : "line does not end", err);
	if (chain_self_valid(line, ret, ret_leaf, NULL) != 0) {
		struct err why = {0}; /* not cleared for each good record: it is large */

		(void)chain_self_valid(line, ret, ret_leaf, &why);
		return chain_bad_line(c, how, why.msg, err);
	}
	if (ret->seq != c->tree.size || !hash_eq(&ret->prev, &c->head) ||
	    (ret->batch != c->batch && ret->batch != ret->seq))
		return chain_wrong_record(c, ret, ret_leaf, err);
	return 1;
}

static int
take_line(struct chain *c, int how, struct str line, struct record *ret, struct hash *ret_leaf,
    struct err *err)
{
	int r = c->tree.size < c->sure.size ? chain_signed_line(c, line, ret, ret_leaf)
					    : judge_line(c, how, line, ret, ret_leaf, err);

	if (r != 1)
		return r;
	if (!push(c, ret_leaf))
		return 0;
	note_prune(c, ret);
	c->batch = ret->batch;
	c->offset += line.n;
	return 1;
}

int
chain_next(struct chain *c, struct record *ret, struct hash *ret_leaf, struct err *err)
{
	while (!c->ended && c->fault.kind == LOG_KIND_NONE) {
		struct str line;
		int r = c->pruned != NULL ? take_pruned(c, ret, ret_leaf, err) : 0;

		if (r != 0)
			return r;
		if (c->fault.kind != LOG_KIND_NONE || c->unlike)
			break;
		r = c->seg != NULL ? segment_next(c->seg, &line, &c->fault.off, err) : SEGMENT_END;

		if (r < 0)
			return r;
		if (r != SEGMENT_END) {
			c->fault.segment = chain_segment(c);
			if ((r = take_line(c, r, line, ret, ret_leaf, err)) != 0)
				return r;
			break;
		}
		c->ended = c->file == c->files.n[0];
		if (!c->ended && (r = next_segment(c, err)) != 0)
			return r;
	}
	(void)chain_pruned_ok(c);
	return 0;
}
