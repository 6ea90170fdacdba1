/*
 * Rules as written. Runs in the command line on source and in core on bundles. Only a permit
 * widens, so a permit must list its effects and none of @escape; a key that belongs to
 * another kind of rule is an error, because its writer believed something else.
 */
#include "policy/policy_internal.h"

#include <stddef.h>

#include "common/banned.h"

struct rule_read {
	struct rule rule;
	const struct json *permit, *require, *forbid, *approve, *limits, *within, *use_within,
	    *override, *overrun, *preview, *verify;
};

static int
read_here(struct reader *r UNUSED, const struct json *v, void *out, struct err *err UNUSED)
{
	const struct json **ret = out;

	*ret = v;
	return 0;
}

static int
read_belt(struct reader *r, const struct json *v, void *out, struct err *err)
{
	bool *ret = out;
	int rc = read_type(r, v, JSON_BOOL, "belt", err);

	if (rc == 0)
		*ret = json_bool(v);
	return rc;
}

#define AT(member) offsetof(struct rule_read, member)
static const struct read_field rule_fields[] = {
    {"id", read_id, AT(rule.id), true}, {"why", read_text, AT(rule.why), false},
    {"permit", read_here, AT(permit), false}, {"require", read_here, AT(require), false},
    {"forbid", read_here, AT(forbid), false}, {"approve", read_here, AT(approve), false},
    {"limits", read_here, AT(limits), false}, {"within", read_here, AT(within), false},
    {"use_within", read_here, AT(use_within), false}, {"override", read_here, AT(override), false},
    {"overrun", read_here, AT(overrun), false}, {"preview", read_here, AT(preview), false},
    {"verify", read_here, AT(verify), false},
    {"belt", read_belt, AT(rule.belt), false}, /* "I know that another rule covers this one" */
};
#undef AT

static int
read_count(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy_slot *s = out;
	int64_t n;
	int rc = read_int(r, v, "count", 1, POLICY_QUORUM_MAX, &n, err);

	if (rc == 0)
		s->count = (unsigned)n;
	return rc;
}

static const struct read_field slot_fields[] = {
    {"role", read_id, offsetof(struct policy_slot, role), true},
    {"count", read_count, 0, true},
};

static int
by_role(const void *a, const void *b)
{
	const struct policy_slot *x = a, *y = b;

	return str_cmp(x->role, y->role);
}

static int
read_slots(struct reader *r, const struct json *v, struct rule *ret, struct err *err)
{
	unsigned total = 0;
	int rc = read_type(r, v, JSON_ARRAY, "approve", err);

	if (rc != 0)
		return rc;
	if (json_count(v) == 0 || json_count(v) > POLICY_SLOTS_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "approve must list from 1 to %d roles, lists %zu", POLICY_SLOTS_MAX,
		    json_count(v));
	for (size_t i = 0; i < json_count(v); i++) {
		rc = read_object(r, json_at(v, i), "an approval slot", slot_fields,
		    ARRAY_LEN(slot_fields), &ret->slots[i], err);
		if (rc != 0)
			return rc;
		total += ret->slots[i].count;
		for (size_t k = 0; k < i; k++)
			if (str_eq(ret->slots[k].role, ret->slots[i].role))
				return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
				    "role \"%.*s\" stands twice", STR_ARG(ret->slots[i].role));
	}
	if (total > POLICY_QUORUM_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "quorum must be from 1 to %d people, is %u", POLICY_QUORUM_MAX, total);
	ret->nslots = json_count(v);
	qsort(ret->slots, ret->nslots, sizeof(*ret->slots), by_role);
	return 0;
}

static int
read_rows(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_int(r, v, "max_rows", 0, POLICY_ROWS_MAX, out, err);
}

static const struct read_field limits_fields[] = {
    {"max_rows", read_rows, offsetof(struct rule, max_rows), true},
};

