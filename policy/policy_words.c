/*
 * Strings that a set of patterns tells apart, found by running all patterns at once as one
 * automaton, breadth first, so that each class gets its shortest string. Runs in the command line
 * alone, when a policy is reviewed. Bounded: what has too many classes is refused, never cut.
 */
#include "policy/policy_space.h"

#include "common/buf.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define STATES_MAX 40000
#define ACTIVE_MAX 4096 /* places of patterns at once */

/* A pattern held against the whole string, or against what is behind the last dot. */
struct pattern {
	struct str s;
	bool last;
};

struct state {
	uint32_t *at; /* pattern << 9 | place in it, ascending */
	size_t n;
	bool quoted, dot;
	uint32_t from; /* the state before */
	char c;	       /* by which it was reached */
};

struct machine {
	struct arena *mem;
	struct pattern *p;
	size_t np;
	bool relations;
	char letters[257];
	size_t nletters;
	struct state *s;
	size_t n;
	uint32_t *index; /* by hash: number of a state + 1 */
	size_t nindex;
	uint32_t work[ACTIVE_MAX];
	size_t nwork;
};

/* A place, and all that "*" lets follow without a letter. False: too many. */
static bool
place(struct machine *m, uint32_t p, uint32_t at)
{
	for (;; at++) {
		uint32_t code = p << 9 | at;

		if (m->nwork != 0 && m->work[m->nwork - 1] >= code) {
			size_t i = m->nwork;

			while (i > 0 && m->work[i - 1] > code)
				i--;
			if (i > 0 && m->work[i - 1] == code)
				goto next;
			if (m->nwork == ACTIVE_MAX)
				return false;
			(void)memmove(
			    m->work + i + 1, m->work + i, (m->nwork - i) * sizeof(*m->work));
			m->work[i] = code;
			m->nwork++;
		} else {
			if (m->nwork == ACTIVE_MAX)
				return false;
			m->work[m->nwork++] = code;
		}
	next:
		if (at >= m->p[p].s.n || m->p[p].s.p[at] != '*')
			return true;
	}
}

static uint64_t
state_hash(const struct state *s)
{
	uint64_t h = 1469598103934665603u + s->quoted * 2u + s->dot;

	for (size_t i = 0; i < s->n; i++)
		h = (h ^ s->at[i]) * 1099511628211u;
	return h ^ h >> 29;
}

/* The state in m->work, found or made. */
static int
state_add(struct machine *m, bool quoted, bool dot, uint32_t from, char c, struct err *err)
{
	struct state s = {
	    .at = m->work, .n = m->nwork, .quoted = quoted, .dot = dot, .from = from, .c = c};
	size_t i = state_hash(&s) % m->nindex;

	for (; m->index[i] != 0; i = (i + 1) % m->nindex) {
		const struct state *o = &m->s[m->index[i] - 1];

		if (o->n == s.n && o->quoted == quoted && o->dot == dot &&
		    memcmp(o->at, s.at, s.n * sizeof(*s.at)) == 0)
			return 0;
	}
	if (m->n == STATES_MAX)
		return err_set(err, ERR_TOO_COMPLEX,
		    "%zu patterns tell more than %d beginnings of names apart", m->np, STATES_MAX);
	s.at = arena_alloc(m->mem, (s.n + 1) * sizeof(*s.at));
	(void)memcpy(s.at, m->work, s.n * sizeof(*s.at));
	m->s[m->n++] = s;
	m->index[i] = (uint32_t)m->n;
	return 0;
}

static bool
begin(struct machine *m, bool only_last)
{
	for (uint32_t p = 0; p < m->np; p++)
		if ((m->p[p].last || !only_last) && !place(m, p, 0))
			return false;
	return true;
}

static int
step(struct machine *m, uint32_t from, char c, struct err *err)
{
	struct state s = m->s[from];
	bool quoted = s.quoted != (m->relations && c == '"');
	bool dot = m->relations && c == '.' && !s.quoted, fits = true;

	m->nwork = 0;
	for (size_t i = 0; fits && i < s.n; i++) {
		uint32_t p = s.at[i] >> 9, at = s.at[i] & 511;

		if (at >= m->p[p].s.n || (dot && m->p[p].last))
			continue;
		if (m->p[p].s.p[at] == '*')
			fits = place(m, p, at);
		else if (m->p[p].s.p[at] == c)
			fits = place(m, p, at + 1);
	}
	if (!fits || (dot && !begin(m, true)))
		return err_set(err, ERR_TOO_COMPLEX, "more than %d places in %zu patterns at once",
		    ACTIVE_MAX, m->np);
	return state_add(m, quoted, s.dot || dot, from, c, err);
}

