/*
 * Child runs (process: core). A run is registered as another's child by the same person under the
 * same login and agent name, so that no rule says more of it than of its parent; targets, effects
 * and budgets are among the parent's. It must never outlive its parent, and never count apart.
 */
#include "broker/core_child.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/core_run.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define NAME_MAX_ (CORE_BUDGET_NAME - 1)

/* --- who belongs to whom --------------------------------------------------------------- */

struct core_run *
core_child_parent(const struct core_run *run)
{
	return run->parent[0] != '\0' ? core_run_find(run->core, str_z(run->parent)) : NULL;
}

struct core_run *
core_child_root(struct core_run *run)
{
	struct core_run *up;

	for (int i = 0; i < CORE_DEPTH_MAX && (up = core_child_parent(run)) != NULL; i++)
		run = up;
	return run;
}

static bool
is_child(const struct core_run *child, const struct core_run *run)
{
	return strcmp(child->parent, run->id) == 0;
}

size_t
core_child_count(const struct core_run *run)
{
	const struct core_run *r;
	size_t n = 0;

	TAILQ_FOREACH (r, &run->core->runs, link)
		n += is_child(r, run);
	return n;
}

/* --- registration ---------------------------------------------------------------------- */

static int
ceilings(const struct core_run *parent, struct err *err)
{
	if (parent->depth >= CORE_DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE,
		    "run %s is %u below the run that a person started, the limit", parent->id,
		    parent->depth);
	if (core_child_count(parent) >= CORE_CHILDREN_MAX)
		return err_set(err, ERR_TOO_LARGE,
		    "run %s has %d children, the limit: one must end first", parent->id,
		    CORE_CHILDREN_MAX);
	if (parent->nchildren >= CORE_CHILDREN_EVER)
		return err_set(err, ERR_TOO_LARGE, "run %s has had %d children, the limit",
		    parent->id, CORE_CHILDREN_EVER);
	return 0;
}

int
core_child_join(struct core_run *run, struct str parent, struct err *err)
{
	struct core_run *up = core_run_find(run->core, parent);
	int rc;

	if (up == NULL || up->state != CORE_RUN_LIVE)
		return err_set(err, ERR_NOT_FOUND,
		    "there is no run \"%.*s\" that could be its parent", STR_ARG(parent));
	if (strcmp(up->login, run->login) != 0 || strcmp(up->owner, run->owner) != 0)
		return err_set(err, ERR_UNAUTHORISED, "run %s is another person's", up->id);
	if (strcmp(up->agent, run->agent) != 0)
		return err_set(err, ERR_DENIED,
		    "a child run has its parent's agent name, \"%s\": rules may say more of "
		    "another",
		    up->agent);
	if ((rc = ceilings(up, err)) != 0)
		return rc;
	memcpy(run->parent, up->id, sizeof(run->parent));
	run->depth = up->depth + 1;
	run->paused = up->paused; /* its agent is told when it begins */
	up->nchildren++;
	return 0;
}

int
core_child_effects(struct core_run *run, struct rd *body, struct err *err)
{
	const struct core_run *up = core_child_parent(run);
	uint32_t n = rd_u32(body), set = 0;

	for (uint32_t i = 0; i < n && !body->bad; i++) {
		struct str name = rd_lstr(body);
		uint32_t e = effect_parse(name);

		if (e == 0)
			return err_set(
			    err, ERR_INVALID, "there is no effect \"%.*s\"", STR_ARG(name));
		set |= e;
	}
	if (up != NULL && (set & ~up->most) != 0) {
		AUTO_BUF struct buf b = BUF(512);

		effect_put(&b, set & ~up->most);
		return err_set(err, ERR_DENIED, "run %s, its parent, has no effect %.*s itself",
		    up->id, STR_ARG(buf_str(&b)));
	}
	run->most = set != 0 ? set : up != NULL ? up->most : CORE_EFFECTS_ANY;
	return 0;
}

bool
core_child_has(const struct core_run *run, struct str target)
{
	const struct core_run *up = core_child_parent(run);

	if (run->parent[0] == '\0')
		return true;
	for (size_t i = 0; up != NULL && i < up->ntargets; i++)
		if (up->targets[i].state != CORE_TARGET_GONE && str_eqz(target, up->targets[i].id))
			return true;
	return false;
}

/* --- budgets --------------------------------------------------------------------------- */

static uint64_t
budget_of(const struct core_run *run, const char *name)
{
	for (size_t i = 0; i < run->nbudgets; i++)
		if (strcmp(run->budgets[i].name, name) == 0)
			return run->budgets[i].n;
	return 0;
}

static int
budget_take(struct core_run *run, const struct json *o, struct err *err)
{
	if (json_type(o) != JSON_OBJECT || json_count(o) > CORE_BUDGETS_MAX)
		return err_set(err, ERR_INVALID, "budget must be an object of up to %d numbers",
		    CORE_BUDGETS_MAX);
	for (size_t i = 0; i < json_count(o); i++) {
		struct core_budget *b = &run->budgets[run->nbudgets];
		struct str key = json_key(o, i);
		int64_t n = json_int(json_at(o, i));

		if (key.n == 0 || key.n > NAME_MAX_ || !str_is_ascii_print(key) || n <= 0)
			return err_set(err, ERR_INVALID,
			    "budget \"%.*s\": a name of up to %d characters and a number above 0",
			    STR_ARG(key), NAME_MAX_);
		memcpy(b->name, key.p, key.n);
		b->n = (uint64_t)n;
		run->nbudgets++;
	}
	return 0;
}

