/*
 * The instants that calendars tell apart: one for each way in which all of them can stand together.
 * Runs in the command line alone, when a policy is reviewed. Looks at every edge of every window,
 * so that what never comes together is never shown as an example.
 */
#include "policy/policy_space.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define TIMES_MAX 4096

struct edge {
	int64_t at;
	uint16_t policy, calendar;
};

static int
by_edge(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static size_t
edges(const struct policy *const *p, size_t n, struct edge **ret)
{
	size_t total = 1, k = 0;
	struct edge *e;

	for (size_t i = 0; i < n; i++)
		for (size_t c = 0; c < p[i]->ncalendars; c++)
			total += 2 * p[i]->calendars[c].n + 2;
	e = xcalloc(total, sizeof(*e));
	for (size_t i = 0; i < n; i++) {
		for (size_t c = 0; c < p[i]->ncalendars; c++) {
			const struct calendar *cal = &p[i]->calendars[c];
			struct edge one = {.policy = (uint16_t)i, .calendar = (uint16_t)c};

			one.at = cal->valid.from;
			e[k++] = one;
			one.at = cal->valid.to;
			e[k++] = one;
			for (size_t w = 0; w < cal->n; w++) {
				one.at = cal->iv[w].from;
				e[k++] = one;
				one.at = cal->iv[w].to;
				e[k++] = one;
			}
		}
	}
	qsort(e, k, sizeof(*e), by_edge);
	*ret = e;
	return k;
}

struct sweep {
	const struct policy *p[2];
	size_t n;
	uint8_t state[2][POLICY_CALENDARS_MAX]; /* enum tri */
	uint8_t *seen;				/* states, one after the other */
	int64_t *at;				/* an instant of each */
	size_t nseen, cap;
};

/* The states now, known from here on; an instant that is still to come is kept before others. */
static void
sweep_note(struct sweep *w, int64_t at, int64_t now)
{
	size_t size = sizeof(w->state), i = 0;

	while (i < w->nseen && memcmp(w->seen + i * size, w->state, size) != 0)
		i++;
	if (i < w->nseen) {
		if (w->at[i] < now && at >= now)
			w->at[i] = at;
		return;
	}
	if (w->nseen > TIMES_MAX)
		return;
	if (w->nseen == w->cap) {
		w->cap = w->cap != 0 ? 2 * w->cap : 64;
		w->seen = xreallocarray(w->seen, w->cap, size);
		w->at = xreallocarray(w->at, w->cap, sizeof(*w->at));
	}
	(void)memcpy(w->seen + i * size, w->state, size);
	w->at[w->nseen++] = at;
}

static void
sweep_all(struct sweep *w, const struct edge *e, size_t n, const struct space_how *how)
{
	(void)memset(w->state, TRI_UNKNOWN, sizeof(w->state));
	for (size_t i = 0; i < n;) {
		int64_t at = e[i].at;

		for (; i < n && e[i].at == at; i++)
			w->state[e[i].policy][e[i].calendar] = (uint8_t)policy_calendar_state(
			    &w->p[e[i].policy]->calendars[e[i].calendar],
			    (struct instant){at * 1000000, true});
		/* Stretches that reach over now are to come, too. */
		if (at < how->now_s && (i == n || e[i].at > how->now_s))
			at = how->now_s;
		if (at >= how->now_s || !how->to_come)
			sweep_note(w, at, how->now_s);
	}
}

/* Calendars that are not known are the last that somebody wants to be shown. */
static size_t
unknown(const struct sweep *w, size_t i)
{
	const uint8_t *state = w->seen + i * sizeof(w->state);
	size_t n = 0;

	for (size_t p = 0; p < w->n; p++)
		for (size_t c = 0; c < w->p[p]->ncalendars; c++)
			n += state[p * POLICY_CALENDARS_MAX + c] == TRI_UNKNOWN;
	return n;
}

static int64_t *
sweep_order(const struct sweep *w)
{
	int64_t *ret = xcalloc(w->nseen + 1, sizeof(*ret));
	size_t n = 0;

	for (size_t u = 0; n < w->nseen; u++)
		for (size_t i = 0; i < w->nseen; i++)
			if (unknown(w, i) == u)
				ret[n++] = w->at[i];
	return ret;
}

static void
sweep_end(struct sweep *w)
{
	free(w->seen);
	free(w->at);
}

int
policy_space_times(const struct policy *const *p, size_t n, const struct space_how *how,
    int64_t **ret, size_t *ret_n, struct err *err)
{
	__attribute__((cleanup(sweep_end))) struct sweep w = {.n = n};
	AUTO_FREE struct edge *e = NULL;
	size_t count;

	for (size_t i = 0; i < n; i++)
		w.p[i] = p[i];
	count = edges(p, n, &e);
	(void)memset(w.state, TRI_UNKNOWN, sizeof(w.state));
	if (count == 0 || !how->to_come || e[0].at > how->now_s)
		sweep_note(&w, count != 0 ? e[0].at - 1 : how->now_s, how->now_s);
	sweep_all(&w, e, count, how);
	if (w.nseen > TIMES_MAX)
		return err_set(err, ERR_TOO_COMPLEX,
		    "the calendars together have over %d different states", TIMES_MAX);
	*ret = sweep_order(&w);
	*ret_n = w.nseen;
	return 0;
}
