/*
 * Tickets: records handed to the writer and not yet durable. Process: core. Trusts the writer
 * to be honest about what it synced, nothing else about it: it may be stopped, full or
 * killed, and then each ticket fails within CORE_RECORD_MS and nothing passes. An outcome is
 * kept until it is durable, whatever becomes of the writer meanwhile.
 */
#include "broker/core_record.h"

#include <assert.h>
#include <stdlib.h>

#include "audit/canon.h"
#include "audit/outcome.h"
#include "broker/core_console.h"
#include "broker/core_data.h"
#include "broker/core_doubt.h"
#include "broker/core_watch.h"
#include "broker/core_witness.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TICK_MS 250

struct core_ticket {
	TAILQ_ENTRY(core_ticket) link;
	uint64_t id, deadline_ms;
	core_ack_fn *fn;
	void *arg;
	bool failed;		       /* fn has been told so */
	bool shows;		       /* what people look at is another once it is durable */
	char dispatched[CORE_ID_SIZE]; /* "" none */
	char outcome_of[CORE_ID_SIZE]; /* "" none */
	char run[CORE_ID_SIZE];
	const char *type, *src; /* literals */
	struct buf data, show;	/* kept of a run's, to be shown, and of outcomes */
	size_t show_bytes;
	unsigned witnesses; /* that must cosign it; then ack is what was said */
	int64_t witness_s;
	struct core_ack ack;
};

static void
ticket_free(struct core_ticket *t)
{
	buf_free(&t->data);
	buf_free(&t->show);
	free(t);
}

static void
ticket_call(struct core_ticket *t, const struct core_ack *ack)
{
	core_ack_fn *fn = t->fn;

	t->fn = NULL;
	if (fn != NULL)
		fn(t->arg, ack);
}

/* --- witnesses ---------------------------------------------------------------------- */

static void ack_late(struct core *c, const struct core_ticket *t, uint64_t seq, const char *why);

/* Nobody waits for it any more, or not enough have cosigned: it is not sent, and the log says so.
 */
static void
unwitnessed_end(struct core *c, struct core_ticket *t, int code, const char *why)
{
	bool told = !t->failed;

	TAILQ_REMOVE(&c->unwitnessed, t, link);
	t->ack.code = code;
	t->ack.why = why;
	if (t->failed || code != 0)
		ack_late(c, t, t->ack.seq, why);
	if (told)
		ticket_call(t, &t->ack);
	ticket_free(t);
}

static bool
settled(struct core *c, struct core_ticket *t)
{
	AUTO_FREE char *why = NULL;

	if (core_witness_covers(c, t->witnesses, t->ack.seq)) {
		unwitnessed_end(c, t, 0, NULL);
		return true;
	}
	if (t->failed || t->deadline_ms <= loop_now_ms(c->loop))
		why = core_witness_missing(c, t->witnesses, t->ack.seq);
	else
		why = core_witness_refused(c, t->witnesses);
	if (why != NULL)
		unwitnessed_end(c, t, ERR_UNAVAILABLE, why);
	return why != NULL;
}

void
core_record_witnessed(struct core *c)
{
	struct core_ticket *t = TAILQ_FIRST(&c->unwitnessed);

	while (t != NULL) {
		struct core_ticket *next = TAILQ_NEXT(t, link);

		if (settled(c, t))
			next = TAILQ_FIRST(&c->unwitnessed); /* a callback may have ended others */
		t = next;
	}
}

/* --- deadlines ------------------------------------------------------------------- */

static struct core_ticket *
overdue(const struct core *c, const struct core_tickets *list)
{
	struct core_ticket *t;

	TAILQ_FOREACH (t, list, link)
		if (!t->failed && t->deadline_ms <= loop_now_ms(c->loop))
			return t;
	return NULL;
}

static void
tick(void *arg)
{
	struct core *c = arg;
	struct core_ticket *t;

	c->ticket_timer = NULL;
	/* A callback may append and fail others: look from the start after each. */
	while ((t = overdue(c, &c->tickets)) != NULL || (t = overdue(c, &c->unsent)) != NULL) {
		t->failed = true;
		ticket_call(t, &(struct core_ack){.code = ERR_TIMEOUT});
	}
	core_record_witnessed(c);
	if (c->ticket_timer == NULL && (!TAILQ_EMPTY(&c->tickets) || !TAILQ_EMPTY(&c->unsent) ||
					   !TAILQ_EMPTY(&c->unwitnessed)))
		c->ticket_timer = loop_timer_add(c->loop, TICK_MS, tick, c);
}

