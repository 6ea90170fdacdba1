/*
 * The classes of each part of an action, and one real value of each, by the very function that
 * judges actions. Runs in the command line alone, when a policy is reviewed. Must leave out no
 * class: a theorem would be proved that does not hold.
 */
#include "policy/policy_space.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define SPACE_MEMORY_MAX ((size_t)1 << 30)

#define FUTURE "~" /* no id, so never the name of a target or env */

const char *const space_dim_names[SPACE_DIMS] = {[SPACE_TARGET] = "targets",
    [SPACE_TIME] = "times",
    [SPACE_EFFECTS] = "sets of effects",
    [SPACE_STATEMENTS] = "numbers of statements",
    [SPACE_NAMES] = "sets of names",
    [SPACE_AGENT] = "agents",
    [SPACE_RUN] = "runs",
    [SPACE_OWNER] = "owners"};

_Static_assert(COND_COUNT == 13, "a new key of conditions needs a dimension here");

/*
 * What a dimension knows of a condition: the rest of it is not asked. A rate is none: how often
 * something happened before can be anything (space_rate_bites).
 */
static struct cond
part(const struct cond *c, enum space_dim d)
{
	struct cond r = {.gt = -1, .lt = -1, .eq = -1};

	switch (d) {
	case SPACE_TARGET:
		r.attr[ATTR_target] = c->attr[ATTR_target];
		r.attr[ATTR_kind] = c->attr[ATTR_kind];
		r.attr[ATTR_env] = c->attr[ATTR_env];
		break;
	case SPACE_TIME:
		r.during = c->during;
		r.outside = c->outside;
		break;
	case SPACE_EFFECTS:
		r.mode = c->mode;
		r.effects = c->effects;
		break;
	case SPACE_STATEMENTS:
		r.gt = c->gt;
		r.lt = c->lt;
		r.eq = c->eq;
		break;
	case SPACE_NAMES:
		r.relation = c->relation;
		r.resource = c->resource;
		break;
	case SPACE_AGENT: r.attr[ATTR_agent] = c->attr[ATTR_agent]; break;
	case SPACE_RUN: r.attr[ATTR_run] = c->attr[ATTR_run]; break;
	case SPACE_OWNER: r.attr[ATTR_owner] = c->attr[ATTR_owner]; break;
	case SPACE_DIMS: break;
	}
	return r;
}

static bool
asks(const struct cond *c, enum space_dim d)
{
	struct cond r = part(c, d);
	bool any = r.mode != EFFECTS_UNASKED || r.gt >= 0 || r.lt >= 0 || r.eq >= 0 ||
		   r.relation.n != 0 || r.resource.n != 0 || r.during.n != 0 || r.outside.n != 0;

	for (size_t a = 0; a < ATTR_COUNT; a++)
		any = any || r.attr[a].n != 0;
	return any;
}

uint64_t *
space_mask(struct space *s)
{
	return arena_alloc(s->mem, s->words * sizeof(uint64_t));
}

/* --- one value ----------------------------------------------------------------------- */

static void
match_put(const struct space *s, enum space_dim d, const struct policy_input *in, uint64_t *out)
{
	for (size_t i = 0; i < s->nconds; i++) {
		const struct space_cond *sc = &s->conds[i];
		struct policy_input own = *in;
		struct cond c;
		struct cond_match m;

		/* A target that a policy does not have is denied by it, whatever its rules say. */
		if (d == SPACE_TARGET && sc->kind == RULE_PERMIT && !str_eqz(in->target, FUTURE) &&
		    policy_target(sc->p, in->target) == NULL)
			continue;
		if (!space_bit(s->asks[d], i)) {
			space_set(out, i);
			continue;
		}
		/* Two policies may say different things of a target. */
		if (d == SPACE_TARGET && policy_target(sc->p, in->target) != NULL)
			own = policy_input_for(sc->p, in->target);
		c = part(sc->c, d);
		policy_cond_match(sc->p, &c, &own, sc->kind, &m);
		if (sc->kind == RULE_PERMIT ? m.all == TRI_YES : m.all != TRI_NO)
			space_set(out, i);
	}
}

