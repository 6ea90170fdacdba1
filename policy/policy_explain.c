/*
 * The verdict taken apart for people: every rule, every key of its condition, yes, no or
 * unknown. Runs in the command line and, for `show`, in core. Only prints; judges nothing.
 */
#include "policy/policy_internal.h"

#include "common/banned.h"

static const char *const cond_names[COND_COUNT] = {[COND_target] = "target",
    [COND_kind] = "kind",
    [COND_env] = "env",
    [COND_agent] = "agent",
    [COND_run] = "run",
    [COND_owner] = "owner",
    [COND_effects] = "effects",
    [COND_statements] = "statements",
    [COND_relation] = "relation",
    [COND_resource] = "resource",
    [COND_during] = "during",
    [COND_outside] = "outside",
    [COND_rate] = "rate"};

static const char *
tri_name(enum tri t)
{
	switch (t) {
	case TRI_NO: return "no";
	case TRI_YES: return "yes";
	case TRI_UNKNOWN: return "unknown";
	}
	return "unknown";
}

static const char *
kind_name(enum rule_kind k)
{
	switch (k) {
	case RULE_PERMIT: return "permit";
	case RULE_REQUIRE: return "require";
	case RULE_FORBID: return "forbid";
	}
	return "?";
}

static void
put_list(struct buf *out, const struct str *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%.*s", i != 0 ? "|" : "", STR_ARG(v[i]));
}

static void
put_value(struct buf *out, struct str v)
{
	if (v.p == NULL)
		buf_put_z(out, "(missing)");
	else
		buf_put_str(out, v);
}

static void
put_second(struct buf *out, int64_t s)
{
	char text[CLOCK_TEXT_SIZE];

	clock_format_s(s * 1000000, text);
	buf_put_z(out, text);
}

static void
put_effects(struct buf *out, const struct cond *c, const struct policy_input *in)
{
	buf_put_z(out, c->mode == EFFECTS_ANY ? "any of " : "only ");
	if (c->effects == 0)
		buf_put_z(out, "nothing");
	effect_put(out, c->effects);
	buf_put_z(out, "; has ");
	effect_put(out, in->effects != 0 ? in->effects : EFFECT_opaque);
}

static void
put_statements(struct buf *out, const struct cond *c, const struct policy_input *in)
{
	if (c->gt >= 0)
		buf_printf(out, "> %lld ", (long long)c->gt);
	if (c->lt >= 0)
		buf_printf(out, "< %lld ", (long long)c->lt);
	if (c->eq >= 0)
		buf_printf(out, "= %lld ", (long long)c->eq);
	buf_printf(out, "; has %u", in->statements);
}

/* "yearend in until ...", "weekend out, next ...", "old not valid". */
static void
put_calendars(struct buf *out, const struct policy *p, const struct indices *l, struct instant at)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct calendar *c = &p->calendars[l->v[i]];
		enum tri state = policy_calendar_state(c, at);
		int64_t next = policy_calendar_next(c, at.us / 1000000, state != TRI_YES);

		buf_printf(out, "%s%.*s ", i != 0 ? "; " : "", STR_ARG(c->id));
		switch (state) {
		case TRI_YES: buf_put_z(out, "inside, until "); break;
		case TRI_NO: buf_put_z(out, "outside, next "); break;
		case TRI_UNKNOWN:
			buf_put_z(out, at.known ? "does not cover this time" : "clock not known");
			continue;
		}
		if (next != 0)
			put_second(out, next);
		else
			buf_put_z(out, "not known");
	}
}

static void
put_rate(struct buf *out, const struct policy_rate *rate, const struct policy_input *in)
{
	buf_printf(out, "over %u in %llds per %s; before this ", rate->over, (long long)rate->in_s,
	    policy_rate_per_name(rate->per));
	for (size_t i = 0; i < in->nrates; i++) {
		if (str_eq(in->rates[i].rule, rate->rule)) {
			buf_printf(out, "%u", in->rates[i].n);
			return;
		}
	}
	buf_put_z(out, "not known");
}