static void
tick_start(struct core *c)
{
	if (c->ticket_timer == NULL)
		c->ticket_timer = loop_timer_add(c->loop, TICK_MS, tick, c);
}

/* --- appending ------------------------------------------------------------------- */

static void
frame_put(struct buf *b, const struct core_ticket *t, const struct core_append *a)
{
	buf_u64(b, t->id);
	buf_u8(b, a->witnesses != 0 ? a->flags | CORE_REC_CHECKPOINT | CORE_REC_WITNESS : a->flags);
	buf_lz(b, a->type);
	buf_lz(b, a->src != NULL ? a->src : "broker");
	buf_lz(b, a->run);
	buf_lstr(b, buf_str(a->data));
	buf_u32(b, a->frame != NULL ? 1 : 0);
	if (a->frame != NULL)
		buf_lstr(b, buf_str(a->frame));
}

static bool
append_fits(struct core *c, const struct core_append *a)
{
	if (buf_over(a->data) || a->data->n > CORE_RECORD_DATA_MAX) {
		log_error("record %s has %zu bytes, limit %zu", a->type, a->data->n,
		    CORE_RECORD_DATA_MAX);
		return false;
	}
	if (a->frame != NULL && (buf_over(a->frame) || a->frame->n > CORE_RECORD_FRAMES_MAX)) {
		log_error("blob of record %s has %zu bytes, limit %zu", a->type, a->frame->n,
		    CORE_RECORD_FRAMES_MAX);
		return false;
	}
	return c->live && c->ntickets < CORE_TICKETS_MAX &&
	       ipc_queued(c->writer->wire) < IPC_QUEUE_MAX / 4;
}

/* Not cut within a character. */
static struct str
shown(struct str s)
{
	if (s.n <= CORE_WATCH_TEXT_MAX)
		return s;
	s.n = CORE_WATCH_TEXT_MAX;
	while (s.n != 0 && ((unsigned char)s.p[s.n] & 0xc0) == 0x80)
		s.n--;
	return s;
}

static struct core_ticket *
ticket_new(struct core *c, const struct core_append *a)
{
	struct core_ticket *t = xcalloc(1, sizeof(*t));

	t->id = ++c->last_ticket;
	t->fn = a->fn;
	t->arg = a->arg;
	t->witnesses = a->witnesses;
	t->witness_s = a->witness_s;
	t->shows = strcmp(a->type, "action") != 0 && strcmp(a->type, "outcome") != 0;
	t->deadline_ms = loop_now_ms(c->loop) + CORE_RECORD_MS;
	buf_init(&t->data, CORE_RECORD_DATA_MAX);
	if (a->dispatched != NULL)
		memcpy(t->dispatched, a->dispatched, strnlen(a->dispatched, CORE_ID_SIZE - 1));
	t->type = a->type;
	t->src = a->src;
	if (a->outcome_of != NULL)
		memcpy(t->outcome_of, a->outcome_of, strnlen(a->outcome_of, CORE_ID_SIZE - 1));
	if (a->run != NULL)
		memcpy(t->run, a->run, strnlen(a->run, CORE_ID_SIZE - 1));
	if (a->outcome_of != NULL || a->run != NULL)
		buf_put_str(&t->data, buf_str(a->data));
	buf_init(&t->show, CORE_WATCH_TEXT_MAX);
	t->show_bytes = a->show.n;
	if (a->run != NULL)
		buf_put_str(&t->show, shown(a->show));
	return t;
}

static void
ticket_send(struct core *c, struct core_ticket *t, const struct core_append *a)
{
	AUTO_BUF struct buf b = BUF(IPC_BODY_MAX);

	frame_put(&b, t, a);
	TAILQ_INSERT_TAIL(&c->tickets, t, link);
	c->ntickets++;
	core_send(c->writer, MSG_W_APPEND, &b);
	tick_start(c);
}

