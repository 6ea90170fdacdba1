/*
 * `policy prove`: a theorem holds of every action, or there is one of which it does not. Runs in
 * the command line alone. Must never say that a theorem holds without having looked everywhere.
 */
#include "policy/policy_review_internal.h"

#include <assert.h>

#include "common/banned.h"

struct proving {
	const struct policy_review *r;
	const struct theorem *t;
	bool breakglass; /* it may be on */
	bool found;
	struct policy_counterexample *ret;
};

/* How many distinct people have to sign where these match: each slot is another person. */
static unsigned
people(const struct policy_review *r, const uint64_t *match, unsigned statements)
{
	struct policy_slot slots[POLICY_SLOTS_MAX];
	unsigned total = 0;
	size_t n = 0;

	for (size_t i = 0; i < r->p->nrules; i++)
		if (space_bit(r->requires, i) && space_bit(match, i) &&
		    space_rate_bites(&r->p->rules[i].cond, statements))
			policy_slots_join(slots, &n, &r->p->rules[i]);
	for (size_t i = 0; i < n; i++)
		total += slots[i].count;
	return total;
}

/* More rules that match never ask for fewer people. */
static bool
enough_people(void *ctx, const uint64_t *match, const uint64_t *sure, enum space_dim last)
{
	const struct proving *v = ctx;

	(void)match;
	return v->t->pub.people != 0 && last >= SPACE_EFFECTS &&
	       people(v->r, sure, 0) >= v->t->pub.people;
}

static bool
counterexample(void *ctx, const struct space_point *pt)
{
	struct proving *v = ctx;
	struct policy_counterexample *ce = v->ret;
	const struct policy *p = v->r->p;

	if (v->t->pub.people != 0 &&
	    people(v->r, pt->match, pt->v[SPACE_STATEMENTS]->in.statements) >= v->t->pub.people)
		return false;
	*ce = (struct policy_counterexample){0};
	if (!policy_review_confirm(v->r, pt, v->breakglass, &ce->request, &ce->decision))
		return false;
	for (size_t i = 0; i < p->nrules; i++) {
		if (!space_bit(pt->match, i))
			continue;
		if (p->rules[i].kind == RULE_PERMIT && ce->npermits < DECISION_RULES_MAX)
			ce->permits[ce->npermits++] = p->rules[i].id;
		if (p->rules[i].kind == RULE_REQUIRE && ce->nrequires < DECISION_RULES_MAX)
		ce->requires[ce->nrequires++] = p->rules[i].id;
	}
	return v->found = true;
}

int
policy_prove(struct policy_review *r, size_t theorem, bool *ret_holds,
    struct policy_counterexample *ret, struct err *err)
{
	struct proving v = {.r = r, .t = &r->theorems[theorem], .ret = ret};
	struct space *s = r->space;
	uint64_t *must = space_mask(s), *mustnot = space_mask(s), *care = space_mask(s);
	struct space_query q = {.permits = r->permits,
	    .must = must,
	    .mustnot = mustnot,
	    .care = care,
	    .cut = enough_people,
	    .leaf = counterexample,
	    .ctx = &v};
	int rc;

	v.breakglass = v.t->pub.people == 0 && !v.t->pub.breakglass;
	space_set(must, r->p->nrules + theorem);
	for (size_t i = 0; i < s->words; i++) {
		mustnot[i] =
		    r->of[OVERRIDE_NEVER][i] | (v.breakglass ? 0 : r->of[OVERRIDE_BREAKGLASS][i]);
		/* Lifts are told, and counted: eight at most. */
		care[i] = r->requires[i] | r->forbids[i];
	}
	rc = space_walk(s, &q, err);
	if (rc != 0)
		return err_wrap(err, "%.*s", STR_ARG(v.t->pub.id));
	*ret_holds = !v.found;
	return 0;
}
