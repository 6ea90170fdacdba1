/*
 * The freezes that stood over a run: windows of the calendars of the policies that were in force,
 * from their recorded bundles, and emergency freezes. Runs as the reviewer. What cannot be read is
 * said, not left out in silence.
 */
#include <stdio.h>

#include "cmd/cmd_file.h"
#include "cmd/cmd_replay_case.h"
#include "common/xalloc.h"
#include "policy/calendar.h"
#include "policy/policy.h"

#include "common/banned.h"

#define POLICY_MAX ((size_t)8 << 20)
#define SECOND ((int64_t)1000000)

int
replay_case_policy(const struct replay_case *c, const struct replay_policy *from,
    struct policy **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(POLICY_MAX);
	char path[HASH_HEX_SIZE + 32], hex[HASH_HEX_SIZE];
	struct hash want, h;
	int r = replay_blobs_read(c->blobs, str_z(from->ref), &text, err);

	if (!hash_from_hex(str_z(from->digest), &want))
		return err_set(err, ERR_INVALID, "the record has no digest");
	if (r != 0 && c->place.statedir >= 0) {
		(void)snprintf(path, sizeof(path), "policy/%s.json", from->digest);
		buf_reset(&text);
		if (file_read(c->place.statedir, path, &text, NULL) == 0)
			r = 0;
	}
	if (r != 0)
		return r;
	h = hash_sha256(buf_str(&text));
	hash_hex(&h, hex);
	if (!hash_eq(&h, &want))
		return err_set(
		    err, ERR_TAMPER, "policy %s: the bundle has another digest", from->digest);
	return policy_load(buf_str(&text), ret, err);
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
		AUTO(policy) struct policy *p = NULL;
		struct err err = {0};

		if (replay_case_policy(c, q, &p, &err) == 0) {
			add_calendars(&b, p);
		} else if (*ret_why == NULL) {
			*ret_why = xasprintf("policy %s: %s", q->name, err.msg);
		}
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
