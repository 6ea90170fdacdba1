/*
 * The PostgreSQL protocol towards clients. Runs in front on hostile bytes. Whole, well-formed
 * messages are collected into units and given to core one at a time; the answer is let through
 * as upstream sends it, its end only when core says so. Nothing is decided here, and what does
 * not parse ends the connection before anybody else sees it.
 */
#include "broker/front.h"

#include "common/hash.h"

#include "common/banned.h"

#define REPLY_MAX 65536

/* --- start-up -------------------------------------------------------------------- */

static void
on_ssl(struct front_conn *c)
{
	if (c->ssl_asked) {
		front_conn_fatal(c, "08P01", "a second SSLRequest on one connection");
		return;
	}
	c->ssl_asked = true;
	/* Bytes in clear behind it would be taken for the client's own words (CVE-2021-23222). */
	if (c->in.n != c->in_at) {
		front_conn_fatal(c, "08P01", "received unencrypted data after SSL request");
		return;
	}
	c->state = FRONT_LEAF;
	if (front_listen_leaf(c->listener))
		front_conn_tls(c);
}

static void
on_gss(struct front_conn *c)
{
	if (c->gss_asked || c->ssl_asked) {
		front_conn_fatal(c, "08P01",
		    c->ssl_asked ? "a GSSENCRequest after SSLRequest"
				 : "a second GSSENCRequest on one connection");
		return;
	}
	c->gss_asked = true;
	front_conn_put(c, STR("N"), false);
}

static void
open_ask(struct front_conn *c, const struct pgwire_startup *s)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_u64(&b, c->id);
	buf_u32(&b, c->listener->id);
	buf_u32(&b, s->version);
	buf_u32(&b, (uint32_t)s->n);
	for (size_t i = 0; i < s->n; i++) {
		buf_lstr(&b, s->params[i].key);
		buf_lstr(&b, s->params[i].value);
	}
	front_hub_core(c->hub, MSG_PG_OPEN, &b);
	c->core_knows = true;
	c->state = FRONT_OPENING;
}

static bool
has_user(const struct pgwire_startup *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (str_eqz(s->params[i].key, "user") && s->params[i].value.n != 0)
			return true;
	return false;
}

static void
on_v3(struct front_conn *c, const struct pgwire_startup *s)
{
	AUTO_BUF struct buf b = BUF(REPLY_MAX);

	if (!has_user(s)) {
		front_conn_fatal(c, "28000", "no PostgreSQL user name specified in startup packet");
		return;
	}
	if (front_listen_sessions(c->listener) >= FRONT_CONNS_MAX) {
		front_conn_fatal(c, "53300", "the run has 1024 connections, which is the limit");
		return;
	}
	if (c->hub->core == NULL || c->hub->upstream == NULL) {
		front_conn_fatal(c, "57P03", "the broker is starting up");
		return;
	}
	if (s->version != PGWIRE_V3 || s->noptions != 0) {
		pgwire_put_negotiate(&b, s->options, s->noptions);
		front_conn_put(c, buf_str(&b), false);
	}
	c->counted = true;
	c->listener->sessions++;
	open_ask(c, s);
}

/* False: more bytes are needed, or the state has changed. */
static bool
startup(struct front_conn *c)
{
	struct pgwire_startup s;
	struct err err = {0};
	int n = pgwire_startup_parse(str_mem(c->in.p + c->in_at, c->in.n - c->in_at), &s, &err);

	if (n == 0)
		return false;
	if (n < 0) {
		front_conn_fail(c, &err);
		return false;
	}
	c->in_at += (size_t)n;
	switch (s.kind) {
	case PGWIRE_STARTUP_SSL: on_ssl(c); break;
	case PGWIRE_STARTUP_GSS: on_gss(c); break;
	/* A cancel gets no answer, whether or not it hits anything. */
	case PGWIRE_STARTUP_CANCEL: front_conn_end(c); break;
	case PGWIRE_STARTUP_V3: on_v3(c, &s); break;
	case PGWIRE_STARTUP_NONE: break;
	}
	return c->state == FRONT_START;
}