static int
budget_among(const struct core_run *run, const struct core_run *up, struct err *err)
{
	for (size_t i = 0; i < up->nbudgets; i++) {
		const struct core_budget *b = &up->budgets[i];
		uint64_t mine = budget_of(run, b->name);

		if (mine == 0 || mine > b->n)
			return err_set(err, ERR_DENIED,
			    "budget: %s may be from 1 to the parent's %llu, is %llu", b->name,
			    (unsigned long long)b->n, (unsigned long long)mine);
	}
	return 0;
}

int
core_child_budget(struct core_run *run, struct str text, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	const struct core_run *up = core_child_parent(run);
	int rc = text.n != 0 ? json_parse(text, "budget", &doc, err) : 0;

	if (rc == 0 && doc != NULL)
		rc = budget_take(run, json_root(doc), err);
	if (rc == 0 && up != NULL)
		rc = budget_among(run, up, err);
	return rc;
}

static void
spent(void *arg)
{
	struct core_run *run = arg;
	AUTO_FREE char *text = xasprintf(
	    "the budget of %llu seconds is spent", (unsigned long long)budget_of(run, "seconds"));

	run->until = NULL;
	core_run_end(run, "budget", str_z(text), false);
}

void
core_child_clock(struct core_run *run, int64_t began_us)
{
	uint64_t s = budget_of(run, "seconds");
	int64_t gone = began_us != 0 ? (clock_wall_us() - began_us) / 1000 : 0, left;

	if (s == 0 || s > UINT32_MAX)
		return;
	left = (int64_t)(s + CORE_BUDGET_GRACE_S) * 1000 - (gone > 0 ? gone : 0);
	loop_timer_del(run->until);
	run->until = loop_timer_add(run->core->loop, left > 1 ? (uint64_t)left : 1, spent, run);
}

/* --- the end --------------------------------------------------------------------------- */

static struct core_run *
ends_next(const struct core_run *run)
{
	struct core_run *r;

	TAILQ_FOREACH (r, &run->core->runs, link)
		if (is_child(r, run) && r->state != CORE_RUN_ENDING &&
		    (r->state != CORE_RUN_STARTING || r->end_status == NULL))
			return r;
	return NULL;
}

void
core_child_end_all(struct core_run *run)
{
	AUTO_FREE char *text = xasprintf("run %s, its parent, has ended", run->id);
	struct core_run *child;

	while ((child = ends_next(run)) != NULL)
		core_run_end(child, "parent", str_z(text), false);
}

static struct core_run *
orphan(const struct core *c)
{
	struct core_run *r;

	TAILQ_FOREACH (r, &c->runs, link)
		if (r->parent[0] != '\0' && r->state == CORE_RUN_LIVE &&
		    core_child_parent(r) == NULL)
			return r;
	return NULL;
}

void
core_child_end_orphans(struct core *c)
{
	struct core_run *r;

	while ((r = orphan(c)) != NULL)
		core_run_end(r, "parent", STR("its parent has ended"), false);
}

/* --- the record ------------------------------------------------------------------------ */

static int
by_name(const void *a, const void *b)
{
	const struct core_budget *x = a, *y = b;

	return strcmp(x->name, y->name);
}

void
core_child_put_budget(struct jcs *j, const struct core_run *run)
{
	struct core_budget sorted[CORE_BUDGETS_MAX];

	if (run->nbudgets == 0)
		return;
	memcpy(sorted, run->budgets, sizeof(sorted));
	qsort(sorted, run->nbudgets, sizeof(sorted[0]), by_name);
	jcs_open(j, "budget");
	for (size_t i = 0; i < run->nbudgets; i++)
		jcs_int(j, sorted[i].name, (int64_t)sorted[i].n);
	jcs_close(j);
}

void
core_child_put_effects(struct jcs *j, const struct core_run *run)
{
	if (run->most != CORE_EFFECTS_ANY)
		effect_jcs(j, "effects", run->most);
}

void
core_child_put_parent(struct jcs *j, const struct core_run *run)
{
	if (run->parent[0] != '\0')
		jcs_z(j, "parent", run->parent);
}

const char *
core_child_kept(struct core_run *run, const struct json *data)
{
	const struct json *effects = json_get(data, "effects"), *budget = json_get(data, "budget");
	struct str parent = json_str(json_get(data, "parent"));
	struct core_run *up;
	struct err why;

	if (parent.n >= sizeof(run->parent))
		return "parent";
	if (parent.n != 0)
		memcpy(run->parent, parent.p, parent.n);
	if (effects != NULL && !effect_from_json(effects, &run->most))
		return "effects";
	if (budget != NULL && budget_take(run, budget, &why) != 0)
		return "budget";
	up = core_child_parent(run);
	if (up == NULL)
		return NULL;
	run->depth = up->depth + 1;
	run->paused = up->paused;
	up->nchildren++;
	return NULL;
}
