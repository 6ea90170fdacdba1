/*
 * Watching a run (process: core). What is shown is what the log has, in order, and nothing before
 * it is durable. Who looks is known by the socket, may look by the policy, and is on the record
 * first. Must never wait for who looks: what they do not read is counted and left out.
 */
#include "broker/core_watch.h"

#include <stdlib.h>

#include "broker/core_child.h"
#include "broker/core_peer.h"
#include "broker/core_run.h"
#include "broker/core_steer.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define EVENT_MAX ((size_t)200000)
#define AGENT_QUEUE_MAX ((size_t)262144)

struct core_backlog {
	size_t first, n, bytes;
	struct buf at[CORE_BACKLOG_MAX];
};

/* --- events ---------------------------------------------------------------------------- */

static void
event_put(struct buf *out, const struct core_seen *s)
{
	char at[CLOCK_TEXT_SIZE];
	struct jcs j;

	clock_format(clock_wall_us(), at);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "at", at);
	jcs_raw(&j, "data", s->data);
	if (s->show_bytes > s->show.n)
		jcs_int(&j, "left_out", (int64_t)(s->show_bytes - s->show.n));
	jcs_z(&j, "run", s->run);
	jcs_int(&j, "seq", (int64_t)s->seq);
	jcs_z(&j, "src", s->src != NULL ? s->src : "broker");
	if (s->show.n != 0)
		jcs_str_lossy(&j, "text", s->show);
	jcs_z(&j, "type", s->type);
	jcs_close(&j);
}

/* What is no record, and so has no seq: that some were left out, that the run is over. */
static void
notice_put(struct buf *out, const char *run, const char *type, uint64_t events)
{
	char at[CLOCK_TEXT_SIZE];
	struct jcs j;

	clock_format(clock_wall_us(), at);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "at", at);
	if (events != 0)
		jcs_int(&j, "events", (int64_t)events);
	jcs_z(&j, "run", run);
	jcs_z(&j, "type", type);
	jcs_close(&j);
}

static void
send_text(const struct core_peer *p, uint16_t type, struct str text)
{
	AUTO_BUF struct buf b = BUF(EVENT_MAX + 8);

	buf_lstr(&b, text);
	core_send(p, type, &b);
}

/* *left_out: what this peer was not sent so far. */
static void
offer(const struct core_peer *p, uint16_t type, size_t most, uint64_t *left_out, const char *run,
    struct str event)
{
	if (ipc_queued(p->wire) > most) {
		(*left_out)++;
		return;
	}
	if (*left_out != 0) {
		AUTO_BUF struct buf b = BUF(512);

		notice_put(&b, run, "stream.left_out", *left_out);
		*left_out = 0;
		send_text(p, type, buf_str(&b));
	}
	send_text(p, type, event);
}

/* --- the backlog ----------------------------------------------------------------------- */

static void
drop_oldest(struct core_backlog *l)
{
	struct buf *b = &l->at[l->first];

	l->bytes -= b->n;
	buf_free(b);
	l->first = (l->first + 1) % CORE_BACKLOG_MAX;
	l->n--;
}

static void
keep(struct core_run *run, struct str event)
{
	struct core_backlog *l = run->backlog;
	struct buf *b;

	if (l == NULL)
		l = run->backlog = xcalloc(1, sizeof(*l));
	while (l->n != 0 && (l->n == CORE_BACKLOG_MAX || l->bytes + event.n > CORE_BACKLOG_BYTES))
		drop_oldest(l);
	b = &l->at[(l->first + l->n++) % CORE_BACKLOG_MAX];
	buf_init(b, event.n);
	buf_put_str(b, event);
	l->bytes += event.n;
}

/* --- who looks ------------------------------------------------------------------------- */

static void
to_watchers(const struct core_run *run, struct str event)
{
	struct core_peer *p;

	TAILQ_FOREACH (p, &run->core->people, link)
		if (strcmp(p->watches, run->id) == 0)
			offer(p, MSG_Q_EVENT, CORE_WATCH_QUEUE_MAX, &p->left_out, run->id, event);
}

static void
to_agent(struct core_run *run, const struct core_seen *s, struct str event)
{
	if (run->peer != NULL && run->streams && run->peer->state == CORE_S_RUN &&
	    (s->src == NULL || strcmp(s->src, "agent") != 0))
		offer(run->peer, MSG_A_SEEN, AGENT_QUEUE_MAX, &run->left_out, run->id, event);
}

