/*
 * Rules by what they name, so that a decision looks at those that could apply. Runs in core and the
 * command line. An index may only leave out rules whose condition is surely "no": where an action
 * is not exactly one of the policy's targets, or lacks an attribute, it answers nothing.
 */
#include "policy/policy_internal.h"

#include "common/banned.h"

static void
set_bit(uint64_t *set, size_t i)
{
	set[i / 64] |= UINT64_C(1) << (i % 64);
}

static bool
names(const struct strs *patterns, struct str value)
{
	for (size_t i = 0; i < patterns->n; i++)
		if (str_glob(patterns->v[i], value))
			return true;
	return patterns->n == 0;
}

static void
index_target(const struct policy *p, const struct policy_target *t, uint64_t *set)
{
	struct str kind = str_z(target_kind_name(t->kind));

	for (size_t i = 0; i < p->nrules; i++) {
		const struct cond *c = &p->rules[i].cond;

		if (names(&c->attr[ATTR_target], t->id) && names(&c->attr[ATTR_env], t->env) &&
		    names(&c->attr[ATTR_kind], kind))
			set_bit(set, i);
	}
}

static void
index_effects(const struct policy *p, struct rule_index *x, size_t i)
{
	const struct cond *c = &p->rules[i].cond;

	switch (c->mode) {
	case EFFECTS_UNASKED: set_bit(x->unasked, i); break;
	case EFFECTS_ONLY: set_bit(x->only, i); break;
	case EFFECTS_ANY: break;
	}
	for (unsigned e = 0; e < EFFECT_COUNT; e++) {
		bool has = (c->effects & 1u << e) != 0;

		if (c->mode == EFFECTS_ANY && has)
			set_bit(x->any + e * x->words, i);
		if (c->mode == EFFECTS_ONLY && !has)
			set_bit(x->others + e * x->words, i);
	}
}

void
policy_index_build(struct policy *p)
{
	struct rule_index *x = arena_alloc(p->mem, sizeof(*x));

	x->words = (p->nrules + 63) / 64;
	x->target = arena_alloc(p->mem, (p->ntargets * x->words + 1) * sizeof(uint64_t));
	x->any = arena_alloc(p->mem, (EFFECT_COUNT * x->words + 1) * sizeof(uint64_t));
	x->others = arena_alloc(p->mem, (EFFECT_COUNT * x->words + 1) * sizeof(uint64_t));
	x->unasked = arena_alloc(p->mem, (x->words + 1) * sizeof(uint64_t));
	x->only = arena_alloc(p->mem, (x->words + 1) * sizeof(uint64_t));
	for (size_t i = 0; i < p->ntargets; i++)
		index_target(p, &p->targets[i].pub, x->target + i * x->words);
	for (size_t i = 0; i < p->nrules; i++)
		index_effects(p, x, i);
	p->index = x;
	p->uncounted = arena_alloc(p->mem, (p->nrates + 1) * sizeof(*p->uncounted));
	for (size_t i = 0; i < p->nrates; i++)
		p->uncounted[i].rule = p->rules[p->rates[i]].id;
}

const uint64_t *
policy_index_target(const struct policy *p, const struct policy_input *in)
{
	const struct policy_target *t = policy_target(p, in->target);

	if (p->index == NULL || t == NULL || !str_eq(in->env, t->env) ||
	    !str_eqz(in->kind, target_kind_name(t->kind)))
		return NULL;
	/* pub is the first member of its struct target. */
	return p->index->target +
	       (size_t)((const struct target *)(const void *)t - p->targets) * p->index->words;
}

uint64_t
policy_index_word(const struct rule_index *x, const uint64_t *target, uint32_t effects, size_t word)
{
	uint64_t set = target[word], any = x->unasked[word], only = x->only[word];

	if (set == 0)
		return 0;
	for (; effects != 0; effects &= effects - 1) {
		size_t at = (size_t)__builtin_ctz(effects) * x->words + word;

		any |= x->any[at];
		only &= ~x->others[at];
	}
	return set & (any | only);
}
