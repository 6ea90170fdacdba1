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

/* What was found of a rule, at all targets together. */
struct seen {
	bool there;   /* a permit: it opens something. A require: something that it asks for is
			 permitted */
	bool matters; /* without it another verdict, or less asked */
	size_t cover; /* a permit that was seen beside it; SIZE_MAX: none */
};

struct lint {
	struct policy_review *r;
	policy_finding_fn *say;
	void *arg;
	struct seen *seen; /* one a rule */
	/* The targets that are looked at: their rules, by what they are. */
	struct space *s;
	const size_t *map;
	uint64_t *isperm, *isreq, *isforb, *of[OVERRIDE_BREAKGLASS + 1];
	/* The rule that is looked at: its bit there. */
	size_t bit;
	bool found;
	uint64_t *must, *mustnot, *permits, *care, *one;
	uint64_t *covers; /* others that match wherever it does: most questions end with these */
	size_t cover;
};

static const struct rule *
rule_at(const struct lint *l, size_t bit)
{
	return &l->r->p->rules[l->map[bit]];
}

static void told(struct lint *l, struct policy_part at, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static void
told(struct lint *l, struct policy_part at, const char *code, const char *fmt, ...)
{
	struct policy_finding f = {.at = at, .code = code};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	l->say(l->arg, &f);
}

static void
clear(const struct lint *l, uint64_t *set)
{
	(void)memset(set, 0, l->s->words * sizeof(*set));
}

static void
copy(const struct lint *l, uint64_t *to, const uint64_t *from)
{
	(void)memcpy(to, from, l->s->words * sizeof(*to));
}

static void
drop_bit(uint64_t *set, size_t i)
{
	set[i / 64] &= ~((uint64_t)1 << (i % 64));
}

/* --- what is asked ------------------------------------------------------------------- */

/* Bits of both sets, one after the other: *at is the next to look at. False: no more. */
static bool
next_of(const struct lint *l, const uint64_t *a, const uint64_t *b, size_t *at, size_t *ret)
{
	for (size_t w = *at / 64; w < l->s->words; w++) {
		uint64_t both =
		    a[w] & b[w] & (w == *at / 64 ? ~(uint64_t)0 << (*at % 64) : ~(uint64_t)0);

		if (both == 0)
			continue;
		*ret = 64 * w + (size_t)__builtin_ctzll(both);
		*at = *ret + 1;
		return true;
	}
	return false;
}

/* What the other requires ask for together, in one point. */
struct asked {
	struct policy_slot slots[POLICY_SLOTS_MAX];
	size_t n;
	int64_t within, use, rows;
	bool verify, preview;
};

static void
asked_join(struct asked *a, const struct rule *o)
{
	policy_slots_join(a->slots, &a->n, o);
	a->within = a->within == 0 || o->within_s < a->within ? o->within_s : a->within;
	a->use = a->use == 0 || o->use_within_s < a->use ? o->use_within_s : a->use;
	if (o->max_rows >= 0 && (a->rows < 0 || o->max_rows < a->rows))
		a->rows = o->max_rows;
	a->verify |= o->verify;
	a->preview |= o->preview;
}

static bool
asks_beyond(const struct asked *a, const struct rule *rule)
{
	for (size_t i = 0; i < rule->nslots; i++) {
		size_t k = 0;

		while (k < a->n && !str_eq(a->slots[k].role, rule->slots[i].role))
			k++;
		if (k == a->n || a->slots[k].count < rule->slots[i].count)
			return true;
	}
	return (rule->verify && !a->verify) || (rule->preview && !a->preview) ||
	       rule->within_s < a->within || rule->use_within_s < a->use ||
	       (rule->max_rows >= 0 && (a->rows < 0 || rule->max_rows < a->rows));
}

/* Does this require ask for more than those of `match` together, for so many statements? */
static bool
asks_beside(const struct lint *l, const uint64_t *match, unsigned statements)
{
	struct asked a = {.rows = -1};
	size_t i, at = 0;

	while (next_of(l, match, l->isreq, &at, &i))
		if (i != l->bit && space_rate_bites(&rule_at(l, i)->cond, statements))
			asked_join(&a, rule_at(l, i));
	return asks_beyond(&a, rule_at(l, l->bit));
}

/* Without this require less would be asked: roles, people, time or rows. */
static bool
asks_more(void *ctx, const struct space_point *pt)
{
	struct lint *l = ctx;
	struct asked a = {.rows = -1};
	size_t i, at = 0;

	while (next_of(l, pt->match, l->isreq, &at, &i))
		if (i != l->bit &&
		    space_rate_bites(&rule_at(l, i)->cond, pt->v[SPACE_STATEMENTS]->in.statements))
			asked_join(&a, rule_at(l, i));
	return l->found = asks_beyond(&a, rule_at(l, l->bit));
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
	size_t i, at = 0;

	while (next_of(l, pt->match, l->isperm, &at, &i)) {
		if (i != l->bit) {
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
	for (size_t i = 0; i < l->s->words; i++) {
		uint64_t others = sure[i] & l->isperm[i] & ~l->one[i];

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
	for (size_t i = 0; i < l->s->words; i++)
		l->mustnot[i] =
		    l->of[OVERRIDE_NEVER][i] | (breakglass ? 0 : l->of[OVERRIDE_BREAKGLASS][i]);
	drop_bit(l->mustnot, l->bit);
	l->found = false;
	l->cover = SIZE_MAX;
	for (size_t i = 0; i < l->s->words; i++)
		if ((l->covers[i] & l->mustnot[i]) != 0)
			return 0;
	q.permits = l->permits;
	q.must = l->must;
	q.mustnot = l->mustnot;
	q.care = l->care;
	q.ctx = l;
	return space_walk(l->s, &q, err);
}

/* --- the rules, at one class of targets ------------------------------------------------ */

static int
look_forbid(struct lint *l, const struct rule *rule, struct seen *seen, struct err *err)
{
	const struct space_query q = {.leaf = is_there, .future = true};
	int rc;

	copy(l, l->care, l->isforb);
	/* Break-glass lifts this one, too, if it is lifted by that. */
	rc = ask(l, rule->override != OVERRIDE_BREAKGLASS, q, err);
	seen->matters = l->found;
	return rc;
}

static int
look_require(struct lint *l, struct seen *seen, struct err *err)
{
	const struct space_query q = {.leaf = asks_more, .future = true}, any = {.leaf = is_there};
	int rc = 0;

	copy(l, l->care, l->isreq);
	if (asks_beside(l, l->covers, 0)) {
		rc = ask(l, true, q, err);
		seen->matters = l->found;
	}
	if (rc != 0 || seen->matters || seen->there)
		return rc;
	rc = ask(l, true, any, err);
	seen->there = l->found;
	return rc;
}

static int
look_permit(struct lint *l, struct seen *seen, struct err *err)
{
	const struct space_query any = {.leaf = is_there},
				 alone = {.leaf = is_alone, .cut = is_covered, .future = true};
	int rc = 0;

	clear(l, l->permits);
	space_set(l->permits, l->bit);
	copy(l, l->care, l->isforb);
	if (!seen->there) {
		rc = ask(l, true, any, err);
		seen->there = l->found;
	}
	for (size_t i = 0; i < l->s->words; i++)
		l->care[i] |= l->isperm[i];
	l->cover = SIZE_MAX;
	if (rc == 0 && !is_covered(l, NULL, l->covers, SPACE_OWNER)) {
		rc = ask(l, true, alone, err);
		seen->matters = rc == 0 && l->found;
	}
	if (l->cover != SIZE_MAX)
		seen->cover = l->map[l->cover];
	return rc;
}

static int
look_rule(struct lint *l, struct err *err)
{
	const struct rule *rule = rule_at(l, l->bit);
	struct seen *seen = &l->seen[l->map[l->bit]];
	int rc = 0;

	clear(l, l->must);
	clear(l, l->care);
	clear(l, l->one);
	space_set(l->one, l->bit);
	copy(l, l->permits, l->isperm);
	space_set(l->must, l->bit);
	space_covers(l->s, l->bit, l->covers);
	drop_bit(l->covers, l->bit);
	switch (rule->kind) {
	case RULE_FORBID: rc = look_forbid(l, rule, seen, err); break;
	case RULE_REQUIRE: rc = look_require(l, seen, err); break;
	case RULE_PERMIT: rc = look_permit(l, seen, err); break;
	}
	return rc == 0 ? 0 : err_wrap(err, "rule %.*s", STR_ARG(rule->id));
}

/* Nothing more to find of it; nothing to tell, whatever is found. */
static bool
is_settled(const struct seen *seen, const struct rule *rule)
{
	if (rule->kind == RULE_PERMIT && rule->cond.effects == 0)
		return true; /* that it permits nothing is told when it is read */
	return rule->belt || (seen->matters && (seen->there || rule->kind != RULE_PERMIT));
}

static uint64_t *
bits_of(struct lint *l, const uint64_t *set)
{
	uint64_t *to = space_mask(l->s);

	for (size_t k = 0; k < l->s->nconds; k++)
		if (space_bit(set, l->map[k]))
			space_set(to, k);
	return to;
}

static int
look_at(struct lint *l, size_t target, struct err *err)
{
	AUTO(space) struct space *s = space_at(l->r->space, target, l->r->p->nrules, &l->map);
	int rc = 0;

	l->s = s;
	l->must = space_mask(s);
	l->mustnot = space_mask(s);
	l->permits = space_mask(s);
	l->care = space_mask(s);
	l->one = space_mask(s);
	l->covers = space_mask(s);
	l->isperm = bits_of(l, l->r->permits);
	l->isreq = bits_of(l, l->r->requires);
	l->isforb = bits_of(l, l->r->forbids);
	for (size_t o = 0; o < ARRAY_LEN(l->of); o++)
		l->of[o] = bits_of(l, l->r->of[o]);
	for (l->bit = 0; rc == 0 && l->bit < s->nconds; l->bit++) {
		if (is_settled(&l->seen[l->map[l->bit]], rule_at(l, l->bit)))
			continue;
		rc = look_rule(l, err);
	}
	l->r->space->steps = s->steps;
	return rc;
}

/* --- what is told ------------------------------------------------------------------------ */

static void
tell_require(struct lint *l, size_t i, const struct rule *rule)
{
	told(l, policy_review_rule(l->r, i), "shadowed",
	    l->seen[i].there
		? "require %.*s changes nothing: other rules ask for all it asks, as soon and "
		  "as few rows; delete it, or say \"belt\": true"
		: "require %.*s changes nothing: no action that it speaks of is permitted; "
		  "permit one, delete it, or say \"belt\": true",
	    STR_ARG(rule->id));
}

static void
tell_permit(struct lint *l, size_t i, const struct rule *rule)
{
	const struct seen *seen = &l->seen[i];

	if (!seen->there)
		told(l, policy_review_rule(l->r, i), "unreachable",
		    "permit %.*s never opens anything: every action that it permits is forbidden "
		    "for good, or there is no such target; mend its condition, or delete it",
		    STR_ARG(rule->id));
	else
		told(l, policy_review_rule(l->r, i), "redundant",
		    "permit %.*s changes nothing: whatever it permits, %s%.*s permits; delete it, "
		    "or say \"belt\": true",
		    STR_ARG(rule->id), seen->cover != SIZE_MAX ? "such as " : "another rule",
		    STR_ARG(seen->cover != SIZE_MAX ? l->r->p->rules[seen->cover].id : STR("")));
}

static void
tell_rule(struct lint *l, size_t i, const struct rule *rule)
{
	if (is_settled(&l->seen[i], rule))
		return;
	switch (rule->kind) {
	case RULE_FORBID:
		told(l, policy_review_rule(l->r, i), "shadowed",
		    "forbid %.*s changes nothing: whatever it forbids, another forbid refuses or "
		    "nothing permits; delete it, or say \"belt\": true if it is meant to stand "
		    "behind another",
		    STR_ARG(rule->id));
		return;
	case RULE_REQUIRE: tell_require(l, i, rule); return;
	case RULE_PERMIT: tell_permit(l, i, rule); return;
	}
}

int
policy_lint_rules(struct policy_review *r, policy_finding_fn *say, void *arg, struct err *err)
{
	AUTO_FREE struct seen *seen = xcalloc(r->p->nrules + 1, sizeof(*seen));
	struct lint l = {.r = r, .say = say, .arg = arg, .seen = seen};

	for (size_t i = 0; i < r->p->nrules; i++)
		seen[i].cover = SIZE_MAX;
	for (size_t t = 0; t < r->space->n[SPACE_TARGET]; t++) {
		int rc = look_at(&l, t, err);

		if (rc != 0)
			return rc;
	}
	for (size_t i = 0; i < r->p->nrules; i++)
		tell_rule(&l, i, &r->p->rules[i]);
	return 0;
}

/* --- theorems ------------------------------------------------------------------------ */

void
policy_lint_theorems(struct policy_review *r, policy_finding_fn *say, void *arg)
{
	struct lint l = {.r = r, .say = say, .arg = arg};

	for (size_t i = 0; i < r->n; i++)
		if (r->theorems[i].pub.idle)
			told(&l, policy_review_place(r, "prove", r->theorems[i].pub.id), "idle",
			    "theorem %.*s speaks of no target that the policy has (\"target\", "
			    "\"env\" and \"kind\" together), so it holds whatever the rules say; "
			    "mend its condition",
			    STR_ARG(r->theorems[i].pub.id));
}