void
core_watch_record(struct core *c, const struct core_seen *s)
{
	struct core_run *run = core_run_find(c, str_z(s->run));
	AUTO_BUF struct buf b = BUF(EVENT_MAX);

	if (run == NULL)
		return;
	event_put(&b, s);
	if (buf_over(&b))
		return;
	to_agent(run, s, buf_str(&b));
	/* What children do is shown with their parents. */
	for (; run != NULL; run = core_child_parent(run)) {
		keep(run, buf_str(&b));
		to_watchers(run, buf_str(&b));
	}
}

static struct core_peer *
watcher(const struct core_run *run)
{
	struct core_peer *p;

	TAILQ_FOREACH (p, &run->core->people, link)
		if (strcmp(p->watches, run->id) == 0)
			return p;
	return NULL;
}

void
core_watch_free(struct core_run *run)
{
	struct core_peer *p;

	while ((p = watcher(run)) != NULL) {
		AUTO_BUF struct buf b = BUF(512), left = BUF(512);

		if (p->left_out != 0) {
			notice_put(&left, run->id, "stream.left_out", p->left_out);
			send_text(p, MSG_Q_EVENT, buf_str(&left));
		}
		notice_put(&b, run->id, "stream.end", 0);
		p->watches[0] = '\0';
		core_peer_rest(p);
		send_text(p, MSG_Q_EVENT, buf_str(&b));
	}
	while (run->backlog != NULL && run->backlog->n != 0)
		drop_oldest(run->backlog);
	free(run->backlog);
}

/* --- the verb -------------------------------------------------------------------------- */

struct attach {
	struct core *core;
	uint64_t peer;
	char run[CORE_ID_SIZE];
};

static void
begin(struct core_peer *p, struct core_run *run)
{
	const struct core_backlog *l = run->backlog;
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "agent", str_z(run->agent));
	jcs_z(&j, "id", run->id);
	jcs_z(&j, "owner", run->owner);
	if (run->parent[0] != '\0')
		jcs_z(&j, "parent", run->parent);
	jcs_bool(&j, "paused", run->paused);
	jcs_close(&j);
	core_control_reply(p->core, p->serial, 0, buf_str(&b));
	loop_timer_del(p->timer); /* it may look as long as the run lives */
	p->timer = NULL;
	memcpy(p->watches, run->id, sizeof(p->watches));
	p->left_out = 0;
	for (size_t i = 0; l != NULL && i < l->n; i++)
		send_text(p, MSG_Q_EVENT, buf_str(&l->at[(l->first + i) % CORE_BACKLOG_MAX]));
}

static void
recorded(void *arg, const struct core_ack *ack)
{
	AUTO_FREE struct attach *a = arg;
	struct core_peer *p = core_peer_by_serial(a->core, a->peer);
	struct core_run *run = core_run_find(a->core, str_z(a->run));

	if (p == NULL)
		return;
	p->will_watch = false;
	if (ack->code != 0)
		core_control_reply(a->core, a->peer, ERR_UNAVAILABLE,
		    STR("the decision log is not available: nobody looks unrecorded"));
	else if (run == NULL)
		core_control_reply(a->core, a->peer, ERR_NOT_FOUND, STR("the run has ended"));
	else
		begin(p, run);
}

static size_t
watchers(const struct core *c)
{
	const struct core_peer *p;
	size_t n = 0;

	TAILQ_FOREACH (p, &c->people, link)
		n += p->watches[0] != '\0' || p->will_watch;
	return n;
}

int
core_watch_verb(struct core_call *call, struct err *err)
{
	struct core_peer *p = core_peer_by_serial(call->core, call->peer);
	AUTO_BUF struct buf data = BUF(1024);
	AUTO_FREE char *by = NULL;
	struct core_run *run;
	struct attach *a;
	int rc = core_steer_may(call, false, &run, &by, err);

	if (rc != 0)
		return rc;
	if (p == NULL || p->watches[0] != '\0' || p->will_watch)
		return err_set(err, ERR_STATE, "a connection watches one run");
	if (watchers(call->core) >= CORE_WATCHERS_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "%d people are watching, the limit", CORE_WATCHERS_MAX);
	a = xcalloc(1, sizeof(*a));
	a->core = call->core;
	a->peer = call->peer;
	memcpy(a->run, run->id, sizeof(a->run));
	core_steer_data(&data, by, STR(""));
	if (core_record(call->core, &(struct core_append){.type = "run.watch",
					.src = "human",
					.run = run->id,
					.data = &data,
					.fn = recorded,
					.arg = a}) != NULL) {
		p->will_watch = true;
		return CORE_CALL_LATER;
	}
	free(a);
	return err_set(err, ERR_UNAVAILABLE, "the log cannot take it now, try again");
}
