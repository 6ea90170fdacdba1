/*
 * All combinations of classes that can still answer a question, one dimension after the other. What
 * the conditions cannot tell apart any more is walked once. Runs in the command line alone. Stops
 * with an error, never with half an answer, when it would take too long.
 */
#include "policy/policy_space.h"

#include "common/xalloc.h"

#include "common/banned.h"

/* What was walked already, of one dimension: match bits as far as the question goes. */
struct memo {
	uint64_t *keys;
	size_t n, cap; /* cap: a power of two; a key of zeros and a flag marks a free place */
	bool *used;
};

struct walk {
	struct space *s;
	const struct space_query *q;
	uint64_t *look;		     /* conditions that matter at all */
	uint64_t *sure[SPACE_DIMS];  /* those without a dimension behind this one */
	uint64_t *match[SPACE_DIMS]; /* of the point so far */
	uint64_t *key, *done;
	struct memo memo[SPACE_DIMS];
	struct space_point pt;
	size_t must; /* one of those that must match; SIZE_MAX: none */
	bool stop;
};

static void
walk_free(struct walk *w)
{
	for (int d = 0; d < SPACE_DIMS; d++) {
		free(w->sure[d]);
		free(w->match[d]);
		free(w->memo[d].keys);
		free(w->memo[d].used);
	}
	free(w->look);
	free(w->key);
	free(w->done);
}

