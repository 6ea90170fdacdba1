/*
 * Waits until a webhook has a record (process: core). The word for it comes from the courier by way
 * of the writer: a courier that was taken over could say so of a record that it kept, and
 * break-glass would act as it does without this rule; it cannot make one act that nobody signed.
 * Silence counts as no.
 */
#include "broker/core_offhost.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define WEBHOOKS 16
#define NAME_SIZE 65
#define WHY_SIZE 256

/* Of one webhook: it has every record of its kind with from <= seq < through. */
struct told {
	char name[NAME_SIZE], why[WHY_SIZE]; /* why: its last error */
	uint64_t from, through;
};

struct waiting {
	TAILQ_ENTRY(waiting) link;
	struct core *core;
	char webhook[NAME_SIZE];
	uint64_t seq;
	int64_t seconds;
	struct loop_timer *timer;
	core_offhost_fn *fn;
	void *arg;
};
TAILQ_HEAD(waitings, waiting);

struct core_offhost {
	size_t ntold;
	struct told told[WEBHOOKS];
	struct waitings waiting;
};

static struct core_offhost *
get(struct core *c)
{
	if (c->offhost == NULL) {
		c->offhost = xcalloc(1, sizeof(*c->offhost));
		TAILQ_INIT(&c->offhost->waiting);
	}
	return c->offhost;
}

static struct told *
told_find(struct core_offhost *o, struct str name)
{
	for (size_t i = 0; i < o->ntold; i++)
		if (str_eqz(name, o->told[i].name))
			return &o->told[i];
	return NULL;
}

static void
end(struct waiting *w, const char *why)
{
	core_offhost_fn *fn = w->fn;
	void *arg = w->arg;

	TAILQ_REMOVE(&w->core->offhost->waiting, w, link);
	loop_timer_del(w->timer);
	free(w);
	fn(arg, why);
}

static bool
has(const struct told *t, uint64_t seq)
{
	return t != NULL && t->from <= seq && seq < t->through;
}

static void
too_late(void *arg)
{
	struct waiting *w = arg;
	const struct told *t = told_find(w->core->offhost, str_z(w->webhook));
	AUTO_FREE char *why = NULL;

	w->timer = NULL;
	if (t == NULL)
		why = xasprintf("the policy wants this shipped to webhook \"%s\" first "
				"(emergency.breakglass.offhost), and nothing is known of one: "
				"broker.json must have it, with breakglass.sign among its events, "
				"and its courier must run",
		    w->webhook);
	else
		why =
		    xasprintf("webhook \"%s\" has not taken record %llu within %lld s (%s): bring "
			      "it back, or activate a policy without "
			      "emergency.breakglass.offhost, and ask for break-glass again",
			w->webhook, (unsigned long long)w->seq, (long long)w->seconds,
			t->why[0] != '\0' ? t->why : "no error so far");
	log_error("break-glass is refused: %s", why);
	end(w, why);
}

void
core_offhost_wait(struct core *c, struct str webhook, uint64_t seq, int64_t seconds,
    core_offhost_fn *fn, void *arg)
{
	struct core_offhost *o = get(c);
	struct waiting *w;

	if (has(told_find(o, webhook), seq)) {
		fn(arg, NULL);
		return;
	}
	w = xcalloc(1, sizeof(*w));
	*w = (struct waiting){.core = c, .seq = seq, .seconds = seconds, .fn = fn, .arg = arg};
	(void)snprintf(w->webhook, sizeof(w->webhook), "%.*s", STR_ARG(webhook));
	TAILQ_INSERT_TAIL(&o->waiting, w, link);
	w->timer = loop_timer_add(c->loop, (uint64_t)seconds * 1000, too_late, w);
}

static void
settle(struct core_offhost *o, const struct told *t)
{
	struct waiting *w = TAILQ_FIRST(&o->waiting);

	while (w != NULL) {
		bool mine = strcmp(w->webhook, t->name) == 0 && has(t, w->seq);
		struct waiting *next = TAILQ_NEXT(w, link);

		if (mine) {
			end(w, NULL);
			next = TAILQ_FIRST(&o->waiting); /* what was told may have ended others */
		}
		w = next;
	}
}

int
core_offhost_on_delivered(
    struct core_peer *p, struct rd *body, int *fds UNUSED, size_t nfds UNUSED, struct err *err)
{
	struct core_offhost *o = get(p->core);
	struct str name = rd_lstr(body), why;
	uint64_t from = rd_u64(body), through = rd_u64(body);
	AUTO_FREE char *vis = NULL;
	struct told *t;

	why = rd_lstr(body);
	if (!rd_end(body) || name.n == 0 || name.n >= NAME_SIZE || !str_is_ascii_print(name))
		return err_set(err, ERR_PROTOCOL, "W_DELIVERED is malformed");
	t = told_find(o, name);
	if (t == NULL && o->ntold == WEBHOOKS)
		return err_set(err, ERR_PROTOCOL, "more than %d webhooks", WEBHOOKS);
	if (t == NULL)
		t = &o->told[o->ntold++];
	vis = log_vis(why);
	*t = (struct told){.from = from, .through = through};
	memcpy(t->name, name.p, name.n);
	(void)snprintf(t->why, sizeof(t->why), "%s", vis);
	settle(o, t);
	return 0;
}

void
core_offhost_free(struct core *c, void (*drop)(void *arg))
{
	struct waiting *w;

	if (c->offhost == NULL)
		return;
	while ((w = TAILQ_FIRST(&c->offhost->waiting)) != NULL) {
		TAILQ_REMOVE(&c->offhost->waiting, w, link);
		loop_timer_del(w->timer);
		drop(w->arg);
		free(w);
	}
	free(TAKE_PTR(c->offhost));
}