void
front_pg_opened(struct front_conn *c, const struct pgwire_param *params, size_t n)
{
	AUTO_BUF struct buf b = BUF(REPLY_MAX * 2);
	uint32_t key[2];

	if (c->state != FRONT_OPENING)
		return;
	/* A key of our own: the server's would be worth something to whoever guesses it. */
	rand_bytes(key, sizeof(key));
	pgwire_put_auth_ok(&b);
	for (size_t i = 0; i < n; i++)
		pgwire_put_parameter(&b, params[i].key, params[i].value);
	pgwire_put_key_data(&b, key[0] >> 1, key[1]);
	pgwire_put_ready(&b, 'I');
	front_conn_put(c, buf_str(&b), false);
	c->state = FRONT_READY;
	front_conn_started(c);
	front_conn_kick(c);
}

/* --- units ----------------------------------------------------------------------- */

/* Core is behind: the hub kicks this connection when it has caught up. */
static bool
core_busy(struct front_conn *c)
{
	if (c->hub->core == NULL || ipc_queued(c->hub->core) <= FRONT_CORE_HIGH)
		return false;
	c->hub->stalled = true;
	return true;
}

static void
act_send(struct front_conn *c, enum front_kind kind, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(bytes.n + 64);

	buf_u64(&b, c->id);
	buf_u64(&b, ++c->act);
	buf_u8(&b, (uint8_t)kind);
	buf_lstr(&b, bytes);
	front_hub_core(c->hub, MSG_PG_ACT, &b);
	c->kind = kind;
	c->got = c->want = 0;
	c->done = false;
	c->state = FRONT_ACT;
	buf_free(&c->unit);
	c->nunit = 0;
}

/* True: the message was consumed. */
typedef bool message_fn(struct front_conn *c, const struct pgwire_msg *m);

static bool
on_simple(struct front_conn *c, const struct pgwire_msg *m)
{
	if (core_busy(c))
		return false;
	if (c->nunit != 0) {
		act_send(c, FRONT_CUT, buf_str(&c->unit));
		return false;
	}
	act_send(c, FRONT_QUERY, m->whole);
	return true;
}

static bool
on_extended(struct front_conn *c, const struct pgwire_msg *m)
{
	if (c->nunit != 0 &&
	    (c->nunit >= PGWIRE_UNIT_MESSAGES || c->unit.n + m->whole.n > PGWIRE_UNIT_BYTES)) {
		if (!core_busy(c))
			act_send(c, FRONT_CUT, buf_str(&c->unit));
		return false;
	}
	buf_put_str(&c->unit, m->whole);
	c->nunit++;
	return true;
}

