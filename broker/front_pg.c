/*
 * The PostgreSQL protocol towards clients. Runs in front on hostile bytes. Whole, well-formed
 * messages are collected into units and given to core one at a time; the answer is let through
 * as upstream sends it, its end only when core says so. Nothing is decided here, and what does
 * not parse ends the connection before anybody else sees it.
 */
#include "broker/front_pg.h"

#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define REPLY_MAX 65536

/* --- what is written --------------------------------------------------------------- */

/* Bytes for the client; from the server when `answer`: then followed for message boundaries. */
void
front_pg_put(struct front_conn *c, struct str bytes, bool answer)
{
	if (c->phase == FRONT_DEAD || c->phase == FRONT_CLOSING)
		return;
	if (answer && !pgwire_track_add(&c->pg->track, bytes)) {
		front_conn_end(c);
		return;
	}
	front_conn_put(c, bytes);
}

/* FATAL, where the stream allows one, then the end. */
void
front_pg_last_error(struct front_conn *c, const struct pgwire_error *e)
{
	AUTO_BUF struct buf b = BUF(REPLY_MAX);

	if (c->phase == FRONT_DEAD || c->phase == FRONT_CLOSING)
		return;
	/* In the middle of a message, or of a handshake, no error can be told. */
	if (c->phase == FRONT_HANDSHAKE || !pgwire_track_boundary(&c->pg->track)) {
		front_conn_end(c);
		return;
	}
	pgwire_put_error(&b, "FATAL", e);
	front_pg_put(c, buf_str(&b), false);
	front_conn_close(c);
}

void
front_pg_last_words(struct front_conn *c, const char *sqlstate, const char *message)
{
	front_pg_last_error(
	    c, &(struct pgwire_error){.sqlstate = str_z(sqlstate), .message = str_z(message)});
}

/* --- units ----------------------------------------------------------------------- */

static bool
core_busy(struct front_conn *c)
{
	return front_hub_busy(c, c->hub->core);
}

static void
act_send(struct front_conn *c, enum front_kind kind, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(bytes.n + 64);

	buf_u64(&b, c->id);
	buf_u64(&b, ++c->pg->act);
	buf_u8(&b, (uint8_t)kind);
	buf_lstr(&b, bytes);
	front_hub_core(c->hub, MSG_PG_ACT, &b);
	c->pg->kind = kind;
	c->pg->got = c->pg->want = 0;
	c->pg->done = false;
	c->pg->state = FRONT_PG_ACT;
	buf_free(&c->pg->unit);
	c->pg->nunit = 0;
}

/* True: the message was consumed. */
typedef bool message_fn(struct front_conn *c, const struct pgwire_msg *m);

static bool
on_simple(struct front_conn *c, const struct pgwire_msg *m)
{
	if (core_busy(c))
		return false;
	if (c->pg->nunit != 0) {
		act_send(c, FRONT_CUT, buf_str(&c->pg->unit));
		return false;
	}
	act_send(c, FRONT_QUERY, m->whole);
	return true;
}

static bool
on_extended(struct front_conn *c, const struct pgwire_msg *m)
{
	if (c->pg->nunit != 0 && (c->pg->nunit >= PGWIRE_UNIT_MESSAGES ||
				     c->pg->unit.n + m->whole.n > PGWIRE_UNIT_BYTES)) {
		if (!core_busy(c))
			act_send(c, FRONT_CUT, buf_str(&c->pg->unit));
		return false;
	}
	buf_put_str(&c->pg->unit, m->whole);
	c->pg->nunit++;
	return true;
}

static bool
on_end(struct front_conn *c, const struct pgwire_msg *m)
{
	/* All that was sent before has been answered: there is nothing to flush. */
	if (m->type == 'H' && c->pg->nunit == 0)
		return true;
	if (core_busy(c))
		return false;
	buf_put_str(&c->pg->unit, m->whole);
	act_send(c, m->type == 'S' ? FRONT_SYNC : FRONT_FLUSH, buf_str(&c->pg->unit));
	return true;
}

