/*
 * The classes of the parts of an action that are not in the policy itself: names, effects, numbers,
 * times. Runs in the command line alone, when a policy is reviewed. Must leave out no class.
 */
#include "policy/policy_space.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define NAME_SETS_MAX 4096

/* --- words --------------------------------------------------------------------------- */

static void
pattern_put(struct strs *l, const struct strs *more)
{
	for (size_t i = 0; i < more->n; i++) {
		size_t k = 0;

		while (k < l->n && !str_eq(l->v[k], more->v[i]))
			k++;
		if (k == l->n)
			l->v[l->n++] = more->v[i];
	}
}

/* All patterns that names of a dimension are held against. */
static struct strs
patterns(const struct space *s, enum space_dim d, bool sql)
{
	const struct strs none = {0};
	struct strs r = {0};
	size_t total = 0;

	for (size_t i = 0; i < s->nconds; i++)
		total += s->conds[i].c->relation.n + s->conds[i].c->resource.n +
			 s->conds[i].c->attr[ATTR_agent].n + s->conds[i].c->attr[ATTR_run].n;
	r.v = arena_alloc(s->mem, (total + 1) * sizeof(*r.v));
	for (size_t i = 0; i < s->nconds; i++) {
		const struct cond *c = s->conds[i].c;

		if (d == SPACE_AGENT || d == SPACE_RUN) {
			pattern_put(&r, &c->attr[d == SPACE_AGENT ? ATTR_agent : ATTR_run]);
		} else {
			pattern_put(&r, sql ? &c->relation : &none);
			pattern_put(&r, &c->resource);
		}
	}
	return r;
}

int
space_words(struct space *s, enum space_dim d, struct err *err)
{
	struct strs l = patterns(s, d, false);
	struct word_set w = {0};
	int rc = l.n != 0 ? policy_words(s->mem, &l, false, &w, err) : 0;

	if (rc != 0)
		return err_wrap(err, "%s", space_dim_names[d]);
	space_room(s, d, w.n + 1);
	for (size_t i = 0; i < w.n; i++) {
		struct policy_input in = {0};

		*(d == SPACE_AGENT ? &in.agent : &in.run) = w.v[i];
		space_value_add(s, d, in, false);
	}
	space_value_add(s, d, (struct policy_input){0}, false);
	return 0;
}

/* --- tables, refs, keys -------------------------------------------------------------- */

static bool
permit_asks_name(const struct space *s)
{
	for (size_t i = 0; i < s->nconds; i++)
		if (s->conds[i].kind == RULE_PERMIT &&
		    s->conds[i].c->relation.n + s->conds[i].c->resource.n != 0)
			return true;
	return false;
}

/* Those of a and one more. */
static struct policy_input
with_name(struct space *s, const struct policy_input *a, struct str more)
{
	struct str *l = arena_alloc(s->mem, (a->nrelations + 1) * sizeof(*l));

	if (a->nrelations != 0)
		(void)memcpy(l, a->relations, a->nrelations * sizeof(*l));
	l[a->nrelations] = more;
	return (struct policy_input){
	    .kind = a->kind, .relations = l, .nrelations = a->nrelations + 1};
}

/* Each class with each single one, until nothing is new. */
static int
sets(struct space *s, size_t first, struct err *err)
{
	size_t singles = s->n[SPACE_NAMES];

	for (size_t i = first; i < s->n[SPACE_NAMES]; i++) {
		for (size_t k = first; k < singles; k++) {
			const struct policy_input *a = &s->v[SPACE_NAMES][i].in;

			if (s->n[SPACE_NAMES] == NAME_SETS_MAX)
				return err_set(err, ERR_TOO_COMPLEX,
				    "more than %d sets of the tables and other names in rules "
				    "differ",
				    NAME_SETS_MAX);
			space_value_add(s, SPACE_NAMES,
			    with_name(s, a, s->v[SPACE_NAMES][k].in.relations[0]), false);
		}
	}
	return 0;
}

/*
 * Fewer names match fewer forbids and no fewer permits, so one (or none) is enough to find an
 * action that a rule lets through, and a name that stands for many is like one of these. Only to
 * compare permits are sets needed.
 */