/* The letters of the patterns, and one that is in none. */
static void
letters(struct machine *m)
{
	static const char others[] = "xyzabcdefghijklmnopqrstuvw0123456789_";
	bool seen[256] = {false};

	for (size_t i = 0; i < m->np; i++)
		for (size_t k = 0; k < m->p[i].s.n; k++)
			seen[(unsigned char)m->p[i].s.p[k]] = true;
	seen['*'] = false;
	if (m->relations)
		seen['.'] = true;
	for (size_t i = 0; i < sizeof(others) - 1; i++) {
		if (!seen[(unsigned char)others[i]]) {
			m->letters[m->nletters++] = others[i];
			break;
		}
	}
	for (unsigned c = 0; c < 256; c++)
		if (seen[c])
			m->letters[m->nletters++] = (char)c;
}

/* A name of a table has no empty part; what stands in an open quote is none. */
static bool
is_word(const struct machine *m, const struct state *s)
{
	if (s->n == 0 && s->from == 0 && s->c == '\0')
		return false;
	return !m->relations || (!s->quoted && s->c != '.' && s->c != '\0');
}

static struct str
word(struct machine *m, size_t i)
{
	size_t n = 0;
	char *p;

	for (size_t k = i; k != 0; k = m->s[k].from)
		n++;
	p = arena_alloc(m->mem, n + 1);
	for (size_t k = i, at = n; k != 0; k = m->s[k].from)
		p[--at] = m->s[k].c;
	return (struct str){p, n};
}

/* Which patterns a state accepts, as one number; states that accept alike give one word. */
static uint64_t
accepts(const struct machine *m, const struct state *s)
{
	uint64_t h = 1469598103934665603u + s->dot;

	for (size_t i = 0; i < s->n; i++)
		if ((s->at[i] & 511) == m->p[s->at[i] >> 9].s.n)
			h = (h ^ (s->at[i] >> 9)) * 1099511628211u;
	return h;
}

static void
collect(struct machine *m, struct word_set *ret)
{
	AUTO_FREE uint64_t *seen = xcalloc(m->n + 1, sizeof(*seen));

	ret->n = 0;
	ret->v = arena_alloc(m->mem, (m->n + 1) * sizeof(*ret->v));
	for (size_t i = 1; i < m->n; i++) {
		uint64_t h = accepts(m, &m->s[i]);
		size_t k = 0;

		if (!is_word(m, &m->s[i]))
			continue;
		while (k < ret->n && seen[k] != h)
			k++;
		if (k < ret->n)
			continue;
		seen[ret->n] = h;
		ret->v[ret->n++] = word(m, i);
	}
}

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

static void
patterns_put(struct machine *m, const struct strs *patterns)
{
	m->p = arena_alloc(m->mem, (2 * patterns->n + 2) * sizeof(*m->p));
	for (size_t i = 0; i < patterns->n; i++) {
		struct str s = patterns->v[i];
		size_t dot = m->relations ? last_dot(s) : 0;

		m->p[m->np++] = (struct pattern){s, false};
		if (m->relations)
			m->p[m->np++] = (struct pattern){(struct str){s.p + dot, s.n - dot}, true};
	}
	/* A view that shows other tables: policy_match.c treats all of them alike. */
	if (m->relations)
		m->p[m->np++] = (struct pattern){STR("pg_stats"), true};
}

static int
run(struct machine *m, struct err *err)
{
	int rc = 0;

	m->nwork = 0;
	if (!begin(m, false))
		return err_set(
		    err, ERR_TOO_COMPLEX, "%zu patterns at once, limit %d", m->np, ACTIVE_MAX);
	rc = state_add(m, false, false, 0, '\0', err);
	for (uint32_t i = 0; rc == 0 && i < m->n; i++)
		for (size_t k = 0; rc == 0 && k < m->nletters; k++)
			rc = step(m, i, m->letters[k], err);
	return rc;
}

int
policy_words(struct arena *mem, const struct strs *patterns, bool relations, struct word_set *ret,
    struct err *err)
{
	AUTO_FREE struct machine *m = xcalloc(1, sizeof(*m));
	AUTO_FREE struct state *states = xcalloc(STATES_MAX, sizeof(*states));
	AUTO_FREE uint32_t *index = NULL;
	int rc;

	m->nindex = 4 * STATES_MAX + 1;
	index = xcalloc(m->nindex, sizeof(*index));
	m->mem = mem;
	m->relations = relations;
	m->s = states;
	m->index = index;
	patterns_put(m, patterns);
	letters(m);
	rc = run(m, err);
	if (rc == 0)
		collect(m, ret);
	return rc;
}