struct core_ticket *
core_record(struct core *c, const struct core_append *a)
{
	struct core_ticket *t;

	if (!append_fits(c, a)) {
		if (a->outcome_of == NULL || buf_over(a->data) || a->data->n > CORE_RECORD_DATA_MAX)
			return NULL;
		t = ticket_new(c, a);
		TAILQ_INSERT_TAIL(&c->unsent, t, link);
		tick_start(c);
		return t;
	}
	t = ticket_new(c, a);
	ticket_send(c, t, a);
	return t;
}

void
core_record_forget(struct core_ticket *t)
{
	if (t == NULL)
		return;
	t->fn = NULL;
	t->failed = true;
}

static void
record_outcome(struct core *c, const char *run, const struct core_data_outcome *d)
{
	AUTO_BUF struct buf b = BUF(16384);

	core_data_outcome(&b, d);
	(void)core_record(
	    c, &(struct core_append){
		   .type = "outcome", .run = run, .data = &b, .outcome_of = d->action});
}

void
core_record_not_sent(struct core *c, const char *run, const char *action, uint64_t seq)
{
	record_outcome(c, run,
	    &(struct core_data_outcome){.action = action, .seq = seq, .status = "not_sent"});
}

void
core_record_doubt(struct core *c, const char *run, const char *action, uint64_t seq, bool reads,
    const char *status)
{
	record_outcome(c, run,
	    &(struct core_data_outcome){
		.action = action, .seq = seq, .reads = reads, .status = status});
}

static bool
has_outcome(const struct core_tickets *list, const char *action)
{
	const struct core_ticket *t;

	TAILQ_FOREACH (t, list, link)
		if (strncmp(t->outcome_of, action, CORE_ID_SIZE) == 0)
			return true;
	return false;
}

bool
core_record_keeps(const struct core *c, const char *action)
{
	return has_outcome(&c->unsent, action) || has_outcome(&c->tickets, action);
}

/* --- answers --------------------------------------------------------------------- */

/* The ack came after the action had been refused: it was never sent, and the log says so. */
static void
ack_late(struct core *c, const struct core_ticket *t, uint64_t seq, const char *why)
{
	if (t->dispatched[0] != '\0')
		record_outcome(c, t->run,
		    &(struct core_data_outcome){
			.action = t->dispatched, .seq = seq, .status = "not_sent", .why = why});
}

static void
outcome_is_durable(struct core *c, const struct core_ticket *t, uint64_t seq)
{
	char now[CLOCK_TEXT_SIZE];

	clock_format(clock_wall_us(), now);
	if (outcome_in_doubt(buf_str(&t->data)))
		core_doubt_outcome(c, str_z(t->run), str_z(now), seq, str_z(t->outcome_of),
		    canon_plain(canon_get(buf_str(&t->data), "status")));
}

static struct core_ticket *
ticket_find(const struct core *c, uint64_t id)
{
	struct core_ticket *t = NULL;

	TAILQ_FOREACH (t, &c->tickets, link) {
		if (t->id == id)
			return t;
	}
	return NULL;
}

static void
watch(struct core *c, const struct core_ticket *t, uint64_t seq)
{
	if (t->run[0] != '\0')
		core_watch_record(c, &(struct core_seen){.type = t->type,
					 .src = t->src,
					 .run = t->run,
					 .seq = seq,
					 .data = buf_str(&t->data),
					 .show = buf_str(&t->show),
					 .show_bytes = t->show_bytes});
}

/* Durable and signed. What came too late is not waited for. */
static void
await_witnesses(struct core *c, struct core_ticket *t, const struct core_ack *ack)
{
	t->ack = *ack;
	t->deadline_ms = loop_now_ms(c->loop) + (uint64_t)t->witness_s * 1000;
	TAILQ_INSERT_TAIL(&c->unwitnessed, t, link);
	tick_start(c);
	(void)settled(c, t);
}

