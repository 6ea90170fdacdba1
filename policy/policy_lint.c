/*
 * Rules that change nothing, and calendars that say nothing, for `policy check`. Runs in the
 * command line alone. Says only what was looked at in full: a rule that cannot be decided is told
 * as that.
 */
#include "policy/policy_review_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

struct lint {
	struct policy_review *r;
	policy_finding_fn *say;
	void *arg;
	/* The rule that is looked at. */
	size_t rule;
	bool found;
	uint64_t *must, *mustnot, *permits, *care, *one;
	size_t cover; /* a rule that was seen beside it; SIZE_MAX: none */
};

static void told(struct lint *l, const char *key, struct str id, const char *code, const char *fmt,
    ...) PRINTF_LIKE(5, 6);
static void
told(struct lint *l, const char *key, struct str id, const char *code, const char *fmt, ...)
{
	struct policy_finding f = {.at = policy_review_place(l->r, key, id), .code = code};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	l->say(l->arg, &f);
}

static void
clear(const struct lint *l, uint64_t *set)
{
	(void)memset(set, 0, l->r->space->words * sizeof(*set));
}

static void
copy(const struct lint *l, uint64_t *to, const uint64_t *from)
{
	(void)memcpy(to, from, l->r->space->words * sizeof(*to));
}

static void
drop_bit(uint64_t *set, size_t i)
{
	set[i / 64] &= ~((uint64_t)1 << (i % 64));
}

/* --- what is asked ------------------------------------------------------------------- */

/* Without this require less would be asked: roles, people, time or rows. */
static bool
asks_more(void *ctx, const struct space_point *pt)
{
	struct lint *l = ctx;
	const struct policy *p = l->r->p;
	const struct rule *rule = &p->rules[l->rule];
	struct policy_slot slots[POLICY_SLOTS_MAX];
	int64_t within = 0, use = 0, rows = -1;
	bool verify = false;
	size_t n = 0;

	for (size_t i = 0; i < p->nrules; i++) {
		const struct rule *o = &p->rules[i];

		if (i == l->rule || o->kind != RULE_REQUIRE || !space_bit(pt->match, i) ||
		    !space_rate_bites(&o->cond, pt->v[SPACE_STATEMENTS]->in.statements))
			continue;
		policy_slots_join(slots, &n, o);
		within = within == 0 || o->within_s < within ? o->within_s : within;
		use = use == 0 || o->use_within_s < use ? o->use_within_s : use;
		if (o->max_rows >= 0 && (rows < 0 || o->max_rows < rows))
			rows = o->max_rows;
		verify |= o->verify;
	}
	for (size_t i = 0; i < rule->nslots; i++) {
		size_t k = 0;

		while (k < n && !str_eq(slots[k].role, rule->slots[i].role))
			k++;
		if (k == n || slots[k].count < rule->slots[i].count)
			return l->found = true;
	}
	l->found = (rule->verify && !verify) || rule->within_s < within ||
		   rule->use_within_s < use ||
		   (rule->max_rows >= 0 && (rows < 0 || rule->max_rows < rows));
	return l->found;
}

static bool
is_there(void *ctx, const struct space_point *pt)
{
	struct lint *l = ctx;

	(void)pt;
	return l->found = true;
}

/* No other permit opens here. */
static bool
is_alone(void *ctx, const struct space_point *pt)
{
	struct lint *l = ctx;

	for (size_t i = 0; i < l->r->p->nrules; i++) {
		if (i != l->rule && space_bit(l->r->permits, i) && space_bit(pt->match, i)) {
			l->cover = i;
			return false;
		}
	}
	return is_there(ctx, pt);
}

/* Another permit surely opens whatever comes behind this. */
static bool
is_covered(void *ctx, const uint64_t *match, const uint64_t *sure, enum space_dim last)
{
	struct lint *l = ctx;

	(void)match;
	(void)last;
	for (size_t i = 0; i < l->r->space->words; i++) {
		uint64_t others = sure[i] & l->r->permits[i] & ~l->one[i];

		if (others != 0) {
			l->cover = 64 * i + (size_t)__builtin_ctzll(others);
			return true;
		}
	}
	return false;
}

/* Is there an action as `q` asks, past every forbid that cannot be lifted? */
static int
ask(struct lint *l, bool breakglass, struct space_query q, struct err *err)
{
	struct policy_review *r = l->r;

	for (size_t i = 0; i < r->space->words; i++)
		l->mustnot[i] =
		    r->of[OVERRIDE_NEVER][i] | (breakglass ? 0 : r->of[OVERRIDE_BREAKGLASS][i]);
	drop_bit(l->mustnot, l->rule);
	l->found = false;
	l->cover = SIZE_MAX;
	q.permits = l->permits;
	q.must = l->must;
	q.mustnot = l->mustnot;
	q.care = l->care;
	q.ctx = l;
	return space_walk(r->space, &q, err);
}