static int
finish_permit(struct reader *r, struct rule_read *t, struct err *err)
{
	const struct json *v = t->permit;
	const struct cond *c = &t->rule.cond;
	int rc = policy_read_cond(r, v, &t->rule.cond, err);

	if (rc != 0)
		return rc;
	if (c->mode != EFFECTS_ONLY)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "permit %.*s must list its effects: \"effects\":{\"only\":[...]}",
		    STR_ARG(t->rule.id));
	if ((c->effects & EFFECT_SET_ESCAPE) != 0) {
		AUTO_BUF struct buf names = BUF(256);

		effect_put(&names, c->effects & EFFECT_SET_ESCAPE);
		return json_err(r->doc, v, err, ERR_INVALID,
		    "permit %.*s: effects of @escape cannot be permitted: %.*s",
		    STR_ARG(t->rule.id), STR_ARG(buf_str(&names)));
	}
	if (c->rate.per != RATE_NONE)
		return json_err(r->doc, json_get(v, "rate"), err, ERR_INVALID,
		    "permit %.*s: \"rate\" belongs to require and forbid rules: it only tightens",
		    STR_ARG(t->rule.id));
	if (c->effects == 0)
		read_warn(
		    r, v, "permit %.*s permits nothing: its list is empty", STR_ARG(t->rule.id));
	return 0;
}

/* What is not asked for is left out: one way to write it. */
static int
read_verify(struct reader *r, const struct json *v, struct rule *ret, struct err *err)
{
	if (!json_bool(v))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "verify must be true, or not be there: then any enrolled key may sign");
	ret->verify = true;
	return 0;
}

static int
read_preview(struct reader *r, const struct json *v, struct rule *ret, struct err *err)
{
	if (!str_eqz(json_str(v), "required"))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "preview of a rule must be \"required\", or not be there: what is asked of a "
		    "target "
		    "beforehand is said there (\"plan\", \"count\", \"look\")");
	ret->preview = true;
	return 0;
}

static int
finish_require(struct reader *r, struct rule_read *t, struct err *err)
{
	const struct json *v = t->require;
	int rc = policy_read_cond(r, v, &t->rule.cond, err);

	if (rc != 0)
		return rc;
	if (t->approve == NULL || t->within == NULL || t->use_within == NULL)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "require %.*s needs \"approve\", \"within\" (to collect signatures) and "
		    "\"use_within\" (to act on them)",
		    STR_ARG(t->rule.id));
	rc = read_slots(r, t->approve, &t->rule, err);
	if (rc == 0)
		rc = read_duration(
		    r, t->within, "within", 1, POLICY_WITHIN_MAX, &t->rule.within_s, err);
	if (rc == 0)
		rc = read_duration(r, t->use_within, "use_within", 1, POLICY_USE_WITHIN_MAX,
		    &t->rule.use_within_s, err);
	if (rc == 0 && t->limits != NULL)
		rc = read_object(
		    r, t->limits, "limits", limits_fields, ARRAY_LEN(limits_fields), &t->rule, err);
	if (rc == 0 && t->verify != NULL)
		rc = read_verify(r, t->verify, &t->rule, err);
	if (rc == 0 && t->preview != NULL)
		rc = read_preview(r, t->preview, &t->rule, err);
	return rc;
}

static int
finish_forbid(struct reader *r, struct rule_read *t, struct err *err)
{
	static const char *const names[] = {[OVERRIDE_NEVER] = "never",
	    [OVERRIDE_EXCEPTION] = "exception",
	    [OVERRIDE_BREAKGLASS] = "breakglass"};
	const struct json *v = t->forbid;
	int rc = policy_read_cond(r, v, &t->rule.cond, err);

	if (rc != 0)
		return rc;
	if (t->override == NULL)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "forbid %.*s needs \"override\": never, exception or breakglass",
		    STR_ARG(t->rule.id));
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (str_eqz(json_str(t->override), names[i])) {
			t->rule.override = (enum rule_override)i;
			return 0;
		}
	}
	return json_err(r->doc, t->override, err, ERR_INVALID,
	    "override must be never, exception or breakglass");
}

static int
refuse_for(struct reader *r, const struct rule_read *t, const struct json *v, const char *key,
    const char *kind, struct err *err)
{
	if (v == NULL)
		return 0;
	return json_err(r->doc, v, err, ERR_INVALID, "rule %.*s: \"%s\" belongs to %s rules",
	    STR_ARG(t->rule.id), key, kind);
}

