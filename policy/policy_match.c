/*
 * One condition against one action, in three values. Runs in core and the command line. A
 * missing attribute, a calendar outside its horizon, a clock that is not known are "unknown",
 * and the caller lets unknown tighten. Must never turn unknown into yes for a permit.
 */
#include "policy/policy_internal.h"

#include "policy/resource.h"

#include "common/banned.h"

static enum tri
tri_and(enum tri a, enum tri b)
{
	if (a == TRI_NO || b == TRI_NO)
		return TRI_NO;
	return a == TRI_UNKNOWN || b == TRI_UNKNOWN ? TRI_UNKNOWN : TRI_YES;
}

static enum tri
tri_or(enum tri a, enum tri b)
{
	if (a == TRI_YES || b == TRI_YES)
		return TRI_YES;
	return a == TRI_UNKNOWN || b == TRI_UNKNOWN ? TRI_UNKNOWN : TRI_NO;
}

static enum tri
tri_not(enum tri a)
{
	switch (a) {
	case TRI_NO: return TRI_YES;
	case TRI_YES: return TRI_NO;
	case TRI_UNKNOWN: return TRI_UNKNOWN;
	}
	return TRI_UNKNOWN;
}

static enum tri
match_attr(const struct strs *patterns, struct str value)
{
	if (value.p == NULL)
		return TRI_UNKNOWN;
	for (size_t i = 0; i < patterns->n; i++)
		if (str_glob(patterns->v[i], value))
			return TRI_YES;
	return TRI_NO;
}

static enum tri
match_effects(const struct cond *c, uint32_t effects)
{
	if (c->mode == EFFECTS_ANY)
		return (effects & c->effects) != 0 ? TRI_YES : TRI_NO;
	return (effects & ~c->effects) == 0 ? TRI_YES : TRI_NO;
}

static enum tri
match_statements(const struct cond *c, unsigned n)
{
	if (c->gt >= 0 && !((int64_t)n > c->gt))
		return TRI_NO;
	if (c->lt >= 0 && !((int64_t)n < c->lt))
		return TRI_NO;
	return c->eq >= 0 && (int64_t)n != c->eq ? TRI_NO : TRI_YES;
}

/* The last dot that parts names: one inside double quotes belongs to a name. 0: none. */
static size_t
last_dot(struct str s)
{
	bool quoted = false;
	size_t at = 0;

	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"')
			quoted = !quoted;
		else if (s.p[i] == '.' && !quoted)
			at = i + 1;
	}
	return at;
}

/*
 * A relation as written against a pattern as written. Where only one of them names a schema
 * they may or may not mean the same table: unknown.
 */
static enum tri
match_relation_one(struct str pattern, struct str rel)
{
	size_t pdot = last_dot(pattern), rdot = last_dot(rel);

	if (str_glob(pattern, rel))
		return TRI_YES;
	if ((pdot != 0) == (rdot != 0))
		return TRI_NO;
	return str_glob((struct str){pattern.p + pdot, pattern.n - pdot},
		   (struct str){rel.p + rdot, rel.n - rdot})
		   ? TRI_UNKNOWN
		   : TRI_NO;
}

/* Views of the server that hold values out of other tables. */
static bool
shows_other_tables(struct str rel)
{
	static const char *const views[] = {"pg_stats", "pg_statistic", "pg_stats_ext",
	    "pg_stats_ext_exprs", "pg_statistic_ext_data"};
	size_t dot = last_dot(rel);

	for (size_t i = 0; i < ARRAY_LEN(views); i++)
		if (str_eqz((struct str){rel.p + dot, rel.n - dot}, views[i]))
			return true;
	return false;
}

/*
 * forbid and require: any relation matches. permit: every relation does, and there is one,
 * since a permit for one table must not carry another along.
 */
static enum tri
match_relations(
    const struct strs *patterns, const struct policy_input *in, uint32_t effects, bool every)
{
	enum tri all = in->nrelations != 0 ? TRI_YES : TRI_NO, any = TRI_NO;

	for (size_t i = 0; i < in->nrelations; i++) {
		enum tri one = shows_other_tables(in->relations[i]) ? TRI_UNKNOWN : TRI_NO;

		for (size_t k = 0; k < patterns->n; k++)
			one = tri_or(one, match_relation_one(patterns->v[k], in->relations[i]));
		any = tri_or(any, one);
		all = tri_and(all, one);
	}
	/* What was not understood may touch anything; so may a DROP that names no relation
	 * (SCHEMA). */
	if ((effects & EFFECT_SET_ESCAPE) != 0 ||
	    ((effects & EFFECT_drop) != 0 && in->nrelations == 0))
		any = tri_or(any, TRI_UNKNOWN);
	return every ? all : any;
}

