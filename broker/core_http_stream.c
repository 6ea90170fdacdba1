/*
 * Streams behind a 101 (process: core). What passes over one is judged by nobody, so the permission
 * for it is held up against the policy as long as it lasts: whatever would refuse the request now,
 * also a pause, a stop or a credential that is not the same any more, ends it on both sides.
 */
#include "broker/core_http.h"

#include <stdlib.h>

#include "broker/core_cred.h"
#include "broker/core_lift.h"
#include "broker/core_rate.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* A client and a server learn of it within 100 ms; a judgement takes some microseconds. */
#define LOOK_MS 40

struct core_stream {
	LIST_ENTRY(core_stream) link;
	struct core_http *h;
	size_t ngrants;
	struct policy_grant *grants; /* owned: the request that had them may be gone */
	char credential[17], via[17];
	const char *ended; /* why core ended it, a word of the record; NULL: it did not */
};

static struct str
keep(struct str s)
{
	return str_mem(str_dup(s), s.n);
}

/* Which secrets it goes out with, as fingerprints; "" for what there is none of, or no more. */
static void
secrets(const struct core_http *h, char credential[17], char via[17])
{
	const struct core *c = h->from.run->core;
	const struct policy_target *t = core_http_policy(h);
	const struct vault_entry *e = NULL;
	struct err err;

	credential[0] = via[0] = '\0';
	if (t == NULL)
		return;
	if (t->credential.n != 0 && core_cred_find(c, t, &e, &err) == 0)
		core_cred_fingerprint(c, secret_str(e->secret), credential);
	if (t->via_credential.n != 0 && core_cred_via(c, t, &e, &err) == 0)
		core_cred_fingerprint(c, secret_str(e->secret), via);
}

/* --- does it hold? --------------------------------------------------------------------- */

/* By another policy than the one that it was judged by: is it the same action there? */
static bool
same_by(struct core_http *h)
{
	const struct core *c = h->from.run->core;
	struct http_view v;

	effects_http(core_http_policy(h), h->req, &v);
	if (!v.upgrade || v.effects != h->view.effects || v.fault != NULL)
		return false;
	h->policy = h->a->policy = *policy_digest(c->policy);
	h->a->nrates = 0; /* the rules that counted are others: it is counted anew */
	return true;
}

/* What lifted a rule for it was used up by it, perhaps, but has not ended. */
static bool
still_lifted(const struct core_http *h)
{
	const struct decision *d = &h->a->d;

	for (size_t i = 0; i < d->nlifted; i++) {
		const struct core_lift *l = core_lift_find(h->from.run->core, d->lifted[i]);

		if (l == NULL || l->state != CORE_LIFT_FORCE)
			return false;
	}
	return true;
}

static bool
permitted(struct core_stream *s)
{
	struct core_http *h = s->h;
	struct core_run *run = h->from.run;
	struct core *c = run->core;
	struct policy_input in, fresh;
	AUTO_FREE struct decision *d = xcalloc(1, sizeof(*d));
	struct core_beside *beside;

	if (c->policy == NULL || core_http_policy(h) == NULL || !still_lifted(h))
		return false;
	if (core_action_outdated(c, h->a) && !same_by(h))
		return false;
	fresh = in = core_decide_input(run, str_z(core_from_target(&h->from)), h->a);
	if (h->a->nrates == 0) {
		core_rate_fill(c, &in, h->a);
		in.nrates = h->a->nrates;
	}
	in.at = core_now(c);
	beside = core_lift_beside(run, in.target, NULL, in.at);
	core_lift_beside_input(beside, &fresh);
	in.overlays = fresh.overlays;
	in.noverlays = fresh.noverlays;
	policy_judge(c->policy, &in, s->grants, s->ngrants, d);
	core_lift_beside_free(beside);
	return d->verdict == VERDICT_ALLOW;
}

/* A word of the record; NULL: it goes on. */
static const char *
ceased(struct core_stream *s)
{
	char credential[17], via[17];

	if (s->h->from.run->paused)
		return "paused";
	if (s->h->from.run->stopping != NULL)
		return "stopped";
	if (!permitted(s))
		return "policy";
	secrets(s->h, credential, via);
	if (strcmp(credential, s->credential) != 0 || strcmp(via, s->via) != 0)
		return "credential";
	return NULL;
}

static void
look(void *arg)
{
	struct core *c = arg;
	struct core_stream *s, *next;

	c->streams_timer = NULL;
	for (s = LIST_FIRST(&c->streams); s != NULL; s = next) {
		const char *why = s->ended == NULL ? ceased(s) : NULL;

		next = LIST_NEXT(s, link);
		if (why != NULL)
			core_http_stream_cut(s->h, why);
	}
	if (!LIST_EMPTY(&c->streams))
		c->streams_timer = loop_timer_add(c->loop, LOOK_MS, look, c);
}

/* --- life ------------------------------------------------------------------------------ */

void
core_http_stream_begin(struct core_http *h)
{
	struct core_run *run = h->from.run;
	struct core_stream *s = xcalloc(1, sizeof(*s));

	s->h = h;
	s->ngrants = h->a->ngrants;
	s->grants = xcalloc(s->ngrants + 1, sizeof(*s->grants));
	for (size_t i = 0; i < s->ngrants; i++) {
		s->grants[i] = h->a->grants[i];
		s->grants[i].person = keep(s->grants[i].person);
		s->grants[i].role = keep(s->grants[i].role);
	}
	secrets(h, s->credential, s->via);
	h->stream = s;
	run->nstreams++;
	LIST_INSERT_HEAD(&run->core->streams, s, link);
	if (run->core->streams_timer == NULL)
		run->core->streams_timer =
		    loop_timer_add(run->core->loop, LOOK_MS, look, run->core);
}

void
core_http_stream_cut(struct core_http *h, const char *why)
{
	if (h->stream->ended != NULL)
		return;
	log_info("action %s: its stream is ended: %s", h->a->id, why);
	h->stream->ended = why;
	core_http_cut(h);
}

const char *
core_http_stream_why(const struct core_http *h)
{
	return h->stream != NULL ? h->stream->ended : NULL;
}

void
core_http_stream_gone(struct core_http *h, const char *why)
{
	if (h->stream != NULL && h->stream->ended == NULL)
		h->stream->ended = why;
}

void
core_http_stream_free(struct core_http *h)
{
	struct core_stream *s = TAKE_PTR(h->stream);

	if (s == NULL)
		return;
	LIST_REMOVE(s, link);
	for (size_t i = 0; i < s->ngrants; i++) {
		free((void *)(uintptr_t)s->grants[i].person.p);
		free((void *)(uintptr_t)s->grants[i].role.p);
	}
	free(s->grants);
	free(s);
	h->from.run->nstreams--;
}