static bool
on_terminate(struct front_conn *c, const struct pgwire_msg *m)
{
	(void)m;
	front_conn_end(c);
	return true;
}

/* Outside COPY these are ignored, as the server does. */
static bool
on_copy_end(struct front_conn *c, const struct pgwire_msg *m)
{
	(void)c;
	(void)m;
	return true;
}

static bool
on_password(struct front_conn *c, const struct pgwire_msg *m)
{
	(void)m;
	front_pg_last_words(c, "08P01", "a password was sent that nobody asked for");
	return true;
}

static const struct {
	char type;
	message_fn *fn;
} messages[] = {
    {'Q', on_simple},
    {'F', on_simple},
    {'P', on_extended},
    {'B', on_extended},
    {'D', on_extended},
    {'E', on_extended},
    {'C', on_extended},
    {'S', on_end},
    {'H', on_end},
    {'X', on_terminate},
    {'c', on_copy_end},
    {'f', on_copy_end},
    {'p', on_password},
};

static void
put_ready(struct front_conn *c)
{
	AUTO_BUF struct buf b = BUF(16);

	pgwire_put_ready(&b, c->pg->txn);
	front_pg_put(c, buf_str(&b), false);
}

/*
 * A refusal stands, so all up to Sync is dropped, as a server does after an error. When an
 * earlier part of the exchange reached the server, that one needs the Sync too.
 */
static bool
skipped(struct front_conn *c, const struct pgwire_msg *m)
{
	if (m->type == 'X')
		return on_terminate(c, m);
	if (m->type != 'S')
		return true;
	if (c->pg->unsynced && core_busy(c))
		return false;
	c->pg->skip = false;
	if (c->pg->unsynced)
		act_send(c, FRONT_SYNC, m->whole);
	else
		put_ready(c);
	return true;
}

/*
 * CopyData where no COPY is open: dropped, as the server does. But what was collected before it may
 * open one, for a client that does not wait to be asked. 1 done, 0 not now, -1 another message.
 */
static int
stray_data(struct front_conn *c)
{
	struct str in = front_conn_in(c);

	if (c->pg->copy.left != 0)
		return front_pg_copy_drop(c);
	if (in.n == 0 || in.p[0] != 'd' || c->pg->nunit == 0 || c->pg->skip)
		return front_pg_copy_head(c);
	if (!core_busy(c))
		act_send(c, FRONT_CUT, buf_str(&c->pg->unit));
	return 0;
}

/* False: more bytes are needed, or the state has changed. */
static bool
message(struct front_conn *c)
{
	struct pgwire_msg m;
	struct err err = {0};
	bool consumed = true, skip = c->pg->skip;
	int rc = stray_data(c);

	if (rc >= 0)
		return rc == 1;
	rc = pgwire_next(front_conn_in(c), PGWIRE_MESSAGE_MAX, &m, &err);
	if (rc == 0)
		return false;
	if (rc > 0)
		rc = pgwire_check_frontend(&m, &err);
	if (rc < 0) {
		front_pg_last_words(c, err_sqlstate(err.code), err.msg);
		return false;
	}
	if (skip)
		consumed = skipped(c, &m);
	for (size_t i = 0; !skip && i < ARRAY_LEN(messages); i++) {
		if (messages[i].type != m.type)
			continue;
		consumed = messages[i].fn(c, &m);
		break;
	}
	if (consumed)
		c->in_at += m.whole.n;
	return consumed && c->phase == FRONT_OPEN && c->pg->state == FRONT_PG_READY;
}

static const struct {
	enum front_pg_state state;
	bool (*step)(struct front_conn *c);
} steps[] = {
    {FRONT_PG_START, front_pg_startup},
    {FRONT_PG_READY, message},
    {FRONT_PG_ACT, front_pg_copy_step},
};