/*
 * The same of names that are no tables (policy/resource.h): a name that only may be one of the
 * pattern's is unknown. A pattern that matches a name with a '*' as it stands matches all of it.
 */
static enum tri
match_resources(
    const struct strs *patterns, const struct policy_input *in, uint32_t effects, bool every)
{
	enum tri all = in->nrelations != 0 ? TRI_YES : TRI_NO, any = TRI_NO;

	for (size_t i = 0; i < in->nrelations; i++) {
		enum tri one = TRI_NO;

		for (size_t k = 0; k < patterns->n && one != TRI_YES; k++) {
			if (str_glob(patterns->v[k], in->relations[i]))
				one = TRI_YES;
			else if (resource_overlaps(patterns->v[k], in->relations[i]))
				one = TRI_UNKNOWN;
		}
		any = tri_or(any, one);
		all = tri_and(all, one);
	}
	if ((effects & EFFECT_SET_ESCAPE) != 0 ||
	    ((effects & EFFECT_drop) != 0 && in->nrelations == 0))
		any = tri_or(any, TRI_UNKNOWN);
	return every ? all : any;
}

static void
key_set(struct cond_match *m, enum cond_key k, enum tri t)
{
	m->asked[k] = true;
	m->key[k] = t;
}

/* What holds if one of the two does, and nobody knows which. */
static enum tri
tri_either(enum tri a, enum tri b)
{
	return a == b ? a : TRI_UNKNOWN;
}

/* Tables are named by "relation"; "resource" names whatever the kind has. */
static enum tri
match_names(enum cond_key k, const struct cond *c, const struct policy_input *in, bool sql,
    uint32_t effects, bool every)
{
	struct policy_input none = *in;

	none.nrelations = 0;
	if (k == COND_relation)
		return match_relations(&c->relation, sql ? in : &none, effects, every);
	return sql ? match_relations(&c->resource, in, effects, every)
		   : match_resources(&c->resource, in, effects, every);
}

static void
match_both(const struct cond *c, const struct policy_input *in, uint32_t effects, bool every,
    struct cond_match *m)
{
	static const enum cond_key keys[] = {COND_relation, COND_resource};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct strs *patterns = i == 0 ? &c->relation : &c->resource;

		if (patterns->n == 0)
			continue;
		if (in->kind.p != NULL)
			key_set(m, keys[i],
			    match_names(
				keys[i], c, in, str_eqz(in->kind, "postgres"), effects, every));
		else
			key_set(m, keys[i],
			    tri_either(match_names(keys[i], c, in, true, effects, every),
				match_names(keys[i], c, in, false, effects, every)));
	}
}

/* One more of these would be over what the rule lets through. */
static enum tri
match_rate(const struct policy_rate *rate, const struct policy_input *in)
{
	uint64_t weight = in->statements != 0 ? in->statements : 1;

	for (size_t i = 0; i < in->nrates; i++)
		if (str_eq(in->rates[i].rule, rate->rule))
			return in->rates[i].n + weight > rate->over ? TRI_YES : TRI_NO;
	return TRI_UNKNOWN;
}

/* In any of the calendars; which one decided is the first that says yes, else the first unknown. */
static enum tri
match_during(const struct policy *p, const struct indices *cals, struct instant at, uint32_t *ret)
{
	enum tri any = TRI_NO;

	for (size_t i = 0; i < cals->n; i++) {
		enum tri one = policy_calendar_state(&p->calendars[cals->v[i]], at);

		if (one == TRI_YES || (one == TRI_UNKNOWN && any == TRI_NO))
			*ret = cals->v[i];
		any = tri_or(any, one);
		if (any == TRI_YES)
			break;
	}
	return any;
}