int
space_names(struct space *s, bool several, struct err *err)
{
	struct word_set w[2] = {0};
	size_t total = 1;
	int rc = 0;

	for (int sql = 0; rc == 0 && sql < 2; sql++) {
		struct strs l = patterns(s, SPACE_NAMES, sql != 0);

		if (l.n != 0)
			rc = policy_words(s->mem, &l, sql != 0, &w[sql], err);
		total += w[sql].n;
	}
	if (rc != 0)
		return err_wrap(err, "names of tables and others");
	several = several && permit_asks_name(s);
	if (several && total >= NAME_SETS_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "rules tell %zu names apart", total);
	space_room(s, SPACE_NAMES, several ? NAME_SETS_MAX : total);
	space_value_add(s, SPACE_NAMES, (struct policy_input){0}, false);
	for (int sql = 0; rc == 0 && sql < 2; sql++) {
		const struct policy_input none = {.kind = sql != 0 ? STR("postgres") : STR("http")};
		size_t first = s->n[SPACE_NAMES];

		for (size_t i = 0; i < w[sql].n; i++)
			space_value_add(s, SPACE_NAMES, with_name(s, &none, w[sql].v[i]), false);
		rc = several ? sets(s, first, err) : 0;
	}
	return rc;
}

/* --- effects, statements ------------------------------------------------------------- */

static uint32_t
permitted(const struct space *s)
{
	uint32_t set = 0;

	for (size_t i = 0; i < s->nconds; i++)
		if (s->conds[i].kind == RULE_PERMIT)
			set |= s->conds[i].c->effects;
	return set;
}

/* Effects that all conditions treat alike are one group; drop also says something of tables. */
static size_t
groups(const struct space *s, uint32_t all, uint32_t *ret)
{
	size_t n = 0;

	for (unsigned b = 0; b < EFFECT_COUNT; b++) {
		uint32_t bit = 1u << b;
		size_t k = 0;

		if ((all & bit) == 0)
			continue;
		for (; k < n; k++) {
			bool alike = ((ret[k] | bit) & EFFECT_drop) == 0;

			for (size_t i = 0; alike && i < s->nconds; i++) {
				uint32_t set = s->conds[i].c->effects;

				alike = s->conds[i].c->mode == EFFECTS_UNASKED ||
					((set & bit) != 0) == ((set & ret[k]) != 0);
			}
			if (alike)
				break;
		}
		if (k == n)
			ret[n++] = bit;
	}
	return n;
}

void
space_effects(struct space *s)
{
	uint32_t group[EFFECT_COUNT];
	size_t n = groups(s, permitted(s), group);

	space_room(s, SPACE_EFFECTS, (size_t)1 << n);
	for (uint32_t set = 1; set < 1u << n; set++) {
		struct policy_input in = {0};

		for (size_t k = 0; k < n; k++)
			if ((set & 1u << k) != 0)
				in.effects |= group[k];
		space_value_add(s, SPACE_EFFECTS, in, true);
	}
}

static int
by_number(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Either side of each bound. */
void
space_statements(struct space *s)
{
	AUTO_FREE int64_t *at = xcalloc(12 * s->nconds + 1, sizeof(*at));
	size_t n = 0;

	at[n++] = 1;
	for (size_t i = 0; i < s->nconds; i++) {
		const int64_t bounds[] = {s->conds[i].c->gt, s->conds[i].c->lt, s->conds[i].c->eq};

		for (size_t k = 0; k < ARRAY_LEN(bounds); k++)
			for (int64_t d = -1; bounds[k] >= 0 && d <= 1; d++)
				if (bounds[k] + d >= 1)
					at[n++] = bounds[k] + d;
	}
	qsort(at, n, sizeof(*at), by_number);
	space_room(s, SPACE_STATEMENTS, n);
	for (size_t i = 0; i < n; i++)
		space_value_add(s, SPACE_STATEMENTS,
		    (struct policy_input){.statements = (unsigned)at[i]}, false);
}

/* --- times --------------------------------------------------------------------------- */

int
space_times(struct space *s, const struct space_how *how, struct err *err)
{
	AUTO_FREE int64_t *at = NULL;
	const struct policy *p[2];
	size_t n = space_policies(s, p, 2), count = 0;
	int rc = policy_space_times(p, n, how, &at, &count, err);

	if (rc != 0)
		return rc;
	space_room(s, SPACE_TIME, count + 1);
	for (size_t i = 0; i < count; i++)
		space_value_add(
		    s, SPACE_TIME, (struct policy_input){.at = {at[i] * 1000000, true}}, false);
	/* Without a clock no lift holds either, so this is never the same as another. */
	space_value_add(
	    s, SPACE_TIME, (struct policy_input){.at = {how->now_s * 1000000, false}}, true);
	return 0;
}
