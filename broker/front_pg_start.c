/*
 * How a PostgreSQL client begins: TLS, options, the session's opening. Runs in front on hostile
 * bytes.
 */
#include "broker/front_pg.h"

#include "common/hash.h"

#include "common/banned.h"

#define REPLY_MAX 65536

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
	/* A cancel gets no answer, whether or not it hits anything. */
	case PGWIRE_STARTUP_CANCEL: front_conn_end(c); break;
	case PGWIRE_STARTUP_V3: on_v3(c, &s); break;
	case PGWIRE_STARTUP_NONE: break;
	}
	return c->phase == FRONT_OPEN && c->pg->state == FRONT_PG_START;
}

void
front_pg_opened(struct front_conn *c, const struct pgwire_param *params, size_t n)
{
	AUTO_BUF struct buf b = BUF(REPLY_MAX * 2);
	uint32_t key[2];

	if (c->pg->state != FRONT_PG_OPENING)
		return;
	/* A key of our own: the server's would be worth something to whoever guesses it. */
	rand_bytes(key, sizeof(key));
	pgwire_put_auth_ok(&b);
	for (size_t i = 0; i < n; i++)
		pgwire_put_parameter(&b, params[i].key, params[i].value);
	pgwire_put_key_data(&b, key[0] >> 1, key[1]);
	pgwire_put_ready(&b, 'I');
	front_pg_put(c, buf_str(&b), false);
	c->pg->state = FRONT_PG_READY;
	front_conn_deadline(c, 0);
	front_conn_kick(c);
}
