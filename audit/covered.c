/*
 * Runs in the command line, beside a writer that appends, seals and prunes. Of the files nothing is
 * believed but what the signed root confirms.
 */
#include "audit/covered.h"

#include <inttypes.h>

#include "audit/leaves.h"
#include "audit/tree.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct mark {
	uint64_t seq;
	struct hash leaf;
};

struct covered {
	int logdir;
	struct tree_range tree; /* as it was signed */
	struct leaves_place place;
	struct mark *mark;
	size_t n, room, at;
};

/* Up to a head that has not been compared yet. */
struct onward {
	struct covered *c;
	struct tree_range tree;
	uint64_t from, size;
};

struct covered *
covered_new(int logdir)
{
	struct covered *c = xcalloc(1, sizeof(*c));

	c->logdir = logdir;
	return c;
}

void
covered_free(struct covered *c)
{
	if (c != NULL)
		free(c->mark);
	free(c);
}

static void
take(void *arg, uint64_t seq, const struct hash *leaf, bool ends)
{
	struct onward *o = arg;
	struct covered *c = o->c;

	tree_push(&o->tree, leaf);
	if (seq < o->from || (!ends && seq + 1 != o->size && (seq + 1) % COVERED_STRIDE != 0))
		return;
	if (c->n == c->room) {
		c->room = c->room != 0 ? c->room * 2 : COVERED_STRIDE;
		c->mark = xreallocarray(c->mark, c->room, sizeof(*c->mark));
	}
	c->mark[c->n++] = (struct mark){seq, *leaf};
}

static int
read_on(
    struct onward *o, struct leaves_place *place, const struct hash *signed_root, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	AUTO_FD int segdir = -1;
	struct hash root;
	int r = log_open_dir(o->c->logdir, LOG_SEG, &segdir, err);

	if (r == 0)
		r = log_files_list(o->c->logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &files, err);
	if (r == 0)
		r = leaves_each(segdir, &files, place, o->size, take, o, err);
	if (r != 0)
		return r;
	root = tree_root(&o->tree);
	return hash_eq(&root, signed_root)
		   ? 0
		   : err_set(err, ERR_TAMPER,
			 "the log is not the one that was signed up to size %" PRIu64
			 ": `cofferdam log verify` says where",
			 o->size);
}

/* Marks that are passed. */
static void
forget(struct covered *c, uint64_t from)
{
	size_t i = 0;

	while (i < c->n && c->mark[i].seq < from)
		i++;
	memmove(c->mark, c->mark + i, (c->n - i) * sizeof(*c->mark));
	c->n -= i;
	c->at = 0;
}

int
covered_to(struct covered *c, const struct checkpoint *cp, uint64_t from, struct err *err)
{
	uint64_t first = log_first(c->logdir);
	unsigned tries = 0;
	size_t marks;
	int r;

	if (c->n != 0)
		forget(c, from);
	marks = c->n;
	do { /* again where segments went meanwhile, and once before anything is called wrong */
		struct leaves_place place = c->place;
		struct onward o = {c, c->tree, from, cp->size};

		err_clear(err);
		c->n = marks;
		if ((r = read_on(&o, &place, &cp->root, err)) == 0) {
			c->tree = o.tree;
			c->place = place;
			return 0;
		}
	} while (log_first_moved(c->logdir, &first) || ++tries < 2);
	c->n = marks;
	return r;
}

const struct hash *
covered_mark(struct covered *c, uint64_t seq)
{
	while (c->at < c->n && c->mark[c->at].seq < seq)
		c->at++;
	return c->at < c->n && c->mark[c->at].seq == seq ? &c->mark[c->at].leaf : NULL;
}