/* --- the rules ----------------------------------------------------------------------- */

static int
lint_forbid(struct lint *l, const struct rule *rule, struct err *err)
{
	const struct space_query q = {.leaf = is_there, .future = true};
	int rc;

	space_set(l->must, l->rule);
	copy(l, l->care, l->r->forbids);
	/* Break-glass lifts this one, too, if it is lifted by that. */
	rc = ask(l, rule->override != OVERRIDE_BREAKGLASS, q, err);
	if (rc == 0 && !l->found && !rule->belt)
		told(l, "rules", rule->id, "shadowed",
		    "forbid %.*s changes nothing: whatever it forbids, another forbid refuses or "
		    "nothing permits; delete it, or say \"belt\": true if it is meant to stand "
		    "behind another",
		    STR_ARG(rule->id));
	return rc;
}

static int
lint_require(struct lint *l, const struct rule *rule, struct err *err)
{
	const struct space_query q = {.leaf = asks_more, .future = true}, any = {.leaf = is_there};
	int rc;

	space_set(l->must, l->rule);
	copy(l, l->care, l->r->requires);
	rc = ask(l, true, q, err);
	if (rc != 0 || l->found || rule->belt)
		return rc;
	rc = ask(l, true, any, err);
	if (rc != 0)
		return rc;
	told(l, "rules", rule->id, "shadowed",
	    l->found ? "require %.*s changes nothing: other rules ask for all it asks, as soon and "
		       "as few rows; delete it, or say \"belt\": true"
		     : "require %.*s changes nothing: no action that it speaks of is permitted; "
		       "permit one, delete it, or say \"belt\": true",
	    STR_ARG(rule->id));
	return 0;
}

static int
lint_permit(struct lint *l, const struct rule *rule, struct err *err)
{
	const struct space_query any = {.leaf = is_there},
				 alone = {.leaf = is_alone, .cut = is_covered, .future = true};
	int rc;

	clear(l, l->permits);
	space_set(l->permits, l->rule);
	copy(l, l->care, l->r->forbids);
	rc = ask(l, true, any, err);
	if (rc != 0 || rule->belt || rule->cond.effects == 0)
		return rc; /* that it permits nothing is told when it is read */
	if (!l->found) {
		told(l, "rules", rule->id, "unreachable",
		    "permit %.*s never opens anything: every action that it permits is forbidden "
		    "for good, or there is no such target; mend its condition, or delete it",
		    STR_ARG(rule->id));
		return 0;
	}
	for (size_t i = 0; i < l->r->space->words; i++)
		l->care[i] |= l->r->permits[i];
	rc = ask(l, true, alone, err);
	if (rc == 0 && !l->found)
		told(l, "rules", rule->id, "redundant",
		    "permit %.*s changes nothing: whatever it permits, %s%.*s permits; delete it, "
		    "or say \"belt\": true",
		    STR_ARG(rule->id), l->cover != SIZE_MAX ? "such as " : "another rule",
		    STR_ARG(l->cover != SIZE_MAX ? l->r->p->rules[l->cover].id : STR("")));
	return rc;
}

static int
lint_rule(struct lint *l, const struct rule *rule, struct err *err)
{
	clear(l, l->must);
	clear(l, l->care);
	clear(l, l->one);
	space_set(l->one, l->rule);
	copy(l, l->permits, l->r->permits);
	switch (rule->kind) {
	case RULE_FORBID: return lint_forbid(l, rule, err);
	case RULE_REQUIRE: return lint_require(l, rule, err);
	case RULE_PERMIT: return lint_permit(l, rule, err);
	}
	return 0;
}

int
policy_lint_rules(struct policy_review *r, policy_finding_fn *say, void *arg, struct err *err)
{
	struct space *s = r->space;
	struct lint l = {.r = r,
	    .say = say,
	    .arg = arg,
	    .must = space_mask(s),
	    .mustnot = space_mask(s),
	    .permits = space_mask(s),
	    .care = space_mask(s),
	    .one = space_mask(s)};

	for (l.rule = 0; l.rule < r->p->nrules; l.rule++) {
		int rc = lint_rule(&l, &r->p->rules[l.rule], err);

		if (rc != 0)
			return err_wrap(err, "rule %.*s", STR_ARG(r->p->rules[l.rule].id));
	}
	return 0;
}

/* --- theorems ------------------------------------------------------------------------ */

void
policy_lint_theorems(struct policy_review *r, policy_finding_fn *say, void *arg)
{
	struct lint l = {.r = r, .say = say, .arg = arg};

	for (size_t i = 0; i < r->n; i++)
		if (r->theorems[i].pub.idle)
			told(&l, "prove", r->theorems[i].pub.id, "idle",
			    "theorem %.*s speaks of no target that the policy has (\"target\", "
			    "\"env\" and \"kind\" together), so it holds whatever the rules say; "
			    "mend its condition",
			    STR_ARG(r->theorems[i].pub.id));
}
