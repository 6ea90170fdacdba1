/*
 * The part of a space that is about one class of targets: the conditions that such a target can
 * meet, and the classes that these tell apart. Where thousands of rules speak of hundreds of
 * targets it is small, and all of them together are little more than the whole. Runs in the command
 * line alone. Must leave out no class, as the whole.
 */
#include "policy/policy_space.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define SPACE_AT_MEMORY_MAX ((size_t)1 << 30)

/* The bits of `from` that the map keeps. */
static uint64_t *
gather(struct space *to, const size_t *map, const uint64_t *from)
{
	uint64_t *set = space_mask(to);

	for (size_t k = 0; k < to->nconds; k++)
		if (space_bit(from, map[k]))
			space_set(set, k);
	return set;
}

static void
gather_conds(struct space *to, const struct space *s, size_t *map)
{
	struct space_cond *conds = arena_alloc(to->mem, (to->nconds + 1) * sizeof(*conds));

	for (size_t k = 0; k < to->nconds; k++)
		conds[k] = s->conds[map[k]];
	to->conds = conds;
	to->all = gather(to, map, s->all);
	to->permits = gather(to, map, s->permits);
	for (int d = 0; d < SPACE_DIMS; d++)
		to->asks[d] = gather(to, map, s->asks[d]);
}

static bool
same_set(const struct space *s, const uint64_t *a, const uint64_t *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return memcmp(a, b, s->words * sizeof(*a)) == 0;
}

/* No condition here tells them apart, nor what is looked at besides conditions (is_new). */
static bool
alike(const struct space *s, enum space_dim d, const struct space_value *a,
    const struct space_value *b)
{
	return d != SPACE_OWNER && a->rates == b->rates && a->in.at.known == b->in.at.known &&
	       ((a->in.effects ^ b->in.effects) & EFFECT_drop) == 0 &&
	       (d != SPACE_NAMES || a->in.nrelations == 0) ==
		   (d != SPACE_NAMES || b->in.nrelations == 0) &&
	       same_set(s, a->match, b->match) && same_set(s, a->match_drop, b->match_drop);
}

static void
gather_values(struct space *to, const struct space *s, enum space_dim d, const size_t *map)
{
	space_room(to, d, s->n[d]);
	for (size_t i = 0; i < s->n[d]; i++) {
		struct space_value v = s->v[d][i];
		size_t k = 0;

		/* Names are of SQL or of all else, as the target is. */
		if (d == SPACE_NAMES && v.in.nrelations != 0 &&
		    space_is_sql(&v) != space_is_sql(&to->v[SPACE_TARGET][0]))
			continue;
		v.match = gather(to, map, v.match);
		v.match_drop = v.match_drop != NULL ? gather(to, map, v.match_drop) : NULL;
		while (k < to->n[d] && !alike(to, d, &to->v[d][k], &v))
			k++;
		if (k == to->n[d])
			to->v[d][to->n[d]++] = v;
	}
}

struct space *
space_at(const struct space *s, size_t target, size_t nconds, const size_t **ret_map)
{
	const struct space_value *t = &s->v[SPACE_TARGET][target];
	struct space *to = xcalloc(1, sizeof(*to));
	size_t *map;

	to->mem = arena_new(SPACE_AT_MEMORY_MAX);
	to->steps = s->steps;
	to->steps_max = s->steps_max;
	map = arena_alloc(to->mem, (nconds + 1) * sizeof(*map));
	for (size_t i = 0; i < nconds; i++)
		if (space_bit(t->match, i))
			map[to->nconds++] = i;
	to->words = (to->nconds + 63) / 64 + (to->nconds == 0);
	gather_conds(to, s, map);
	space_room(to, SPACE_TARGET, 1);
	to->n[SPACE_TARGET] = 1;
	to->v[SPACE_TARGET][0] = *t;
	to->v[SPACE_TARGET][0].match = to->all;
	for (int d = SPACE_TARGET + 1; d < SPACE_DIMS; d++)
		gather_values(to, s, (enum space_dim)d, map);
	*ret_map = map;
	return to;
}

void
space_covers(const struct space *s, size_t cond, uint64_t *out)
{
	(void)memcpy(out, s->all, s->words * sizeof(*out));
	for (int d = 0; d < SPACE_DIMS; d++) {
		for (size_t i = 0; i < s->n[d]; i++) {
			const struct space_value *v = &s->v[d][i];

			for (size_t w = 0; space_bit(v->match, cond) && w < s->words; w++)
				out[w] &= v->match[w];
			for (size_t w = 0; v->match_drop != NULL &&
					   space_bit(v->match_drop, cond) && w < s->words;
			     w++)
				out[w] &= v->match_drop[w];
		}
	}
}