static void
put_key(struct buf *out, const struct policy *p, const struct cond *c, enum cond_key k,
    const struct policy_input *in)
{
	const struct str values[ATTR_COUNT] = {
	    in->target, in->kind, in->env, in->agent, in->run, in->owner};

	switch (k) {
	case COND_target:
	case COND_kind:
	case COND_env:
	case COND_agent:
	case COND_run:
	case COND_owner:
		put_list(out, c->attr[k].v, c->attr[k].n);
		buf_put_z(out, "; is ");
		put_value(out, values[k]);
		break;
	case COND_effects: put_effects(out, c, in); break;
	case COND_statements: put_statements(out, c, in); break;
	case COND_relation:
	case COND_resource:
		put_list(out, k == COND_relation ? c->relation.v : c->resource.v,
		    k == COND_relation ? c->relation.n : c->resource.n);
		buf_put_z(out, "; names ");
		put_list(out, in->relations, in->nrelations);
		break;
	case COND_during: put_calendars(out, p, &c->during, in->at); break;
	case COND_outside: put_calendars(out, p, &c->outside, in->at); break;
	case COND_rate: put_rate(out, &c->rate, in); break;
	case COND_COUNT: break;
	}
}

/* What the rule does with its three-valued answer. */
static const char *
rule_outcome(const struct rule *rule, enum tri all)
{
	if (all == TRI_NO)
		return "does not apply";
	if (all == TRI_YES)
		return "applies";
	return rule->kind == RULE_PERMIT ? "unknown: does not apply" : "unknown: applies";
}

static void
put_rule(
    struct buf *out, const struct policy *p, const struct rule *rule, const struct policy_input *in)
{
	struct cond_match m;

	policy_cond_match(p, &rule->cond, in, rule->kind, &m);
	buf_printf(out, "%-8s %.*s: %s\n", kind_name(rule->kind), STR_ARG(rule->id),
	    rule_outcome(rule, m.all));
	for (unsigned k = 0; k < COND_COUNT; k++) {
		if (!m.asked[k])
			continue;
		buf_printf(out, "  %-7s %-10s ", tri_name(m.key[k]), cond_names[k]);
		put_key(out, p, &rule->cond, (enum cond_key)k, in);
		buf_put_c(out, '\n');
	}
}

void
policy_explain(const struct policy *p, const struct policy_input *in, struct buf *out)
{
	for (size_t i = 0; i < p->nrules; i++)
		put_rule(out, p, &p->rules[i], in);
}

static void
jcs_rule(
    struct jcs *j, const struct policy *p, const struct rule *rule, const struct policy_input *in)
{
	struct cond_match m;

	policy_cond_match(p, &rule->cond, in, rule->kind, &m);
	jcs_open(j, NULL);
	jcs_bool(j, "applies", rule->kind == RULE_PERMIT ? m.all == TRI_YES : m.all != TRI_NO);
	jcs_array(j, "conditions");
	for (unsigned k = 0; k < COND_COUNT; k++) {
		AUTO_BUF struct buf text = BUF((size_t)1 << 20);

		if (!m.asked[k])
			continue;
		put_key(&text, p, &rule->cond, (enum cond_key)k, in);
		jcs_open(j, NULL);
		jcs_z(j, "key", cond_names[k]);
		jcs_z(j, "result", tri_name(m.key[k]));
		jcs_str_lossy(j, "text", buf_str(&text));
		jcs_close(j);
	}
	jcs_array_end(j);
	jcs_str(j, "id", rule->id);
	jcs_z(j, "kind", kind_name(rule->kind));
	jcs_z(j, "result", tri_name(m.all));
	jcs_close(j);
}

void
policy_explain_jcs(
    const struct policy *p, const struct policy_input *in, struct jcs *j, const char *key)
{
	jcs_array(j, key);
	for (size_t i = 0; i < p->nrules; i++)
		jcs_rule(j, p, &p->rules[i], in);
	jcs_array_end(j);
}
