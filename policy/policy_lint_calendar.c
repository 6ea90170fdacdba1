/*
 * Calendars that say nothing, or the same as another, for `policy check`. Runs in the command line
 * alone; the instant is given, so that a test can choose it.
 */
#include "policy/policy_review_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/banned.h"

#define HORIZON_S ((int64_t)30 * 86400)

struct calendar_lint {
	const struct policy_review *r;
	policy_finding_fn *say;
	void *arg;
	int64_t now_s;
};

static void told(const struct calendar_lint *l, const struct calendar *c, const char *code,
    const char *fmt, ...) PRINTF_LIKE(4, 5);
static void
told(
    const struct calendar_lint *l, const struct calendar *c, const char *code, const char *fmt, ...)
{
	struct policy_finding f = {
	    .at = policy_review_place(l->r, "calendars", c->id), .code = code};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	l->say(l->arg, &f);
}

static bool
names(const struct indices *l, size_t i)
{
	for (size_t k = 0; k < l->n; k++)
		if (l->v[k] == i)
			return true;
	return false;
}

static bool
is_used(const struct policy *p, size_t i)
{
	for (size_t k = 0; k < p->nrules; k++)
		if (names(&p->rules[k].cond.during, i) || names(&p->rules[k].cond.outside, i))
			return true;
	return false;
}

static void
lint_horizon(const struct calendar_lint *l, const struct calendar *c)
{
	char until[CLOCK_TEXT_SIZE];

	clock_format_s(c->valid.to * 1000000, until);
	if (c->valid.to <= l->now_s)
		told(l, c, "horizon",
		    "calendar %.*s was valid until %s: it counts as %s now; give it a later "
		    "\"valid\" and its windows",
		    STR_ARG(c->id), until, c->open ? "shut" : "frozen");
	else if (c->valid.to < l->now_s + HORIZON_S)
		told(l, c, "horizon",
		    "calendar %.*s is valid until %s only; after that it counts as %s: give it a "
		    "later \"valid\"",
		    STR_ARG(c->id), until, c->open ? "shut" : "frozen");
}

static void
lint_past(const struct calendar_lint *l, const struct calendar *c)
{
	char until[CLOCK_TEXT_SIZE];

	if (c->n == 0 || c->iv[c->n - 1].to > l->now_s || c->valid.to <= l->now_s)
		return;
	clock_format_s(c->iv[c->n - 1].to * 1000000, until);
	told(l, c, "past",
	    "calendar %.*s has no window any more: its last ended %s; add the next one, or delete "
	    "what it is used for",
	    STR_ARG(c->id), until);
}

/* Not outside of `big` in any second that both know. */
static bool
lies_in(const struct calendar *c, const struct calendar *big)
{
	size_t k = 0;

	for (size_t i = 0; i < c->n; i++) {
		while (k < big->n && big->iv[k].to <= c->iv[i].from)
			k++;
		if (k == big->n || big->iv[k].from > c->iv[i].from || big->iv[k].to < c->iv[i].to)
			return false;
	}
	return c->n != 0 && c->valid.from >= big->valid.from && c->valid.to <= big->valid.to;
}

/* In one list, where any of them is enough. */
static bool
named_together(const struct policy *p, size_t a, size_t b)
{
	for (size_t k = 0; k < p->nrules; k++) {
		const struct cond *c = &p->rules[k].cond;

		if ((names(&c->during, a) && names(&c->during, b)) ||
		    (names(&c->outside, a) && names(&c->outside, b)))
			return true;
	}
	return false;
}

static void
lint_same(const struct calendar_lint *l, size_t i)
{
	const struct policy *p = l->r->p;
	const struct calendar *c = &p->calendars[i];

	for (size_t k = 0; k < p->ncalendars; k++) {
		const struct calendar *o = &p->calendars[k];

		if (k == i || o->open != c->open || !lies_in(c, o))
			continue;
		if (!lies_in(o, c) && named_together(p, i, k))
			told(l, c, "overlap",
			    "every window of calendar %.*s lies in one of %.*s: in a rule that "
			    "names both it adds nothing; leave it out there",
			    STR_ARG(c->id), STR_ARG(o->id));
		else if (k < i && lies_in(o, c))
			told(l, c, "duplicate",
			    "calendar %.*s has the very windows of %.*s: use one of them",
			    STR_ARG(c->id), STR_ARG(o->id));
	}
}

void
policy_lint_calendars(struct policy_review *r, int64_t now_s, policy_finding_fn *say, void *arg)
{
	const struct calendar_lint l = {r, say, arg, now_s};

	for (size_t i = 0; i < r->p->ncalendars; i++) {
		const struct calendar *c = &r->p->calendars[i];

		lint_horizon(&l, c);
		lint_past(&l, c);
		if (c->n == 0 ||
		    (c->n == 1 && c->iv[0].from == c->valid.from && c->iv[0].to == c->valid.to))
			told(&l, c, "constant",
			    "calendar %.*s is %s all the time that it is valid: it decides "
			    "nothing; check its windows",
			    STR_ARG(c->id), c->n != 0 ? "inside a window" : "outside of windows");
		if (!is_used(r->p, i))
			told(&l, c, "unused",
			    "no rule names calendar %.*s; name it in \"during\" or \"outside\", or "
			    "delete it",
			    STR_ARG(c->id));
		lint_same(&l, i);
	}
}
