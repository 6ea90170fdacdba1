/*
 * The verdict. Core judges with it before anything passes, replay and the command line judge
 * the same way. Pure. The zero value denies, forbid wins, unknown tightens, and only a permit
 * that surely matches opens; nothing here may fail open.
 */
#include "policy/policy_internal.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define SECOND 1000000

struct tally {
	size_t nforbid, nrequire;
	struct str forbid[DECISION_RULES_MAX], require[DECISION_RULES_MAX];
	struct policy_slot slots[POLICY_SLOTS_MAX];
	size_t nslots;
	int64_t within_s, use_within_s, max_rows;
	bool verify, preview;
};

/* The rule whose calendar explains the verdict. */
struct timed {
	const struct rule *rule;
	struct cond_match match;
};

struct judge {
	const struct policy *p;
	const struct policy_input *in;
	struct tally t;
	struct timed forbid, require, permit,
	    shut; /* shut: a permit that only its times keep shut */
	const struct rule *first_forbid, *first_require;
	struct str why; /* of the first overlay */
	size_t noverlays;
	bool permitted;
	struct str first_permit;
	struct decision *d; /* its lifted alone, while rules are judged */
};

static void
note(struct str *list, size_t *n, struct str id)
{
	if (*n < DECISION_RULES_MAX)
		list[*n] = id;
	(*n)++;
}

static void
note_timed(struct timed *t, const struct rule *rule, const struct cond_match *m)
{
	if (t->rule == NULL && m->calendar != CALENDAR_NONE)
		*t = (struct timed){rule, *m};
}

static int64_t
smaller(int64_t have, int64_t other, int64_t none)
{
	if (other == none)
		return have;
	return have == none || other < have ? other : have;
}

static void
judge_permit(struct judge *j, const struct rule *rule, const struct cond_match *m)
{
	if (m->all == TRI_YES) {
		if (!j->permitted) {
			j->first_permit = rule->id;
			note_timed(&j->permit, rule, m);
		}
		j->permitted = true;
	} else if (m->untimed == TRI_YES) {
		note_timed(&j->shut, rule, m);
	}
}

static void
judge_require(struct judge *j, const struct rule *rule, const struct cond_match *m)
{
	if (m->all == TRI_NO)
		return;
	note(j->t.require, &j->t.nrequire, rule->id);
	note_timed(&j->require, rule, m);
	if (j->first_require == NULL)
		j->first_require = rule;
	policy_slots_join(j->t.slots, &j->t.nslots, rule);
	j->t.within_s = smaller(j->t.within_s, rule->within_s, 0);
	j->t.use_within_s = smaller(j->t.use_within_s, rule->use_within_s, 0);
	j->t.max_rows = smaller(j->t.max_rows, rule->max_rows, -1);
	j->t.verify |= rule->verify;
	j->t.preview |= rule->preview;
}

static void
judge_forbid(struct judge *j, const struct rule *rule, const struct cond_match *m)
{
	if (m->all == TRI_NO || policy_lift_note(rule, j->in, j->d))
		return;
	note(j->t.forbid, &j->t.nforbid, rule->id);
	note_timed(&j->forbid, rule, m);
	if (j->first_forbid == NULL)
		j->first_forbid = rule;
}

static void
judge_overlays(struct judge *j)
{
	for (size_t i = 0; i < j->in->noverlays; i++) {
		const struct policy_overlay *o = &j->in->overlays[i];

		if (!policy_overlay_binds(o, j->in))
			continue;
		if (j->noverlays == 0)
			j->why = o->why;
		note(j->t.forbid, &j->t.nforbid, o->id);
		j->noverlays++;
	}
}

static void
judge_rule(struct judge *j, const struct rule *rule, const struct cond_match *m)
{
	switch (rule->kind) {
	case RULE_PERMIT: judge_permit(j, rule, m); break;
	case RULE_REQUIRE: judge_require(j, rule, m); break;
	case RULE_FORBID: judge_forbid(j, rule, m); break;
	}
}

/* One permit is enough. */
static bool
needless(const struct judge *j, const struct rule *rule)
{
	return j->permitted && rule->kind == RULE_PERMIT;
}

static void
judge_indexed(struct judge *j, const uint64_t *target)
{
	const struct policy *p = j->p;

	for (size_t w = 0; w < p->index->words; w++) {
		uint64_t set = policy_index_word(p->index, target, j->d->effects, w);

		for (; set != 0; set &= set - 1) {
			const struct rule *rule = &p->rules[w * 64 + (size_t)__builtin_ctzll(set)];
			struct cond_match m;

			if (needless(j, rule))
				continue;
			policy_cond_match_rest(p, &rule->cond, j->in, rule->kind, &m);
			judge_rule(j, rule, &m);
		}
	}
}

static void
judge_rules(struct judge *j)
{
	const uint64_t *target = policy_index_target(j->p, j->in);

	if (target != NULL) {
		judge_indexed(j, target);
		return;
	}
	for (size_t i = 0; i < j->p->nrules; i++) {
		const struct rule *rule = &j->p->rules[i];
		struct cond_match m;

		if (needless(j, rule))
			continue;
		policy_cond_match(j->p, &rule->cond, j->in, rule->kind, &m);
		judge_rule(j, rule, &m);
	}
}

static void
set_rules(struct decision *d, const struct str *ids, size_t n)
{
	d->nrules = n < DECISION_RULES_MAX ? n : DECISION_RULES_MAX;
	(void)memcpy(d->rules, ids, d->nrules * sizeof(*ids));
}