static void
input(struct front_conn *c)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		while (c->phase == FRONT_OPEN && c->pg->state == steps[i].state && steps[i].step(c))
			;
}

/* --- answers --------------------------------------------------------------------- */

void
front_pg_refused(struct front_conn *c, const struct front_refusal *r)
{
	AUTO_BUF struct buf b = BUF(REPLY_MAX);

	if (r->act == 0 ? c->pg->state != FRONT_PG_OPENING
			: c->pg->state != FRONT_PG_ACT || r->act != c->pg->act)
		return;
	/* Before it is let in, a client knows no notice and would miss the error behind it. */
	if (r->act == 0 && r->receipt.n != 0)
		pgwire_put_auth_ok(&b);
	front_pg_put_receipt(&b, r->receipt);
	if (r->how == 0 || r->act == 0) {
		front_pg_put(c, buf_str(&b), false);
		c->pg->core_knows = false;
		front_pg_last_error(c, &r->e);
		return;
	}
	pgwire_put_error(&b, "ERROR", &r->e);
	front_pg_put(c, buf_str(&b), false);
	c->pg->state = FRONT_PG_READY;
	if (c->pg->kind == FRONT_QUERY || (c->pg->kind == FRONT_SYNC && !c->pg->unsynced))
		put_ready(c);
	else
		c->pg->skip = true;
	/* That unit's own Sync is gone with it, and the server still waits for one. */
	if (c->pg->kind == FRONT_SYNC && c->pg->unsynced) {
		AUTO_BUF struct buf sync = BUF(16);

		c->pg->skip = false;
		pgwire_put_sync(&sync);
		act_send(c, FRONT_SYNC, buf_str(&sync));
	}
	front_conn_kick(c);
}

void
front_pg_put_receipt(struct buf *b, struct str receipt)
{
	AUTO_BUF struct buf text = BUF(1024);

	if (receipt.n == 0)
		return;
	buf_put_z(&text, "cofferdam receipt: ");
	buf_put_str(&text, receipt);
	pgwire_put_notice(b, buf_str(&text));
}

/* Before the ReadyForQuery that ends the answer: behind it a client may read no more. */
static void
put_tail(struct front_conn *c, struct str tail, bool ready)
{
	size_t last = ready ? 6 : 0;

	front_pg_put(c, str_mem(tail.p, tail.n - last), true);
	front_pg_put(c, buf_str(&c->pg->notices), false);
	front_pg_put(c, str_mem(tail.p + (tail.n - last), last), true);
	buf_free(&c->pg->notices);
}

/* All of the answer is here and its outcome is on record. */
static void
complete(struct front_conn *c)
{
	struct str tail = buf_str(&c->pg->hold);
	bool ready;

	if (!c->pg->done || c->pg->got < c->pg->want)
		return;
	if (c->pg->got > c->pg->want) {
		front_pg_last_words(c, "08006", "the answer is longer than what was recorded");
		return;
	}
	ready = tail.n >= 6 && memcmp(tail.p + tail.n - 6, "Z\0\0\0\5", 5) == 0;
	if (ready)
		c->pg->txn = tail.p[tail.n - 1];
	put_tail(c, tail, ready && c->pg->kind <= FRONT_SYNC);
	if (c->phase != FRONT_OPEN)
		return;
	buf_free(&c->pg->hold);
	c->pg->copy.open = false;
	c->pg->unsynced = c->pg->kind == FRONT_FLUSH || c->pg->kind == FRONT_CUT;
	c->pg->state = FRONT_PG_READY;
	front_conn_kick(c);
}

void
front_pg_done(struct front_conn *c, uint64_t act, uint64_t bytes, struct str notices)
{
	if (c->pg->state != FRONT_PG_ACT || act != c->pg->act)
		return;
	c->pg->done = true;
	c->pg->want = bytes;
	buf_put_str(&c->pg->notices, notices);
	complete(c);
}

