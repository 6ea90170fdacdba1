/*
 * What must hold across the parts of a policy. Runs in the command line on source and in
 * core on bundles. A rule that nobody could ever satisfy is an error here, so that nobody
 * finds it out at night with a request pending.
 */
#include "policy/policy_internal.h"

#include "common/xalloc.h"

#include "common/banned.h"

/* One object keeps the quorum arithmetic's memory off the stack. */
struct crew {
	uint16_t roles[POLICY_PEOPLE_MAX];
};

/* How many approvals stay open if everybody but `skip` signed. */
static unsigned
missing_without(const struct policy *p, const struct rule *rule, const struct policy_person *skip,
    struct crew *crew, struct slot_match *m)
{
	for (size_t i = 0; i < p->npeople; i++)
		crew->roles[i] =
		    &p->people[i] == skip || !policy_person_can_sign(&p->people[i], rule->verify)
			? 0
			: policy_roles_mask(&p->people[i], rule->slots, rule->nslots);
	policy_slots_match(rule->slots, rule->nslots, crew->roles, p->npeople, m);
	return m->missing_total;
}

static void
roles_short(const struct rule *rule, const struct slot_match *m, struct buf *out)
{
	const char *sep = "";

	for (size_t i = 0; i < rule->nslots; i++) {
		if (m->missing[i] == 0)
			continue;
		buf_printf(
		    out, "%s%u of role %.*s", sep, m->missing[i], STR_ARG(rule->slots[i].role));
		sep = ", ";
	}
}

static bool
same_slots(const struct rule *a, const struct rule *b)
{
	if (a->nslots != b->nslots || a->verify != b->verify)
		return false;
	for (size_t i = 0; i < a->nslots; i++)
		if (a->slots[i].count != b->slots[i].count ||
		    !str_eq(a->slots[i].role, b->slots[i].role))
			return false;
	return true;
}

/* Rules that ask for different people, each looked at once: thousands may ask for the same. */
#define ASKED_MAX 256
struct asked {
	size_t n;
	const struct rule *v[ASKED_MAX];
};

static bool
asked_before(struct asked *a, const struct rule *rule)
{
	for (size_t i = 0; i < a->n; i++)
		if (same_slots(a->v[i], rule))
			return true;
	if (a->n < ASKED_MAX)
		a->v[a->n++] = rule;
	return false;
}

static int
check_quorum(struct reader *r, const struct json *v, const struct rule *rule, struct err *err)
{
	const struct policy *p = r->p;
	AUTO_FREE struct crew *crew = xmalloc(sizeof(*crew));
	AUTO_BUF struct buf names = BUF(POLICY_SLOTS_MAX * 96);
	struct slot_match m;

	if (missing_without(p, rule, NULL, crew, &m) != 0) {
		roles_short(rule, &m, &names);
		return json_err(r->doc, v, err, ERR_INVALID,
		    "rule %.*s can never be approved: with distinct people who have a %skey, "
		    "%.*s cannot be filled",
		    STR_ARG(rule->id), rule->verify ? "hardware " : "", STR_ARG(buf_str(&names)));
	}
	for (size_t i = 0; r->warnings != NULL && i < p->npeople; i++)
		if (p->people[i].nlogins != 0 &&
		    missing_without(p, rule, &p->people[i], crew, &m) != 0)
			read_warn(r, v, "rule %.*s cannot be approved for a run that %.*s owns",
			    STR_ARG(rule->id), STR_ARG(p->people[i].id));
	return 0;
}

/* All requires may join in one decision: their roles together must fit its slots. */
static int
check_roles(struct reader *r, struct err *err)
{
	struct str seen[POLICY_SLOTS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < r->p->nrules; i++) {
		const struct rule *rule = &r->p->rules[i];

		for (size_t k = 0; k < rule->nslots; k++) {
			size_t j = 0;

			while (j < n && !str_eq(seen[j], rule->slots[k].role))
				j++;
			if (j < n)
				continue;
			if (n == POLICY_SLOTS_MAX)
				return json_err(r->doc, read_place(r, SECTION_RULES, rule->id), err,
				    ERR_INVALID, "the require rules name over %d roles in all",
				    POLICY_SLOTS_MAX);
			seen[n++] = rule->slots[k].role;
		}
	}
	return 0;
}