static bool
same_match(const struct space *s, const struct space_value *a, const struct space_value *b)
{
	size_t size = s->words * sizeof(uint64_t);

	return memcmp(a->match, b->match, size) == 0 &&
	       (a->match_drop == NULL) == (b->match_drop == NULL) &&
	       (a->match_drop == NULL || memcmp(a->match_drop, b->match_drop, size) == 0);
}

bool
space_is_sql(const struct space_value *v)
{
	return str_eqz(v->in.kind, "postgres");
}

static unsigned
rates_over(const struct space *s, unsigned statements)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->nconds; i++)
		n += s->conds[i].c->rate.per != RATE_NONE && statements > s->conds[i].c->rate.over;
	return n;
}

/* What no condition says, but what comes behind depends on. */
static bool
same_beside(enum space_dim d, const struct space_value *a, const struct space_value *b)
{
	if (d == SPACE_TARGET || d == SPACE_NAMES)
		return space_is_sql(a) == space_is_sql(b);
	return a->rates == b->rates;
}

/*
 * Sets of names matter where permits fail one by one (space_names). Beside one that every permit
 * treats alike, one that matches more forbids and requires adds nothing.
 */
static bool
is_dominated(const struct space *s, const uint64_t *by, const uint64_t *match)
{
	for (size_t i = 0; i < s->words; i++)
		if (((by[i] ^ match[i]) & s->permits[i]) != 0 || (by[i] & ~match[i]) != 0)
			return false;
	return true;
}

/* Adds a class unless one is there that no condition tells from it. */
void
space_value_add(struct space *s, enum space_dim d, struct policy_input in, bool always)
{
	struct space_value v = {.in = in, .match = space_mask(s)};

	v.rates = d == SPACE_STATEMENTS ? rates_over(s, in.statements) : 0;
	v.future = d == SPACE_TARGET && str_eqz(in.target, FUTURE);
	if (d == SPACE_NAMES) {
		in.effects = EFFECT_read;
		match_put(s, d, &in, v.match);
		in.effects = EFFECT_drop;
		v.match_drop = space_mask(s);
		match_put(s, d, &in, v.match_drop);
	} else {
		match_put(s, d, &in, v.match);
	}
	for (size_t i = 0; d == SPACE_NAMES && in.nrelations > 1 && i < s->n[d]; i++)
		if (space_is_sql(&s->v[d][i]) == space_is_sql(&v) &&
		    s->v[d][i].in.nrelations != 0 && is_dominated(s, s->v[d][i].match, v.match) &&
		    is_dominated(s, s->v[d][i].match_drop, v.match_drop))
			return;
	for (size_t i = 0; !always && i < s->n[d]; i++)
		if (same_match(s, &s->v[d][i], &v) && same_beside(d, &s->v[d][i], &v))
			return;
	s->v[d][s->n[d]++] = v;
}

void
space_room(struct space *s, enum space_dim d, size_t n)
{
	s->v[d] = arena_alloc(s->mem, (n + 1) * sizeof(*s->v[d]));
}

/* --- targets, owners ----------------------------------------------------------------- */

/* Each policy once, in the order in which conditions name them. */
size_t
space_policies(const struct space *s, const struct policy **ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nconds; i++) {
		size_t k = 0;

		while (k < n && ret[k] != s->conds[i].p)
			k++;
		if (k == n && n < max)
			ret[n++] = s->conds[i].p;
	}
	return n;
}