static bool
on_end(struct front_conn *c, const struct pgwire_msg *m)
{
	/* All that was sent before has been answered: there is nothing to flush. */
	if (m->type == 'H' && c->nunit == 0)
		return true;
	if (core_busy(c))
		return false;
	buf_put_str(&c->unit, m->whole);
	act_send(c, m->type == 'S' ? FRONT_SYNC : FRONT_FLUSH, buf_str(&c->unit));
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
on_copy(struct front_conn *c, const struct pgwire_msg *m)
{
	(void)c;
	(void)m;
	return true;
}

static bool
on_password(struct front_conn *c, const struct pgwire_msg *m)
{
	(void)m;
	front_conn_fatal(c, "08P01", "a password was sent that nobody asked for");
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
    {'d', on_copy},
    {'c', on_copy},
    {'f', on_copy},
    {'p', on_password},
};

static void
put_ready(struct front_conn *c)
{
	AUTO_BUF struct buf b = BUF(16);

	pgwire_put_ready(&b, c->txn);
	front_conn_put(c, buf_str(&b), false);
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
	if (c->unsynced && core_busy(c))
		return false;
	c->skip = false;
	if (c->unsynced)
		act_send(c, FRONT_SYNC, m->whole);
	else
		put_ready(c);
	return true;
}

/* False: more bytes are needed, or the state has changed. */
static bool
message(struct front_conn *c)
{
	struct pgwire_msg m;
	struct err err = {0};
	bool consumed = true, skip = c->skip;
	int rc = pgwire_next(
	    str_mem(c->in.p + c->in_at, c->in.n - c->in_at), PGWIRE_MESSAGE_MAX, &m, &err);

	if (rc == 0)
		return false;
	if (rc > 0)
		rc = pgwire_check_frontend(&m, &err);
	if (rc < 0) {
		front_conn_fail(c, &err);
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
	return consumed && c->state == FRONT_READY;
}

static const struct {
	enum front_state state;
	bool (*step)(struct front_conn *c);
} steps[] = {
    {FRONT_START, startup},
    {FRONT_READY, message},
};

void
front_pg_input(struct front_conn *c)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		while (c->state == steps[i].state && steps[i].step(c))
			;
	if (c->in_at == c->in.n) {
		/* An idle session needs no buffer. */
		if (c->in.cap > FRONT_OUT_LOW)
			buf_free(&c->in);
		else
			buf_reset(&c->in);
		c->in_at = 0;
	} else if (c->in_at != 0) {
		buf_drop(&c->in, c->in_at);
		c->in_at = 0;
	}
}

/* --- answers --------------------------------------------------------------------- */

void
front_pg_refused(struct front_conn *c, const struct front_refusal *r)
{
	AUTO_BUF struct buf b = BUF(REPLY_MAX);

	if (r->act == 0 ? c->state != FRONT_OPENING : c->state != FRONT_ACT || r->act != c->act)
		return;
	if (r->how == 0 || r->act == 0) {
		c->core_knows = false;
		front_conn_fatal_error(c, &r->e);
		return;
	}
	pgwire_put_error(&b, "ERROR", &r->e);
	front_conn_put(c, buf_str(&b), false);
	c->state = FRONT_READY;
	if (c->kind == FRONT_QUERY || (c->kind == FRONT_SYNC && !c->unsynced))
		put_ready(c);
	else
		c->skip = true;
	/* That unit's own Sync is gone with it, and the server still waits for one. */
	if (c->kind == FRONT_SYNC && c->unsynced) {
		AUTO_BUF struct buf sync = BUF(16);

		c->skip = false;
		pgwire_put_sync(&sync);
		act_send(c, FRONT_SYNC, buf_str(&sync));
	}
	front_conn_kick(c);
}

/* All of the answer is here and its outcome is on record. */
static void
complete(struct front_conn *c)
{
	struct str tail = buf_str(&c->hold);

	if (!c->done || c->got < c->want)
		return;
	if (c->got > c->want) {
		front_conn_fatal(c, "08006", "the answer is longer than what was recorded");
		return;
	}
	if (tail.n >= 6 && memcmp(tail.p + tail.n - 6, "Z\0\0\0\5", 5) == 0)
		c->txn = tail.p[tail.n - 1];
	front_conn_put(c, tail, true);
	if (c->state != FRONT_ACT)
		return;
	buf_free(&c->hold);
	c->unsynced = c->kind == FRONT_FLUSH || c->kind == FRONT_CUT;
	c->state = FRONT_READY;
	front_conn_kick(c);
}

void
front_pg_done(struct front_conn *c, uint64_t act, uint64_t bytes)
{
	if (c->state != FRONT_ACT || act != c->act)
		return;
	c->done = true;
	c->want = bytes;
	complete(c);
}

void
front_pg_data(struct front_conn *c, uint64_t act, bool hold, struct str bytes)
{
	bool ours = c->state == FRONT_ACT && act == c->act;

	if (c->state < FRONT_READY || (act != 0 && !ours))
		return;
	if (!hold && c->hold.n == 0) {
		front_conn_put(c, bytes, true);
	} else {
		buf_put_str(&c->hold, bytes);
		if (buf_over(&c->hold)) {
			front_conn_fatal(
			    c, "54000", "the answer is larger than 8 MiB can be held back");
			return;
		}
	}
	if (ours) {
		c->got += bytes.n;
		complete(c);
	}
}