int
core_record_on_ack(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core *c = p->core;
	struct core_ack ack = {.code = 0};
	struct core_ticket *t;
	uint64_t id = rd_u64(body);
	struct str root, leaf;

	(void)fds;
	(void)nfds;
	ack.seq = rd_u64(body);
	ack.size = rd_u64(body);
	root = rd_bytes(body, HASH_LEN);
	leaf = rd_bytes(body, HASH_LEN);
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "W_ACK has a wrong length");
	memcpy(ack.root.b, root.p, HASH_LEN);
	memcpy(ack.leaf.b, leaf.p, HASH_LEN);
	t = ticket_find(c, id);
	if (t == NULL)
		return err_set(err, ERR_PROTOCOL, "W_ACK for ticket %llu, which is not waiting",
		    (unsigned long long)id);
	TAILQ_REMOVE(&c->tickets, t, link);
	c->ntickets--;
	if (ack.seq >= c->log_size)
		c->log_size = ack.seq + 1;
	if (t->outcome_of[0] != '\0')
		outcome_is_durable(c, t, ack.seq);
	watch(c, t, ack.seq);
	if (t->shows)
		core_console_changed(c);
	if (t->witnesses != 0) {
		await_witnesses(c, t, &ack);
		return 0;
	}
	if (t->failed)
		ack_late(c, t, ack.seq, NULL);
	else
		ticket_call(t, &ack);
	ticket_free(t);
	return 0;
}

/* --- the writer goes and comes --------------------------------------------------- */

static void
not_sent_add(struct core *c, const char *action)
{
	if (c->not_sent.n >= (size_t)CORE_TICKETS_MAX * CORE_ID_SIZE)
		buf_drop(&c->not_sent, CORE_ID_SIZE);
	buf_put(&c->not_sent, action, CORE_ID_SIZE);
}

void
core_record_writer_gone(struct core *c)
{
	struct core_tickets all;
	struct core_ticket *t;

	core_witness_writer_gone(c);
	TAILQ_INIT(&all);
	TAILQ_CONCAT(&all, &c->unwitnessed, link);
	TAILQ_CONCAT(&all, &c->tickets, link);
	c->ntickets = 0;
	while ((t = TAILQ_FIRST(&all)) != NULL) {
		TAILQ_REMOVE(&all, t, link);
		if (t->outcome_of[0] != '\0') {
			TAILQ_INSERT_TAIL(&c->unsent, t, link);
			t->failed = true;
			ticket_call(t, &(struct core_ack){.code = ERR_UNAVAILABLE});
			continue;
		}
		if (t->dispatched[0] != '\0')
			not_sent_add(c, t->dispatched);
		ticket_call(t, &(struct core_ack){.code = ERR_UNAVAILABLE});
		ticket_free(t);
	}
}

/*
 * c->doubt names the actions that the log shows as sent and without outcome. An outcome we
 * kept for one of them goes out again; one kept for another is durable already, since the
 * log no longer misses it.
 */
void
core_record_settle(struct core *c)
{
	struct core_tickets all;
	struct core_ticket *t;

	TAILQ_INIT(&all);
	TAILQ_CONCAT(&all, &c->unsent, link);
	while ((t = TAILQ_FIRST(&all)) != NULL) {
		TAILQ_REMOVE(&all, t, link);
		if (!core_doubt_lists(&c->doubt, t->outcome_of)) {
			ticket_call(t, &(struct core_ack){.code = 0});
			ticket_free(t);
			continue;
		}
		t->failed = false;
		t->deadline_ms = loop_now_ms(c->loop) + CORE_RECORD_MS;
		ticket_send(c, t,
		    &(struct core_append){.type = "outcome", .run = t->run, .data = &t->data});
	}
}

void
core_record_free_all(struct core *c)
{
	struct core_ticket *t;

	while ((t = TAILQ_FIRST(&c->tickets)) != NULL) {
		TAILQ_REMOVE(&c->tickets, t, link);
		ticket_free(t);
	}
	while ((t = TAILQ_FIRST(&c->unsent)) != NULL) {
		TAILQ_REMOVE(&c->unsent, t, link);
		ticket_free(t);
	}
	while ((t = TAILQ_FIRST(&c->unwitnessed)) != NULL) {
		TAILQ_REMOVE(&c->unwitnessed, t, link);
		ticket_free(t);
	}
	core_witness_free(c);
	loop_timer_del(c->ticket_timer);
	c->ticket_timer = NULL;
}