static size_t
key_hash(const uint64_t *key, size_t words)
{
	uint64_t h = 0x9e3779b97f4a7c15u;

	for (size_t i = 0; i < words; i++) {
		h = (h ^ key[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return (size_t)h;
}

static bool
memo_put(struct memo *m, const uint64_t *key, size_t words)
{
	size_t i = key_hash(key, words) & (m->cap - 1);

	for (; m->used[i]; i = (i + 1) & (m->cap - 1))
		if (memcmp(m->keys + i * words, key, words * sizeof(*key)) == 0)
			return false;
	m->used[i] = true;
	(void)memcpy(m->keys + i * words, key, words * sizeof(*key));
	m->n++;
	return true;
}

static void
memo_grow(struct memo *m, size_t words)
{
	struct memo big = {.cap = m->cap != 0 ? 2 * m->cap : 64};

	big.keys = xcalloc(big.cap * words, sizeof(*big.keys));
	big.used = xcalloc(big.cap, sizeof(*big.used));
	for (size_t i = 0; i < m->cap; i++)
		if (m->used[i])
			(void)memo_put(&big, m->keys + i * words, words);
	free(m->keys);
	free(m->used);
	*m = big;
}

/* False: what follows from here was walked before. */
static bool
is_new(struct walk *w, enum space_dim d, const uint64_t *match)
{
	size_t words = w->s->words + 1;
	const struct space_point *pt = &w->pt;

	for (size_t i = 0; i < w->s->words; i++)
		w->key[i] = match[i] & w->look[i];
	/* Of the action itself only this much matters to what comes: clock, tables, drop, rates. */
	w->key[w->s->words] = 1u;
	if (d >= SPACE_TIME && !pt->v[SPACE_TIME]->in.at.known)
		w->key[w->s->words] |= 2u;
	if (d < SPACE_NAMES && space_is_sql(pt->v[SPACE_TARGET]))
		w->key[w->s->words] |= 4u;
	if (d >= SPACE_EFFECTS && d < SPACE_NAMES &&
	    (pt->v[SPACE_EFFECTS]->in.effects & EFFECT_drop) != 0)
		w->key[w->s->words] |= 8u;
	if (d >= SPACE_STATEMENTS)
		w->key[w->s->words] |= (uint64_t)pt->v[SPACE_STATEMENTS]->rates << 8;
	if (2 * (w->memo[d].n + 1) > w->memo[d].cap)
		memo_grow(&w->memo[d], words);
	return memo_put(&w->memo[d], w->key, words);
}

static bool
any_of(const uint64_t *a, const uint64_t *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((a[i] & b[i]) != 0)
			return true;
	return false;
}

static bool
all_of(const uint64_t *a, const uint64_t *must, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((a[i] & must[i]) != must[i])
			return false;
	return true;
}

/* Can a point that begins like this still be one that is asked for? */
static bool
is_open(struct walk *w, enum space_dim d, const uint64_t *match)
{
	const struct space_query *q = w->q;
	size_t n = w->s->words;

	if (!any_of(match, q->permits, n) || (q->must != NULL && !all_of(match, q->must, n)))
		return false;
	for (size_t i = 0; i < n; i++)
		w->done[i] = match[i] & w->sure[d][i];
	if (q->mustnot != NULL && any_of(w->done, q->mustnot, n))
		return false;
	return q->cut == NULL || !q->cut(q->ctx, match, w->done, d);
}

static const uint64_t *
value_match(const struct walk *w, const struct space_value *v)
{
	bool drop =
	    v->match_drop != NULL && (w->pt.v[SPACE_EFFECTS]->in.effects & EFFECT_drop) != 0;

	return drop ? v->match_drop : v->match;
}

static bool
is_possible(const struct walk *w, enum space_dim d, const struct space_value *v)
{
	if (v->future && !w->q->future)
		return false;
	return d != SPACE_NAMES || v->in.nrelations == 0 ||
	       space_is_sql(v) == space_is_sql(w->pt.v[SPACE_TARGET]);
}

static int
too_long(const struct space *s, struct err *err)
{
	AUTO_BUF struct buf sizes = BUF(512);

	for (int d = 0; d < SPACE_DIMS; d++)
		buf_printf(&sizes, "%s%zu %s", d != 0 ? ", " : "", s->n[d], space_dim_names[d]);
	return err_set(err, ERR_TOO_COMPLEX,
	    "too large to decide: %zu conditions tell apart %.*s; name fewer things in rules, or "
	    "split the policy",
	    s->nconds, STR_ARG(buf_str(&sizes)));
}

/* Depth is the number of dimensions. */
static int
walk(struct walk *w, enum space_dim d, const uint64_t *before, struct err *err)
{
	struct space *s = w->s;
	uint64_t *match = w->match[d];

	for (size_t i = 0; i < s->n[d] && !w->stop; i++) {
		const struct space_value *v = &s->v[d][i];
		const uint64_t *own = value_match(w, v);
		int rc = 0;

		if (w->must != SIZE_MAX && !space_bit(own, w->must)) {
			s->steps++;
			continue;
		}
		s->steps += s->words;
		if (s->steps > s->steps_max)
			return too_long(s, err);
		if (!is_possible(w, d, v))
			continue;
		for (size_t k = 0; k < s->words; k++)
			match[k] = before[k] & own[k];
		w->pt.v[d] = v;
		if (!is_open(w, d, match))
			continue;
		if (d == SPACE_DIMS - 1) {
			w->pt.match = match;
			w->stop = w->q->leaf(w->q->ctx, &w->pt);
		} else if (is_new(w, d, match)) {
			rc = walk(w, d + 1, match, err);
		}
		if (rc != 0)
			return rc;
	}
	return 0;
}

int
space_walk(struct space *s, const struct space_query *q, struct err *err)
{
	__attribute__((cleanup(walk_free))) struct walk w = {.s = s, .q = q, .must = SIZE_MAX};
	const uint64_t *const masks[] = {q->permits, q->must, q->mustnot, q->care};

	for (size_t i = 0; q->must != NULL && i < s->nconds && w.must == SIZE_MAX; i++)
		if (space_bit(q->must, i))
			w.must = i;
	w.look = xcalloc(s->words, sizeof(*w.look));
	w.key = xcalloc(s->words + 1, sizeof(*w.key));
	w.done = xcalloc(s->words, sizeof(*w.done));
	for (size_t m = 0; m < ARRAY_LEN(masks); m++)
		for (size_t i = 0; masks[m] != NULL && i < s->words; i++)
			w.look[i] |= masks[m][i];
	for (int d = SPACE_DIMS - 1; d >= 0; d--) {
		w.match[d] = xcalloc(s->words, sizeof(uint64_t));
		w.sure[d] = xcalloc(s->words, sizeof(uint64_t));
		for (size_t i = 0; i < s->words; i++)
			w.sure[d][i] =
			    d == SPACE_DIMS - 1 ? s->all[i] : w.sure[d + 1][i] & ~s->asks[d + 1][i];
	}
	return walk(&w, SPACE_TARGET, s->all, err);
}

struct policy_input
space_input(const struct space_point *pt)
{
	struct policy_input in = pt->v[SPACE_TARGET]->in;

	in.at = pt->v[SPACE_TIME]->in.at;
	in.effects = pt->v[SPACE_EFFECTS]->in.effects;
	in.statements = pt->v[SPACE_STATEMENTS]->in.statements;
	in.relations = pt->v[SPACE_NAMES]->in.relations;
	in.nrelations = pt->v[SPACE_NAMES]->in.nrelations;
	in.agent = pt->v[SPACE_AGENT]->in.agent;
	in.run = pt->v[SPACE_RUN]->in.run;
	in.owner = pt->v[SPACE_OWNER]->in.owner;
	return in;
}