/* Outside of all of them; named is the one that comes next. */
static enum tri
match_outside(const struct policy *p, const struct indices *cals, struct instant at, uint32_t *ret)
{
	uint32_t inside = CALENDAR_NONE;
	enum tri any = match_during(p, cals, at, &inside);
	int64_t best = 0;

	*ret = inside != CALENDAR_NONE ? inside : cals->v[0];
	if (any != TRI_NO)
		return tri_not(any);
	for (size_t i = 0; i < cals->n; i++) {
		int64_t next =
		    policy_calendar_next(&p->calendars[cals->v[i]], at.us / 1000000, true);

		if (next != 0 && (best == 0 || next < best)) {
			best = next;
			*ret = cals->v[i];
		}
	}
	return TRI_YES;
}

static void
match_times(const struct policy *p, const struct cond *c, const struct policy_input *in,
    struct cond_match *m)
{
	uint32_t during = CALENDAR_NONE, outside = CALENDAR_NONE;
	struct instant at = in->at;

	if (c->finish && in->began_us != 0 && in->began_us < at.us)
		at.us = in->began_us;

	if (c->during.n != 0)
		key_set(m, COND_during, match_during(p, &c->during, at, &during));
	if (c->outside.n != 0)
		key_set(m, COND_outside, match_outside(p, &c->outside, at, &outside));
	m->calendar = during != CALENDAR_NONE ? during : outside;
	if (m->calendar == CALENDAR_NONE && c->during.n != 0)
		m->calendar = c->during.v[0];
}

/* The AND over what was asked. */
static void
key_join(struct cond_match *m)
{
	for (unsigned k = 0; k < COND_COUNT; k++) {
		if (!m->asked[k])
			continue;
		m->all = tri_and(m->all, m->key[k]);
		if (k != COND_during && k != COND_outside)
			m->untimed = tri_and(m->untimed, m->key[k]);
		if (k != COND_rate)
			m->unrated = tri_and(m->unrated, m->key[k]);
	}
}

static void
match_attrs(
    const struct cond *c, const struct policy_input *in, enum attr from, struct cond_match *m)
{
	const struct str values[ATTR_COUNT] = {[ATTR_target] = in->target,
	    [ATTR_kind] = in->kind,
	    [ATTR_env] = in->env,
	    [ATTR_agent] = in->agent,
	    [ATTR_run] = in->run,
	    [ATTR_owner] = in->owner};

	for (unsigned a = from; a < ATTR_COUNT; a++)
		if (c->attr[a].n != 0)
			key_set(m, (enum cond_key)a, match_attr(&c->attr[a], values[a]));
}

static void
match_rest(const struct policy *p, const struct cond *c, const struct policy_input *in,
    uint32_t effects, enum rule_kind kind, struct cond_match *m)
{
	if (c->gt >= 0 || c->lt >= 0 || c->eq >= 0)
		key_set(m, COND_statements, match_statements(c, in->statements));
	if (c->relation.n != 0 || c->resource.n != 0)
		match_both(c, in, effects, kind == RULE_PERMIT, m);
	if (c->during.n != 0 || c->outside.n != 0)
		match_times(p, c, in, m);
	if (c->rate.per != RATE_NONE)
		key_set(m, COND_rate, match_rate(&c->rate, in));
	key_join(m);
}

static const struct cond_match nothing_asked = {
    .calendar = CALENDAR_NONE, .all = TRI_YES, .untimed = TRI_YES, .unrated = TRI_YES};

void
policy_cond_match(const struct policy *p, const struct cond *c, const struct policy_input *in,
    enum rule_kind kind, struct cond_match *ret)
{
	uint32_t effects = in->effects != 0 ? in->effects : EFFECT_opaque;

	*ret = nothing_asked;
	match_attrs(c, in, ATTR_target, ret);
	if (c->mode != EFFECTS_UNASKED)
		key_set(ret, COND_effects, match_effects(c, effects));
	match_rest(p, c, in, effects, kind, ret);
}

void
policy_cond_match_rest(const struct policy *p, const struct cond *c, const struct policy_input *in,
    enum rule_kind kind, struct cond_match *ret)
{
	*ret = nothing_asked;
	match_attrs(c, in, ATTR_agent, ret);
	match_rest(p, c, in, in->effects != 0 ? in->effects : EFFECT_opaque, kind, ret);
}

bool
policy_rate_concerns(const struct policy *p, size_t i, const struct policy_input *in)
{
	const struct rule *rule = &p->rules[p->rates[i]];
	struct cond_match m;

	policy_cond_match(p, &rule->cond, in, rule->kind, &m);
	return m.unrated != TRI_NO;
}
