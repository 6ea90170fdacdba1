/*
 * How a PostgreSQL client begins: TLS, options, the session's opening. Runs in front on hostile
 * bytes.
 */
#include "broker/front_pg.h"

#include "common/hash.h"
#include "common/log.h"

#include "common/banned.h"

#define REPLY_MAX 65536
#define PID_MASK UINT64_C(0x7fffffff) /* positive, as libpq has it */
#define FRONT_CANCELS_MAX 50	      /* a second, on one listener */

static void
on_ssl(struct front_conn *c)
{
	if (c->pg->ssl_asked) {
		front_pg_last_words(c, "08P01", "a second SSLRequest on one connection");
		return;
	}
	c->pg->ssl_asked = true;
	/* Bytes in clear behind it would be taken for the client's own words (CVE-2021-23222). */
	if (front_conn_in(c).n != 0) {
		front_pg_last_words(c, "08P01", "received unencrypted data after SSL request");
		return;
	}
	/* The one byte goes in clear, with nothing behind it. */
	front_conn_secure(c, c->listener->host, STR("S"));
}

static void
on_gss(struct front_conn *c)
{
	if (c->pg->gss_asked || c->pg->ssl_asked) {
		front_pg_last_words(c, "08P01",
		    c->pg->ssl_asked ? "a GSSENCRequest after SSLRequest"
				     : "a second GSSENCRequest on one connection");
		return;
	}
	c->pg->gss_asked = true;
	front_pg_put(c, STR("N"), false);
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
	c->pg->core_knows = true;
	c->pg->state = FRONT_PG_OPENING;
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
		front_pg_last_words(
		    c, "28000", "no PostgreSQL user name specified in startup packet");
		return;
	}
	if (c->hub->core == NULL || c->hub->upstream == NULL) {
		front_pg_last_words(c, "57P03", "the broker is starting up");
		return;
	}
	if (!front_listen_count(c)) {
		front_pg_last_words(c, "53300", "the run has 1024 connections, which is the limit");
		return;
	}
	if (s->version != PGWIRE_V3 || s->noptions != 0) {
		pgwire_put_negotiate(&b, s->options, s->noptions);
		front_pg_put(c, buf_str(&b), false);
	}
	open_ask(c, s);
}

/* The process id in a client's key is the low part of its connection's number. */
static uint32_t
key_pid(uint64_t id)
{
	return (uint32_t)(id & PID_MASK);
}

static struct front_conn *
session_of(const struct front_conn *c, const struct pgwire_startup *s)
{
	uint64_t last = c->hub->last_id, id = (last & ~PID_MASK) | (s->cancel_pid & PID_MASK);
	struct front_conn *of =
	    front_conn_find(c->hub, id <= last ? id : id - PID_MASK - 1, &front_pg_proto);
	struct rd r = rd_init(s->cancel_key);
	uint32_t key = rd_u32(&r);

	if (of == NULL || of->listener != c->listener || !of->pg->core_knows ||
	    of->pg->state < FRONT_PG_READY || !rd_end(&r) || of->pg->key != key ||
	    s->cancel_pid != key_pid(of->id))
		return NULL;
	return of;
}

/* Guessing is slow: so many a second on one listener, and none of the others is looked at. */
static bool
too_many(struct front_listener *l)
{
	uint64_t now = loop_now_ms(l->hub->loop);

	if (now - l->cancels_since >= 1000) {
		l->cancels_since = now;
		l->cancels = 0;
	}
	return ++l->cancels > FRONT_CANCELS_MAX;
}

/* It gets no answer, whether or not it hits anything. */
static void
on_cancel(struct front_conn *c, const struct pgwire_startup *s)
{
	struct front_listener *l = c->listener;
	bool flood = too_many(l);
	const struct front_conn *of = flood ? NULL : session_of(c, s);

	if (of != NULL) {
		AUTO_BUF struct buf b = BUF(64);

		buf_u64(&b, of->id);
		front_hub_core(c->hub, MSG_PG_CANCEL, &b);
	} else if (!flood) {
		log_warn("run %s, target %s: a cancel request with the key of no session", l->run,
		    l->target);
	} else if (l->cancels == FRONT_CANCELS_MAX + 1) {
		log_warn("run %s, target %s: over %d cancel requests within a second", l->run,
		    l->target, FRONT_CANCELS_MAX);
	}
	front_conn_end(c);
}

bool
front_pg_startup(struct front_conn *c)
{
	struct pgwire_startup s;
	struct err err = {0};
	int n = pgwire_startup_parse(front_conn_in(c), &s, &err);

	if (n == 0)
		return false;
	if (n < 0) {
		front_pg_last_words(c, err_sqlstate(err.code), err.msg);
		return false;
	}
	c->in_at += (size_t)n;
	switch (s.kind) {
	case PGWIRE_STARTUP_SSL: on_ssl(c); break;
	case PGWIRE_STARTUP_GSS: on_gss(c); break;
	case PGWIRE_STARTUP_CANCEL: on_cancel(c, &s); break;
	case PGWIRE_STARTUP_V3: on_v3(c, &s); break;
	case PGWIRE_STARTUP_NONE: break;
	}
	return c->phase == FRONT_OPEN && c->pg->state == FRONT_PG_START;
}

void
front_pg_opened(
    struct front_conn *c, struct str receipt, const struct pgwire_param *params, size_t n)
{
	AUTO_BUF struct buf b = BUF(REPLY_MAX * 2);

	if (c->pg->state != FRONT_PG_OPENING)
		return;
	/* A key of our own: the server's would be worth something to whoever guesses it. */
	rand_bytes(&c->pg->key, sizeof(c->pg->key));
	pgwire_put_auth_ok(&b);
	for (size_t i = 0; i < n; i++)
		pgwire_put_parameter(&b, params[i].key, params[i].value);
	pgwire_put_key_data(&b, key_pid(c->id), c->pg->key);
	front_pg_put_receipt(&b, receipt);
	pgwire_put_ready(&b, 'I');
	front_pg_put(c, buf_str(&b), false);
	c->pg->state = FRONT_PG_READY;
	front_conn_deadline(c, 0);
	front_conn_kick(c);
}
