/*
 * The log is tended while it is written. Runs in the writer, between batches: each step is short
 * and a rest follows that is nine times as long, so that no record waits for it. An order to prune
 * is looked for each second. It must never go on after an error of sync.
 */
#include "audit/writer_tend.h"

#include "audit/writer_prune.h"
#include "audit/writer_recheck.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define LOOK_MS 1000
#define REST_MS 2 /* at least, between two steps */

struct tend {
	struct loop *loop;
	struct loop_timer *timer;
	struct recheck *recheck;
	struct prune *prune;
	uint64_t pruned; /* what the recheck was told last */
	tend_commit_fn *commit;
	void *arg;
};

static void
on_timer(void *arg)
{
	struct tend *t = arg;
	uint64_t begin = clock_boot_us(), rest = LOOK_MS;
	struct err err = {0};
	int r = prune_step(t->prune, &err);

	if (r < 0)
		fatal("the decision log stops: %s", err.msg);
	if (r == PRUNE_COMMIT)
		t->commit(t->arg);
	if (prune_to(t->prune) > t->pruned) {
		t->pruned = prune_to(t->prune);
		recheck_again(t->recheck);
	}
	if (r != PRUNE_IDLE)
		rest = (clock_boot_us() - begin) * 9 / 1000 + REST_MS;
	t->timer = loop_timer_add(t->loop, rest, on_timer, t);
}

struct tend *
tend_new(struct loop *loop, int logdir, struct store *s, struct ipc *const *core,
    tend_commit_fn *commit, void *arg)
{
	struct tend *t = xcalloc(1, sizeof(*t));

	t->loop = loop;
	t->recheck = recheck_new(loop, logdir, s, core, RECHECK_PASS_MS);
	t->prune = prune_new(s);
	t->commit = commit;
	t->arg = arg;
	t->timer = loop_timer_add(loop, 0, on_timer, t);
	return t;
}

void
tend_free(struct tend *t)
{
	if (t == NULL)
		return;
	loop_timer_del(t->timer);
	recheck_free(t->recheck);
	prune_free(t->prune);
	free(t);
}

void
tend_tell(const struct tend *t, struct ipc *core)
{
	if (t != NULL)
		recheck_tell(t->recheck, core);
}