void
front_pg_data(struct front_conn *c, uint64_t act, bool hold, struct str bytes)
{
	bool ours = c->pg->state == FRONT_PG_ACT && act == c->pg->act;

	if (c->pg->state < FRONT_PG_READY || (act != 0 && !ours))
		return;
	if (!hold && c->pg->hold.n == 0) {
		front_pg_put(c, bytes, true);
	} else {
		buf_put_str(&c->pg->hold, bytes);
		if (buf_over(&c->pg->hold)) {
			front_pg_last_words(
			    c, "54000", "the answer is larger than 8 MiB can be held back");
			return;
		}
	}
	if (ours) {
		c->pg->got += bytes.n;
		complete(c);
	}
}

void
front_pg_gone(struct front_conn *c, const struct pgwire_error *e)
{
	c->pg->core_knows = false;
	front_pg_last_error(c, e);
}

/* --- the connection's life --------------------------------------------------------- */

static void
start(struct front_conn *c)
{
	c->pg = xcalloc(1, sizeof(*c->pg));
	c->pg->state = FRONT_PG_START;
	c->pg->txn = 'I';
	buf_init(&c->pg->unit, PGWIRE_MESSAGE_MAX + PGWIRE_UNIT_BYTES);
	buf_init(&c->pg->hold, PGWIRE_HOLD_MAX);
	buf_init(&c->pg->notices, FRONT_PG_NOTICES_MAX);
	front_conn_deadline(c, c->hub->clocks.startup);
}

static void
pg_free(struct front_conn *c)
{
	buf_free(&c->pg->unit);
	buf_free(&c->pg->hold);
	buf_free(&c->pg->notices);
	free(c->pg);
}

static bool
reads(const struct front_conn *c)
{
	return !c->pg->copy.open || front_conn_in(c).n < FRONT_PG_COPY_AHEAD;
}

static void
secured(struct front_conn *c)
{
	(void)c; /* a start-up packet again: the clock of the first one goes on */
}

/* Sessions live on both sides of upstream: without it those that have one are over. */
static void
over(struct front_conn *c, enum front_why why)
{
	switch (why) {
	case FRONT_RUN_ENDED: front_pg_last_words(c, "57P01", "the run has ended"); break;
	case FRONT_CORE_LOST: front_pg_last_words(c, "57P01", "the broker restarts"); break;
	case FRONT_STOPPING: front_pg_last_words(c, "57P01", "the broker stops"); break;
	case FRONT_NO_LEAF:
		front_pg_last_words(c, "57P03", "the broker has no certificate for this host");
		break;
	case FRONT_REVOKED:
		front_pg_last_words(c, "57P01", "the target is not this run's any more");
		break;
	case FRONT_UPSTREAM_LOST:
		if (c->pg->state != FRONT_PG_START)
			front_pg_last_words(c, "08006", "the connection to the server was lost");
		break;
	}
}

static void
timeout(struct front_conn *c)
{
	front_pg_last_words(c, "08006", "start-up took longer than 60 s");
}

static void
hold_server(struct front_conn *c, bool on)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, c->id);
	buf_u8(&b, on);
	front_hub_upstream(c->hub, MSG_FU_PAUSE, &b);
}

static void
gone(struct front_conn *c)
{
	AUTO_BUF struct buf b = BUF(64);

	if (!c->pg->core_knows)
		return;
	buf_u64(&b, c->id);
	front_hub_core(c->hub, MSG_PG_CLOSE, &b);
	c->pg->core_knows = false;
}

const struct front_proto front_pg_proto = {
    .alpn = "postgresql",
    .in_max = FRONT_PG_IN_MAX,
    .start = start,
    .free = pg_free,
    .reads = reads,
    .input = input,
    .secured = secured,
    .over = over,
    .timeout = timeout,
    .pause = hold_server,
    .gone = gone,
};