/* At a clock change a freeze is too long and an open window too short; see that both tighten. */
static void
warn_calendars(struct reader *r, const struct json *v, const struct rule *rule)
{
	bool widens = rule->kind == RULE_PERMIT;
	const struct cond *c = &rule->cond;

	for (size_t i = 0; i < c->during.n; i++) {
		const struct calendar *cal = &r->p->calendars[c->during.v[i]];

		if (cal->open != widens)
			read_warn(r, v,
			    "rule %.*s: \"during\" of %s calendar %.*s loosens at clock "
			    "changes: make it a calendar of kind %s",
			    STR_ARG(rule->id), cal->open ? "an open" : "a freeze", STR_ARG(cal->id),
			    widens ? "open" : "freeze");
	}
	for (size_t i = 0; i < c->outside.n; i++) {
		const struct calendar *cal = &r->p->calendars[c->outside.v[i]];

		if (cal->open == widens)
			read_warn(r, v,
			    "rule %.*s: \"outside\" of %s calendar %.*s loosens at clock "
			    "changes: make it a calendar of kind %s",
			    STR_ARG(rule->id), cal->open ? "an open" : "a freeze", STR_ARG(cal->id),
			    widens ? "freeze" : "open");
	}
}

/* What such a rule asks about where there is no preview is refused, always. */
static void
warn_preview(struct reader *r, const struct json *v, const struct rule *rule)
{
	for (size_t i = 0; rule->preview && i < r->p->ntargets; i++) {
		const struct policy_target *t = &r->p->targets[i].pub;
		struct policy_input in = policy_input_for(r->p, t->id);
		const struct cond only = {.attr = {[ATTR_target] = rule->cond.attr[ATTR_target],
					      [ATTR_kind] = rule->cond.attr[ATTR_kind],
					      [ATTR_env] = rule->cond.attr[ATTR_env]},
		    .gt = -1,
		    .lt = -1,
		    .eq = -1};
		struct cond_match m;

		if (t->preview != PREVIEW_NONE)
			continue;
		policy_cond_match(r->p, &only, &in, rule->kind, &m);
		if (m.all == TRI_NO)
			continue;
		read_warn(r, v,
		    "rule %.*s asks for a preview, and target %.*s has none: what it asks for "
		    "there "
		    "is refused; give the target \"preview\"%s, or let the rule name others",
		    STR_ARG(rule->id), STR_ARG(t->id),
		    t->kind == TARGET_POSTGRES ? " (plan or count)"
					       : " (look), if its kind has one");
		return;
	}
}

static int
check_hosts(struct reader *r, struct err *err)
{
	for (size_t i = 0; r->source == NULL && i < r->p->ntargets; i++)
		if (r->p->targets[i].pub.host.n == 0)
			return json_err(r->doc,
			    read_place(r, SECTION_TARGETS, r->p->targets[i].pub.id), err,
			    ERR_INVALID, "target %.*s has no host",
			    STR_ARG(r->p->targets[i].pub.id));
	return 0;
}

int
policy_check_whole(struct reader *r, struct err *err)
{
	struct asked asked = {.n = 0};
	bool permits = false;
	int rc = check_hosts(r, err);

	if (rc == 0)
		rc = policy_check_owners(r, err);
	if (rc == 0)
		rc = check_roles(r, err);
	if (rc == 0)
		rc = policy_check_emergency(r, err);
	for (size_t i = 0; rc == 0 && i < r->p->nrules; i++) {
		const struct rule *rule = &r->p->rules[i];
		const struct json *v = read_place(r, SECTION_RULES, rule->id);

		permits |= rule->kind == RULE_PERMIT;
		warn_calendars(r, v, rule);
		policy_warn_override(r, v, rule);
		warn_preview(r, v, rule);
		if (rule->kind == RULE_REQUIRE && !asked_before(&asked, rule))
			rc = check_quorum(r, v, rule, err);
	}
	if (rc == 0 && !permits) {
		r->doc = r->parts[0].doc;
		read_warn(r, json_get(r->parts[0].v, "rules"),
		    "no rule permits anything: everything is denied");
	}
	return rc;
}
