/*
 * The freezes that stood over a run: windows of the calendars of the policies that were in force,
 * from their recorded bundles, and emergency freezes. Runs as the reviewer. What cannot be read is
 * said, not left out in silence.
 */
#include "cmd/cmd_replay_case.h"
#include "cmd/cmd_replay_policies.h"
#include "common/xalloc.h"
#include "policy/calendar.h"
#include "policy/policy.h"

#include "common/banned.h"

#define SECOND ((int64_t)1000000)

void
replay_case_take(struct replay_case *c, const struct record *r)
{
	if (c->policies == NULL)
		c->policies = replay_policies_new(c->blobs, c->place.statedir);
	replay_policies_take(c->policies, r);
}

const struct policy *
replay_case_policy(const struct replay_case *c, struct str digest, const char **why)
{
	if (c->policies != NULL)
		return replay_policies_get(c->policies, digest, why);
	*why = "the log holds no policy";
	return NULL;
}

void
replay_case_policies_free(struct replay_case *c)
{
	replay_policies_free(c->policies);
	c->policies = NULL;
}

struct bands {
	struct replay_band *p;
	size_t n, cap;
	const struct replay_scan *scan;
};

static void
add(struct bands *b, int64_t from_us, int64_t to_us, const char *kind, struct str name)
{
	AUTO_FREE char *id = str_dup(name), *words = xasprintf("%s %s", kind, id);

	if (from_us > b->scan->end_us || to_us <= b->scan->begin_us)
		return;
	for (size_t i = 0; i < b->n; i++)
		if (b->p[i].from_us == from_us && b->p[i].to_us == to_us &&
		    strcmp(b->p[i].name, words) == 0)
			return;
	if (b->n == b->cap) {
		b->cap = b->cap != 0 ? 2 * b->cap : 8;
		b->p = xreallocarray(b->p, b->cap, sizeof(*b->p));
	}
	b->p[b->n++] = (struct replay_band){from_us, to_us, TAKE_PTR(words)};
}

static void
add_calendars(struct bands *b, const struct policy *p)
{
	for (size_t i = 0; i < policy_calendar_count(p); i++) {
		struct policy_calendar cal = policy_calendar_at(p, i);

		if (cal.open)
			continue;
		for (size_t k = 0; k < cal.nintervals; k++) {
			int64_t from, to;

			policy_calendar_interval(p, i, k, &from, &to);
			add(b, from * SECOND, to * SECOND, "freeze", cal.id);
		}
	}
}

struct replay_band *
replay_case_bands(const struct replay_case *c, size_t *ret_n, char **ret_why)
{
	struct bands b = {.scan = &c->scan};

	*ret_why = c->scan.policies == NULL ? xstrdup("no policy was in force") : NULL;
	for (const struct replay_policy *q = c->scan.policies; q != NULL; q = q->next) {
		const char *why = NULL;
		const struct policy *p = replay_case_policy(c, str_z(q->digest), &why);

		if (p != NULL)
			add_calendars(&b, p);
		else if (*ret_why == NULL)
			*ret_why = xasprintf("policy %s: %s", q->name, why);
	}
	for (const struct replay_freeze *f = c->scan.freezes; f != NULL; f = f->next)
		add(&b, f->from_us, f->to_us, "emergency freeze", str_z(f->id));
	*ret_n = b.n;
	return b.p;
}

void
replay_case_bands_free(struct replay_band *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(b[i].name);
	free(b);
}