/* Which calendar, and when it changes next. */
static void
set_calendar(struct decision *d, const struct policy *p, const struct timed *t,
    const struct policy_input *in)
{
	const struct calendar *c;
	int64_t s = in->at.us / SECOND;

	if (t->rule == NULL)
		return;
	c = &p->calendars[t->match.calendar];
	d->calendar = c->id;
	switch (policy_calendar_state(c, in->at)) {
	case TRI_UNKNOWN: d->calendar_unknown = true; break;
	case TRI_YES: d->until_us = policy_calendar_next(c, s, false) * SECOND; break;
	case TRI_NO: d->until_us = policy_calendar_next(c, s, true) * SECOND; break;
	}
}

/* --- verdicts ------------------------------------------------------------------------ */

static void
deny_forbidden(const struct judge *j, struct decision *d)
{
	set_rules(d, j->t.forbid, j->t.nforbid);
	d->noverlays = j->noverlays < d->nrules ? j->noverlays : d->nrules;
	set_calendar(d, j->p, &j->forbid, j->in);
	d->why = j->noverlays != 0 ? j->why : j->first_forbid->why;
}

static void
deny_default(const struct judge *j, struct decision *d)
{
	static const struct str id = {"default", 7};

	set_rules(d, &id, 1);
	set_calendar(d, j->p, &j->shut, j->in);
	if (j->shut.rule != NULL)
		d->shut = j->shut.rule->id;
}

/* Roles by person of the grants that count: enrolled, holding the role, not their own; verified
 * where that is asked. */
static size_t
grants_roles(const struct judge *j, const struct decision *d, const struct policy_grant *grants,
    size_t ngrants, uint16_t *roles)
{
	(void)memset(roles, 0, j->p->npeople * sizeof(*roles));
	for (size_t i = 0; i < ngrants; i++) {
		const struct policy_person *q = policy_person(j->p, grants[i].person);
		uint16_t held;

		if (q == NULL || j->in->owner.p == NULL || policy_input_own(j->in, q->id) ||
		    (d->verify && !grants[i].verified))
			continue;
		held = policy_roles_mask(q, d->slots, d->nslots);
		for (size_t s = 0; s < d->nslots; s++)
			if (grants[i].role.n != 0 && !str_eq(grants[i].role, d->slots[s].role))
				held &= (uint16_t) ~(1u << s);
		roles[q - j->p->people] |= held;
	}
	return j->p->npeople;
}

bool
policy_quorum_possible(const struct policy *p, const struct policy_input *in,
    const struct policy_slot *slots, size_t nslots, bool verify)
{
	AUTO_FREE uint16_t *roles = xcalloc(p->npeople + 1, sizeof(*roles));
	struct slot_match m;

	for (size_t i = 0; i < p->npeople; i++) {
		const struct policy_person *q = &p->people[i];

		roles[i] = !policy_person_can_sign(q, verify) || policy_input_own(in, q->id)
			       ? 0
			       : policy_roles_mask(q, slots, nslots);
	}
	policy_slots_match(slots, nslots, roles, p->npeople, &m);
	return m.missing_total == 0;
}

static void
judge_grants(
    const struct judge *j, const struct policy_grant *grants, size_t ngrants, struct decision *d)
{
	AUTO_FREE uint16_t *roles = xcalloc(j->p->npeople + 1, sizeof(*roles));
	struct slot_match m;

	d->nslots = j->t.nslots;
	(void)memcpy(d->slots, j->t.slots, d->nslots * sizeof(*d->slots));
	d->within_s = j->t.within_s;
	d->use_within_s = j->t.use_within_s;
	d->max_rows = j->t.max_rows;
	d->verify = j->t.verify;
	d->preview = j->t.preview;
	set_rules(d, j->t.require, j->t.nrequire);
	set_calendar(d, j->p, &j->require, j->in);
	d->why = j->first_require->why;
	policy_slots_match(
	    d->slots, d->nslots, roles, grants_roles(j, d, grants, ngrants, roles), &m);
	if (m.missing_total == 0) {
		d->verdict = VERDICT_ALLOW;
		return;
	}
	d->verdict = VERDICT_NEEDS_APPROVAL;
	d->unsatisfiable = !policy_quorum_possible(j->p, j->in, d->slots, d->nslots, d->verify);
}

void
policy_eval_at(const struct policy *p, const struct policy_input *in,
    const struct policy_grant *grants, size_t ngrants, struct decision *ret)
{
	struct decision d = {.verdict = VERDICT_DENY, .max_rows = -1};
	struct judge j = {.p = p, .in = in, .t = {.max_rows = -1}, .d = &d};

	d.effects = in->effects != 0 ? in->effects : EFFECT_opaque;
	judge_overlays(&j);
	judge_rules(&j);
	if (j.t.nforbid != 0) {
		deny_forbidden(&j, &d);
	} else if (!j.permitted || policy_target(p, in->target) == NULL) {
		deny_default(&j, &d);
	} else if (j.t.nrequire != 0) {
		judge_grants(&j, grants, ngrants, &d);
	} else {
		d.verdict = VERDICT_ALLOW;
		set_rules(&d, &j.first_permit, 1); /* one is enough */
		set_calendar(&d, p, &j.permit, in);
	}
	if (d.verdict == VERDICT_DENY)
		d.nlifted = 0;
	*ret = d;
}

struct policy_input
policy_input_for(const struct policy *p, struct str target_id)
{
	const struct policy_target *t = policy_target(p, target_id);
	struct policy_input in = {.target = target_id, .statements = 1};

	if (t != NULL) {
		in.kind = str_z(target_kind_name(t->kind));
		in.env = t->env;
	}
	return in;
}
