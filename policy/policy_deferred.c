/*
 * Actions that act later: a CronJob, a schedule, a lifecycle rule. Linked into core and the command
 * line; pure. Judged as if done now, and as if done when the next freeze has begun, by every
 * calendar: the strictest counts, so that nothing can be laid down now that goes off in a freeze.
 */
#include "policy/policy_internal.h"

#include "common/banned.h"

#define SECOND 1000000

static void
rule_add(struct decision *d, struct str id)
{
	for (size_t i = 0; i < d->nrules; i++)
		if (str_eq(d->rules[i], id))
			return;
	if (d->nrules < DECISION_RULES_MAX)
		d->rules[d->nrules++] = id;
}

static int64_t
smaller(int64_t a, int64_t b, int64_t none)
{
	if (a == none || b == none)
		return a == none ? b : a;
	return a < b ? a : b;
}

/* `later` is what would be said then, for the same grants. */
static void
join(struct decision *d, const struct decision *later)
{
	bool open = d->verdict == VERDICT_NEEDS_APPROVAL;
	struct rule slots = {.nslots = later->nslots};

	if (later->verdict == VERDICT_ALLOW && later->nslots == 0)
		return;
	if (later->verdict == VERDICT_DENY || d->nslots == 0) {
		uint32_t effects = d->effects;

		*d = *later;
		d->effects = effects;
		return;
	}
	(void)memcpy(slots.slots, later->slots, later->nslots * sizeof(*later->slots));
	policy_slots_join(d->slots, &d->nslots, &slots);
	for (size_t i = 0; i < later->nrules; i++)
		rule_add(d, later->rules[i]);
	d->within_s = smaller(d->within_s, later->within_s, 0);
	d->use_within_s = smaller(d->use_within_s, later->use_within_s, 0);
	d->max_rows = smaller(d->max_rows, later->max_rows, -1);
	d->verify |= later->verify;
	d->preview |= later->preview;
	d->unsatisfiable |= later->unsatisfiable;
	if (later->verdict != VERDICT_NEEDS_APPROVAL)
		return;
	d->verdict = VERDICT_NEEDS_APPROVAL;
	if (open && d->calendar.n != 0)
		return;
	d->calendar = later->calendar;
	d->calendar_unknown = later->calendar_unknown;
	d->until_us = later->until_us;
}

/*
 * What either needs is used up now, so that a denial is all that is left where it cannot be named.
 */
static void
join_lifted(struct decision *d, const struct decision *now, const struct decision *later)
{
	const struct decision *both[] = {now, later};

	d->nlifted = 0;
	for (size_t i = 0; i < 2 && d->verdict != VERDICT_DENY; i++) {
		for (size_t k = 0; k < both[i]->nlifted; k++) {
			size_t at = 0;

			while (at < d->nlifted && !str_eq(d->lifted[at], both[i]->lifted[k]))
				at++;
			if (at == DECISION_LIFTED_MAX)
				d->verdict = VERDICT_DENY;
			else if (at == d->nlifted)
				d->lifted[d->nlifted++] = both[i]->lifted[k];
		}
	}
	if (d->verdict == VERDICT_DENY)
		d->nlifted = 0;
}

/* When it next shuts: a freeze begins, an open window ends; 0: not before the end of `valid`. */
static int64_t
shuts(const struct calendar *c, int64_t at_s)
{
	int64_t next = policy_calendar_next(c, at_s, !c->open);

	if (next == 0 && at_s < c->valid.to)
		next = c->valid.to; /* from there on nothing is known */
	return next;
}

void
policy_judge(const struct policy *p, const struct policy_input *in,
    const struct policy_grant *grants, size_t ngrants, struct decision *ret)
{
	struct policy_input then;
	struct decision now, later;

	policy_eval_at(p, in, grants, ngrants, ret);
	if (!in->deferred || !in->at.known)
		return;
	then = *in;
	then.began_us = 0;
	for (size_t i = 0; i < p->ncalendars && ret->verdict != VERDICT_DENY; i++) {
		int64_t next = shuts(&p->calendars[i], in->at.us / SECOND);

		if (next == 0)
			continue;
		then.at.us = next * SECOND;
		policy_eval_at(p, &then, grants, ngrants, &later);
		now = *ret;
		join(ret, &later);
		join_lifted(ret, &now, &later);
	}
}

void
policy_eval(const struct policy *p, const struct policy_input *in,
    const struct policy_grant *grants, size_t ngrants, struct decision *ret)
{
	policy_judge(p, in, grants, ngrants, ret);
	policy_say(in, ret);
}
