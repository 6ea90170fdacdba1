/*
 * What stands beside the policy when an action is judged (process: core): emergency freezes as
 * overlays, exceptions and break-glass as lifts. An action gets copies, which go into its record,
 * so that judging it again has exactly what core had. What is not surely in force lifts nothing.
 */
#include "broker/core_lift.h"

#include <stdlib.h>

#include "broker/core_data.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- what holds -------------------------------------------------------------------- */

static bool
used_in(const struct core_txn *txn, const char *id)
{
	for (size_t i = 0; i < txn->nlifted; i++)
		if (strcmp(txn->lifted[i], id) == 0)
			return true;
	return false;
}

static bool
left(const struct core_lift *l, const struct core_txn *txn)
{
	return l->used < l->uses || used_in(txn, l->id);
}

/*
 * One's own run is not helped by one's own glass while a second person could still answer: the
 * first minutes belong to them.
 */
static bool
glass_acts(const struct core_lift *l, const struct core_run *run, int64_t now_us)
{
	int64_t wait = policy_emergency(l->core->policy).glass_answer_s;

	return strcmp(core_lift_starter(l), run->owner) != 0 ||
	       core_lift_people(l, LIFT_CONFIRM, run->owner) != 0 ||
	       now_us >= l->from_us + wait * 1000000;
}

static bool
lifts(struct core_lift *l, const struct core_run *run, struct str target,
    const struct core_txn *txn, int64_t now_us)
{
	if (l->kind == LIFT_KIND_FREEZE || l->state != CORE_LIFT_FORCE ||
	    !str_eqz(target, l->target) || (l->run[0] != '\0' && strcmp(l->run, run->id) != 0) ||
	    l->core->policy == NULL || !hash_eq(&l->policy, policy_digest(l->core->policy)))
		return false;
	return l->kind == LIFT_KIND_EXCEPTION
		   ? left(l, txn) && core_lift_quorum(l, str_z(run->owner))
		   : glass_acts(l, run, now_us);
}

static bool
freezes(const struct core_lift *l, struct str target)
{
	return l->kind == LIFT_KIND_FREEZE && l->state == CORE_LIFT_FORCE &&
	       (l->target[0] == '\0' || str_eqz(target, l->target));
}

/* --- copies ------------------------------------------------------------------------ */

static struct str
copy(const char *z)
{
	return str_mem(xstrdup(z), strlen(z));
}

static void
copy_free(struct str s)
{
	free((void *)(uintptr_t)s.p);
}

static struct policy_lift
lift_copy(const struct core_lift *l)
{
	return (struct policy_lift){.kind = (enum policy_lift_kind)l->kind,
	    .id = copy(l->id),
	    .rule = copy(l->rule),
	    .target = copy(l->target),
	    .run = copy(l->run),
	    .effects = l->effects,
	    .from_us = l->from_us,
	    .to_us = l->to_us};
}

static struct policy_overlay
overlay_copy(const struct core_lift *l)
{
	return (struct policy_overlay){.id = copy(l->id),
	    .why = copy(l->reason),
	    .target = copy(l->target),
	    .env = copy(l->env),
	    .effects = l->effects,
	    .from_us = l->from_us};
}

static struct core_beside *
beside_alloc(const struct core *c)
{
	struct core_beside *b = xcalloc(1, sizeof(*b));
	const struct core_lift *l;
	size_t n = 0;

	TAILQ_FOREACH (l, &c->lifts, link)
		n++;
	b->lifts = xcalloc(n, sizeof(*b->lifts));
	b->overlays = xcalloc(n, sizeof(*b->overlays));
	return b;
}

static void
beside_add(struct core_beside *b, const struct core_lift *l)
{
	if (l->kind == LIFT_KIND_FREEZE)
		b->overlays[b->noverlays++] = overlay_copy(l);
	else
		b->lifts[b->nlifts++] = lift_copy(l);
}

struct core_beside *
core_lift_beside(
    const struct core_run *run, struct str target, const struct core_txn *txn, struct instant now)
{
	struct core_beside *b = NULL;
	struct core_lift *l;

	TAILQ_FOREACH (l, &run->core->lifts, link)
		if (freezes(l, target) || (txn != NULL && lifts(l, run, target, txn, now.us))) {
			if (b == NULL)
				b = beside_alloc(run->core);
			beside_add(b, l);
		}
	return b;
}

void
core_lift_beside_free(struct core_beside *b)
{
	if (b == NULL)
		return;
	for (size_t i = 0; i < b->nlifts; i++) {
		copy_free(b->lifts[i].id);
		copy_free(b->lifts[i].rule);
		copy_free(b->lifts[i].target);
		copy_free(b->lifts[i].run);
	}
	for (size_t i = 0; i < b->noverlays; i++) {
		copy_free(b->overlays[i].id);
		copy_free(b->overlays[i].why);
		copy_free(b->overlays[i].target);
		copy_free(b->overlays[i].env);
	}
	free(b->lifts);
	free(b->overlays);
	free(b);
}

void
core_lift_beside_input(const struct core_beside *b, struct policy_input *in)
{
	if (b == NULL)
		return;
	in->lifts = b->lifts;
	in->nlifts = b->nlifts;
	in->overlays = b->overlays;
	in->noverlays = b->noverlays;
}

/* --- use --------------------------------------------------------------------------- */

static bool
use(struct core_lift *l, struct core_run *run, const struct core_action *a)
{
	AUTO_BUF struct buf b = BUF(512);
	struct jcs j;

	/* Burnt in memory first: whatever becomes of the record, it is not used twice. */
	l->used++;
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", a->id);
	jcs_z(&j, "id", l->id);
	jcs_int(&j, "used", l->used);
	jcs_close(&j);
	return core_record(l->core, &(struct core_append){.type = "exception.use",
					.run = run->id,
					.flags = CORE_REC_CHECKPOINT,
					.data = &b}) != NULL;
}

bool
core_lift_use(struct core_run *run, const struct core_action *a, const struct core_txn *txn)
{
	bool all = true;

	for (size_t i = 0; i < a->d.nlifted; i++) {
		struct core_lift *l = core_lift_find(run->core, a->d.lifted[i]);

		/* Of a COMMIT: its transaction has used it. */
		if (l == NULL || l->kind != LIFT_KIND_EXCEPTION || used_in(txn, l->id))
			continue;
		all = use(l, run, a) && all;
	}
	return all;
}