static int
refuse_foreign_keys(struct reader *r, const struct rule_read *t, struct err *err)
{
	int rc = 0;

	if (t->rule.kind != RULE_FORBID)
		rc = refuse_for(r, t, t->override, "override", "forbid", err);
	if (rc == 0 && t->rule.kind != RULE_REQUIRE)
		rc = refuse_for(r, t, t->approve, "approve", "require", err);
	if (rc == 0 && t->rule.kind != RULE_REQUIRE)
		rc = refuse_for(r, t, t->within, "within", "require", err);
	if (rc == 0 && t->rule.kind != RULE_REQUIRE)
		rc = refuse_for(r, t, t->use_within, "use_within", "require", err);
	if (rc == 0 && t->rule.kind != RULE_REQUIRE)
		rc = refuse_for(r, t, t->limits, "limits", "require", err);
	if (rc == 0 && t->rule.kind != RULE_REQUIRE)
		rc = refuse_for(r, t, t->verify, "verify", "require", err);
	if (rc == 0 && t->rule.kind != RULE_REQUIRE)
		rc = refuse_for(r, t, t->preview, "preview", "require", err);
	if (rc == 0 && t->rule.kind == RULE_PERMIT)
		rc = refuse_for(r, t, t->overrun, "overrun", "require and forbid", err);
	return rc;
}

/* What both a require and a forbid may have. */
static int
finish_tightening(struct reader *r, struct rule_read *t, struct err *err)
{
	struct policy *p = r->p;
	struct cond *c = &t->rule.cond;

	c->rate.rule = t->rule.id;
	if (c->rate.per != RATE_NONE && p->nrates == POLICY_RATES_MAX)
		return json_err(r->doc,
		    json_get(t->require != NULL ? t->require : t->forbid, "rate"), err, ERR_INVALID,
		    "rule %.*s: over %d rules have a rate", STR_ARG(t->rule.id), POLICY_RATES_MAX);
	if (c->rate.per != RATE_NONE)
		p->rates[p->nrates++] = (uint32_t)p->nrules;
	if (t->overrun == NULL)
		return 0;
	if (!str_eqz(json_str(t->overrun), "finish"))
		return json_err(r->doc, t->overrun, err, ERR_INVALID,
		    "overrun must be \"finish\" (what began before may finish), or left out");
	if (c->during.n == 0 && c->outside.n == 0)
		return json_err(r->doc, t->overrun, err, ERR_INVALID,
		    "rule %.*s: \"overrun\" has no meaning without \"during\" or \"outside\"",
		    STR_ARG(t->rule.id));
	c->finish = true;
	return 0;
}

static int
read_rule(struct reader *r, const struct json *v, struct rule *ret, struct err *err)
{
	struct rule_read t = {.rule = {.max_rows = -1}};
	int rc = read_object(r, v, "a rule", rule_fields, ARRAY_LEN(rule_fields), &t, err);

	if (rc != 0)
		return rc;
	if ((t.permit != NULL) + (t.require != NULL) + (t.forbid != NULL) != 1)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "rule %.*s must have one of permit, require and forbid", STR_ARG(t.rule.id));
	t.rule.kind = t.permit != NULL	  ? RULE_PERMIT
		      : t.require != NULL ? RULE_REQUIRE
					  : RULE_FORBID;
	rc = refuse_foreign_keys(r, &t, err);
	if (rc != 0)
		return rc;
	switch (t.rule.kind) {
	case RULE_PERMIT: rc = finish_permit(r, &t, err); break;
	case RULE_REQUIRE: rc = finish_require(r, &t, err); break;
	case RULE_FORBID: rc = finish_forbid(r, &t, err); break;
	}
	if (rc == 0 && t.rule.kind != RULE_PERMIT)
		rc = finish_tightening(r, &t, err);
	if (rc == 0)
		*ret = t.rule;
	return rc;
}

static void
rules_alloc(struct policy *p, size_t n)
{
	p->rules = arena_alloc(p->mem, (n + 1) * sizeof(*p->rules));
}

static int
rules_one(struct reader *r, struct str name UNUSED, const struct json *v, struct err *err)
{
	struct rule *rule = &r->p->rules[r->p->nrules];
	int rc = read_rule(r, v, rule, err);

	if (rc == 0 && str_eqz(rule->id, "default"))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "\"default\" is the name of the rule that nothing permits");
	if (rc == 0)
		r->p->nrules++;
	return rc;
}

const struct section policy_rules_section = {.key = "rules",
    .type = JSON_ARRAY,
    .id = SECTION_RULES,
    .required = true,
    .max = POLICY_RULES_MAX,
    .alloc = rules_alloc,
    .one = rules_one};