/* Of a target that two policies have, as the later one (the new one) says. */
static void
targets(struct space *s)
{
	const struct policy *p[2];
	size_t n = space_policies(s, p, 2), total = 0;

	for (size_t i = 0; i < n; i++)
		total += p[i]->ntargets;
	space_room(s, SPACE_TARGET, total + TARGET_KIND_LAST);
	for (size_t i = n; i-- > 0;)
		for (size_t k = 0; k < p[i]->ntargets; k++)
			space_value_add(s, SPACE_TARGET,
			    policy_input_for(p[i], p[i]->targets[k].pub.id), false);
	for (int k = TARGET_POSTGRES; k <= TARGET_KIND_LAST; k++)
		space_value_add(s, SPACE_TARGET,
		    (struct policy_input){.target = STR(FUTURE),
			.env = STR(FUTURE),
			.kind = str_z(target_kind_name((enum target_kind)k))},
		    false);
}

static bool
same_roles(const struct policy_person *a, const struct policy_person *b)
{
	if (policy_person_can_sign(a, false) != policy_person_can_sign(b, false) ||
	    policy_person_can_sign(a, true) != policy_person_can_sign(b, true) ||
	    a->nroles != b->nroles)
		return false;
	for (size_t i = 0; i < a->nroles; i++)
		if (!str_eq(a->roles[i], b->roles[i]))
			return false;
	return true;
}

/* People whom no rule names differ by whose signature is missing when the run is theirs. */
static bool
owner_is_new(const struct space *s, const struct policy *p, const struct policy_person *q,
    const struct space_value *v)
{
	for (size_t i = 0; i < s->n[SPACE_OWNER]; i++) {
		const struct space_value *o = &s->v[SPACE_OWNER][i];
		const struct policy_person *other =
		    o->in.owner.p != NULL ? policy_person(p, o->in.owner) : NULL;

		if (other != NULL && same_match(s, o, v) && same_roles(other, q))
			return false;
	}
	return true;
}

static void
owners(struct space *s)
{
	const struct policy *p[2];
	size_t n = space_policies(s, p, 2), total = 0;

	for (size_t i = 0; i < n; i++)
		total += p[i]->npeople;
	space_room(s, SPACE_OWNER, total + 1);
	for (size_t i = n; i-- > 0;) {
		for (size_t k = 0; k < p[i]->npeople; k++) {
			struct policy_input in = {.owner = p[i]->people[k].id};
			struct space_value v = {.match = space_mask(s)};

			match_put(s, SPACE_OWNER, &in, v.match);
			if (owner_is_new(s, p[i], &p[i]->people[k], &v))
				space_value_add(s, SPACE_OWNER, in, true);
		}
	}
	space_value_add(s, SPACE_OWNER, (struct policy_input){0}, false);
}

/* --- all of it ----------------------------------------------------------------------- */

void
space_free(struct space *s)
{
	if (s == NULL)
		return;
	arena_free(s->mem);
	free(s);
}

int
space_build(const struct space_cond *conds, size_t nconds, const struct space_how *how,
    struct space **ret, struct err *err)
{
	AUTO(space) struct space *s = xcalloc(1, sizeof(*s));
	int rc;

	s->mem = arena_new(SPACE_MEMORY_MAX);
	s->conds = conds;
	s->nconds = nconds;
	s->words = (nconds + 63) / 64 + (nconds == 0);
	s->steps_max = SPACE_STEPS_MAX;
	s->all = space_mask(s);
	for (int d = 0; d < SPACE_DIMS; d++) {
		s->asks[d] = space_mask(s);
		for (size_t i = 0; i < nconds; i++)
			if (asks(conds[i].c, (enum space_dim)d))
				space_set(s->asks[d], i);
	}
	s->permits = space_mask(s);
	for (size_t i = 0; i < nconds; i++) {
		space_set(s->all, i);
		if (conds[i].kind == RULE_PERMIT)
			space_set(s->permits, i);
	}
	targets(s);
	space_effects(s);
	space_statements(s);
	owners(s);
	rc = space_times(s, how, err);
	if (rc == 0)
		rc = space_names(s, how->several, err);
	if (rc == 0)
		rc = space_words(s, SPACE_AGENT, err);
	if (rc == 0)
		rc = space_words(s, SPACE_RUN, err);
	if (rc == 0)
		*ret = TAKE_PTR(s);
	return rc;
}
