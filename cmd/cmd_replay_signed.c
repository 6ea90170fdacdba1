/*
 * Runs as the reviewer, beside a writer that appends and prunes. The head is read before the
 * records, so all that it covers is there.
 */
#include "cmd/cmd_replay_signed.h"

#include <inttypes.h>
#include <stdio.h>

#include "audit/checkpoint.h"
#include "audit/verdict.h"
#include "audit/verify.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct replay_signed {
	const struct cmd_place *place;
	struct vkeys keys;
	struct checkpoint head;
	bool has_head, doubted; /* doubted: there is one that does not hold, or by no trusted key */
	struct verdict seen;	/* of what is read */
};

void
replay_signed_free(struct replay_signed *s)
{
	free(s);
}

int
replay_signed_new(
    const struct cmd_place *place, const char *vkey, struct replay_signed **ret, struct err *err)
{
	AUTO_FREE struct replay_signed *s = xcalloc(1, sizeof(*s));
	int r = cmd_place_keys(place, vkey, &s->keys, err);

	s->place = place;
	if (r != 0)
		return r;
	r = cmd_place_newest(place, vkey, &s->keys, &s->head, err);
	s->has_head = r == 0;
	s->doubted = r == ERR_TAMPER || r == ERR_CONFIG;
	if (r != 0 && r != ERR_NOT_FOUND && !s->doubted)
		return r;
	err_clear(err);
	*ret = TAKE_PTR(s);
	return 0;
}

/* Is this the size that was signed, and the tree of that? */
static void
hold(struct replay_signed *s, const struct tree_range *tree, struct str time)
{
	struct hash root;

	if (!s->has_head || tree->size != s->head.size)
		return;
	root = tree_root(tree);
	if (!hash_eq(&root, &s->head.root))
		return;
	s->seen.verified = s->head.size;
	s->seen.root = root;
	memcpy(s->seen.origin, s->head.origin, sizeof(s->seen.origin));
	(void)snprintf(s->seen.time, sizeof(s->seen.time), "%.*s", STR_ARG(time));
}

static void
gone(void *arg, const struct tree_range *tree)
{
	hold(arg, tree, STR(""));
}

int
replay_signed_chain(struct replay_signed *s, struct chain **ret, struct err *err)
{
	int r = chain_open(s->place->logdir, s->has_head ? s->head.size : 0, ret, err);

	if (r == 0)
		chain_on_gone(*ret, gone, s);
	return r;
}

void
replay_signed_record(struct replay_signed *s, const struct chain *c, const struct record *r)
{
	hold(s, chain_tree(c), r->time);
}

/* All of it once more, for what is wrong with it. */
static int
verify(struct replay_signed *s, struct buf *said, bool *ret_holds, struct err *err)
{
	AUTO_FREE struct verdict *v = xcalloc(1, sizeof(*v));
	int r = verify_log(s->place->logdir, &s->keys, NULL, 0, v, err);

	if (r != 0)
		return r;
	*ret_holds = verdict_clean(v);
	if (!*ret_holds)
		verdict_put(said, v);
	return 0;
}

int
replay_signed_end(struct replay_signed *s, const struct chain *c, struct buf *ret_said,
    bool *ret_holds, struct err *err)
{
	const struct log_fault *f = chain_fault(c);
	bool faulty = f->kind != LOG_KIND_NONE && f->kind != LOG_KIND_TORN;
	bool whole = !s->has_head || s->seen.verified == s->head.size;
	int r = 0;

	s->seen.size = chain_size(c);
	s->seen.torn = f->kind == LOG_KIND_TORN ? f->bytes : 0;
	*ret_holds = true;
	if (faulty || !whole || s->doubted)
		r = verify(s, ret_said, ret_holds, err);
	if (r != 0)
		return r;
	/* A prune that was signed behind the head, while this was read, is no fault. */
	if (faulty && (!*ret_holds || !s->has_head || !whole))
		return err_set(err, ERR_TAMPER, "the log does not hold at seq %" PRIu64 ": %s: %s",
		    f->seq, log_kind_name(f->kind), f->text);
	if (*ret_holds && !whole)
		return err_set(err, ERR_TAMPER,
		    "the log is not the one that was signed up to size %" PRIu64, s->head.size);
	if (*ret_holds && verdict_status(&s->seen) != 0)
		verdict_put_last(ret_said, &s->seen);
	return 0;
}
