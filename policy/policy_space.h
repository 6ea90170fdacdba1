/*
 * Every action that a policy can tell apart, for `prove`, `check` and `diff`: each part of an
 * action (target, instant, effects, ...) is cut into classes that all conditions treat alike, each
 * with one real value, and classes are combined. Exact: what holds of all points holds of all
 * actions.
 */
#ifndef POLICY_POLICY_SPACE_H
#define POLICY_POLICY_SPACE_H

#include "policy/policy_internal.h"

/* In the order in which they are combined. */
enum space_dim {
	SPACE_TARGET, /* with its kind and env */
	SPACE_TIME,
	SPACE_EFFECTS,
	SPACE_STATEMENTS,
	SPACE_NAMES, /* of tables, refs, keys, ... */
	SPACE_AGENT,
	SPACE_RUN,
	SPACE_OWNER,
	SPACE_DIMS
};
extern const char *const space_dim_names[SPACE_DIMS]; /* plural */

/* One condition: of a rule, or of a theorem (kind forbid: what is unknown counts as a match). */
struct space_cond {
	const struct policy *p;
	const struct cond *c;
	enum rule_kind kind;
};

/* One class. Only the members of its dimension are set in `in`. */
struct space_value {
	struct policy_input in;
	uint64_t *match;      /* bit i: as far as this dimension goes, condition i matches */
	uint64_t *match_drop; /* names: beside the effect drop; else NULL */
	unsigned rates;	      /* statements: how many rates one such action is over by itself */
	bool future;	      /* a target that is in no policy yet */
};

struct space {
	struct arena *mem;
	const struct space_cond *conds;
	size_t nconds, words;
	size_t n[SPACE_DIMS];
	struct space_value *v[SPACE_DIMS];
	uint64_t *asks[SPACE_DIMS]; /* conditions that this dimension can still change */
	uint64_t *all, *permits;    /* a bit for each condition; of permits */
	uint64_t steps, steps_max;
};

#define SPACE_STEPS_MAX ((uint64_t)3000000000) /* of one command: seconds */

static inline bool
space_bit(const uint64_t *set, size_t i)
{
	return (set[i / 64] >> (i % 64) & 1) != 0;
}
static inline void
space_set(uint64_t *set, size_t i)
{
	set[i / 64] |= (uint64_t)1 << (i % 64);
}

/*
 * The classes that `conds` (borrowed) tell apart. Of actions that no rule can permit there are
 * none: no permit reaches @escape. Instants are those of the policies' calendars, if there is a
 * choice from now_s on. ERR_TOO_COMPLEX names the dimension and its size.
 */
struct space_how {
	int64_t now_s;
	bool several; /* actions that name several things: where permits are compared */
	bool to_come; /* only from now_s on */
};
int space_build(const struct space_cond *conds, size_t nconds, const struct space_how *how,
    struct space **ret, struct err *err);
void space_free(struct space *s);
DEFINE_AUTO(space, struct space, space_free)
uint64_t *space_mask(struct space *s); /* empty, lives as long as s */
/*
 * Of the first nconds conditions those that class `target` can meet, as a space of that class
 * alone; ret_map, which lives as long, says which they are. Goes on with the steps of s.
 * space_free().
 */
struct space *space_at(const struct space *s, size_t target, size_t nconds, const size_t **ret_map);
/* The conditions that match wherever `cond` does, as far as one alone does; it is one of them. */
void space_covers(const struct space *s, size_t cond, uint64_t *out);

/* Between policy_space.c and policy_space_part.c: room for n classes, one more unless it is there.
 */
void space_room(struct space *s, enum space_dim d, size_t n);
void space_value_add(struct space *s, enum space_dim d, struct policy_input in, bool always);
size_t space_policies(const struct space *s, const struct policy **ret, size_t max);
bool space_is_sql(const struct space_value *v);
int space_times(struct space *s, const struct space_how *how, struct err *err);
void space_effects(struct space *s);
void space_statements(struct space *s);
int space_names(struct space *s, bool several, struct err *err);
int space_words(struct space *s, enum space_dim d, struct err *err); /* agents, runs */

/*
 * Conditions with a rate match in a point as if their count were high. When it is none: do they
 * still, since one action has more statements than they let through?
 */
static inline bool
space_rate_bites(const struct cond *c, unsigned statements)
{
	return c->rate.per == RATE_NONE || statements > c->rate.over;
}

struct space_point {
	const struct space_value *v[SPACE_DIMS];
	const uint64_t *match; /* bit i: condition i matches (of a permit: surely) */
};
struct policy_input space_input(const struct space_point *pt); /* the action itself */

/* Points with at least one of permits, all of must, none of mustnot. */
struct space_query {
	const uint64_t *permits, *must, *mustnot;
	bool future; /* also on targets that a policy may get, of which rules name nothing */
	const uint64_t *care; /* what `leaf` and `cut` look at besides */
	/* May leave out all points that add to these: `sure` have no dimension left. May be NULL.
	 */
	bool (*cut)(void *ctx, const uint64_t *match, const uint64_t *sure, enum space_dim last);
	bool (*leaf)(void *ctx, const struct space_point *pt); /* true: enough */
	void *ctx;
};
/* ERR_TOO_COMPLEX with the sizes of all dimensions when it would take too long. */
int space_walk(struct space *s, const struct space_query *q, struct err *err);

/* policy_space_time.c: an instant for each state of the calendars together. The caller frees. */
int policy_space_times(const struct policy *const *p, size_t n, const struct space_how *how,
    int64_t **ret, size_t *ret_n, struct err *err);

/* policy_words.c: strings that a set of patterns tells apart. */
struct word_set {
	size_t n;
	struct str *v;
};
/*
 * One string for each set of patterns that some string matches. With `relations` they are names of
 * tables: patterns are also held against what stands behind the last dot.
 */
int policy_words(struct arena *mem, const struct strs *patterns, bool relations,
    struct word_set *ret, struct err *err);

#endif
