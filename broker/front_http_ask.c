/*
 * What core is told of a request: where it came in, which names were used, the head written anew
 * in origin form, and the body where that is short. Runs in front. Names are handed on as they
 * came, also where they disagree: core judges that, and records it.
 */
#include <stdio.h>

#include "broker/front_http.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define HTTP_PORT 80
#define HTTPS_PORT 443

/* --- H_ACT ------------------------------------------------------------------------ */

struct names {
	const char *host;
	uint16_t port;
	const char *fault;
};

/* As far as the head. */
static void
put_start(struct front_conn *c, const struct names *names, struct str head)
{
	struct front_http *h = c->http;
	struct buf *b = &h->x.ask;

	buf_u64(b, c->id);
	buf_u64(b, ++h->act);
	buf_u32(b, c->listener->id);
	buf_u8(b, h->tls);
	buf_lz(b, names->host);
	buf_u32(b, names->port);
	buf_lz(b, h->connect);
	buf_lz(b, c->peer.name);
	buf_lz(b, names->fault);
	buf_u32(b, (uint32_t)head.n);
	h->x.head_at = b->n;
	buf_put_str(b, head);
}

void
front_http_act(struct front_conn *c, uint8_t body, struct str inlined)
{
	struct front_http *h = c->http;
	struct front_exchange *x = &h->x;

	buf_u8(&x->ask, body);
	buf_u64(&x->ask, body == 1 ? inlined.n : body == 2 ? x->length : 0);
	buf_u8(&x->ask, x->expect);
	buf_lstr(&x->ask, inlined);
	front_hub_core(c->hub, MSG_H_ACT, &x->ask);
	buf_free(&x->ask);
	x->asked = true;
	h->state = FRONT_HTTP_ACT;
	front_conn_deadline(c, 0);
}

/* Where it came in says for whom it was meant, also if it does not. */
static struct names
likely(const struct front_conn *c)
{
	const struct front_listener *l = c->listener;

	if (c->http->connect != NULL)
		return (struct names){c->http->host, c->http->port, ""};
	if (l->kind == FRONT_HTTP || l->kind == FRONT_HTTPS)
		return (struct names){l->host, l->port, ""};
	return (struct names){"", 0, ""};
}

void
front_http_fault(struct front_conn *c, const char *why, struct str raw)
{
	struct front_exchange *x = &c->http->x;
	AUTO_BUF struct buf copy = BUF(FRONT_HTTP_RAW_MAX); /* raw may lie in x->ask */
	struct names names = likely(c);

	names.fault = why;
	buf_put(&copy, raw.p, raw.n < FRONT_HTTP_RAW_MAX ? raw.n : FRONT_HTTP_RAW_MAX);
	buf_reset(&x->ask);
	put_start(c, &names, buf_str(&copy));
	x->faulty = x->last = x->whole = true;
	x->expect = false;
	x->sink = FRONT_SINK_NONE;
	front_http_act(c, 0, STR_NONE);
}

/* --- a whole head ------------------------------------------------------------------ */

static char *
authority_text(const char *host, uint16_t port)
{
	bool v6 = strchr(host, ':') != NULL;
	AUTO_FREE char *name = xasprintf("%s%s%s", v6 ? "[" : "", host, v6 ? "]" : "");

	return port != 0 ? xasprintf("%s:%u", name, port) : TAKE_PTR(name);
}

static bool
put_head(struct front_conn *c, const struct http_request *r, const struct names *names)
{
	AUTO_BUF struct buf target = BUF(HTTP_TARGET_MAX + 2);
	AUTO_BUF struct buf b = BUF(HTTP_HEAD_MAX);

	buf_put_str(&target, r->path);
	if (r->has_query)
		buf_put_c(&target, '?');
	buf_put_str(&target, r->query);
	http_put_request(&b, r->method, buf_str(&target));
	if (r->minor == 0) /* which has no upgrades: core must know */
		b.p[b.n - STR("0\r\n").n] = '0';
	for (size_t i = 0; i < r->nfields; i++)
		http_put_field(&b, r->fields[i].name, r->fields[i].value);
	/* HTTP/1.0 may lack it where the target has the authority. */
	if (http_field_find(r->fields, r->nfields, "Host") == NULL) {
		AUTO_FREE char *host = authority_text(r->host, r->port);

		http_put_field(&b, STR("Host"), str_z(host));
	}
	http_put_end(&b);
	if (buf_over(&b))
		return false;
	put_start(c, names, buf_str(&b));
	return true;
}

/* The reason why such a request has no place on this connection; NULL: it has. */
static const char *
misplaced(const struct front_conn *c, const struct http_request *r)
{
	const struct front_http *h = c->http;

	switch (r->form) {
	case HTTP_AUTHORITY:
		if (!h->proxy)
			return "CONNECT is for the proxy";
		return front_conn_in(c).n != 0 ? "bytes behind CONNECT, before its answer" : NULL;
	case HTTP_ORIGIN:
	case HTTP_ASTERISK:
		return h->proxy ? "the proxy takes CONNECT and absolute targets only" : NULL;
	case HTTP_ABSOLUTE:
		if (h->loop || h->connect != NULL)
			return "an absolute target is for the proxy";
		if (h->proxy && r->tls)
			return "https:// is reached by CONNECT";
		return r->tls != h->tls ? "the target's scheme is not the connection's" : NULL;
	}
	return "no form of target";
}

static void
connect_ask(struct front_conn *c, const struct http_request *r)
{
	struct front_http *h = c->http;
	AUTO_BUF struct buf b = BUF(4096);

	(void)snprintf(h->host, sizeof(h->host), "%s", r->host);
	h->port = r->port;
	buf_u64(&b, c->id);
	buf_u32(&b, c->listener->id);
	buf_lz(&b, r->host);
	buf_u32(&b, r->port);
	buf_lstr(&b, r->target);
	front_hub_core(c->hub, MSG_H_CONNECT, &b);
	h->state = FRONT_HTTP_CONNECT;
}

/* Host and port that the request is for, as far as it says. */
static struct names
authority(const struct front_conn *c, const struct http_request *r)
{
	const struct front_http *h = c->http;
	uint16_t standard = h->tls || h->loop ? HTTPS_PORT : HTTP_PORT;

	if (h->connect != NULL)
		return (struct names){h->host, h->port, ""};
	return (struct names){r->host, r->port != 0 ? r->port : standard, ""};
}

static void
body_begin(struct front_conn *c, const struct http_request *r)
{
	struct front_exchange *x = &c->http->x;

	x->body = r->body;
	x->length = r->length;
	http_reader_init(&x->reader, r->body, r->length);
	x->whole = r->body == HTTP_BODY_NONE;
	if (r->body == HTTP_BODY_NONE) {
		front_http_act(c, 0, STR_NONE);
	} else if (r->body == HTTP_BODY_LENGTH && !r->expect &&
		   r->length <= FRONT_HTTP_INLINE_MAX) {
		x->sink = FRONT_SINK_INLINE;
		x->most = FRONT_HTTP_INLINE_MAX;
		c->http->state = FRONT_HTTP_BODY;
	} else if (r->body == HTTP_BODY_LENGTH || r->expect) {
		front_http_act(c, r->body == HTTP_BODY_LENGTH ? 2 : 3, STR_NONE);
	} else {
		c->http->state = FRONT_HTTP_BODY;
	}
}

void
front_http_request(struct front_conn *c, struct str head)
{
	struct front_exchange *x = &c->http->x;
	struct http_request r;
	struct err err = {0};
	struct names names;
	const char *why;
	int rc = http_request_parse(head, &r, &err);

	if (rc != 0) {
		front_http_fault(c, err.msg, head);
		return;
	}
	x->minor = r.minor;
	x->to_head = str_eqz(r.method, "HEAD");
	x->keep_alive = r.keep_alive;
	x->expect = r.expect;
	why = misplaced(c, &r);
	if (why != NULL) {
		front_http_fault(c, why, head);
		return;
	}
	if (r.form == HTTP_AUTHORITY) {
		x->whole = true;
		connect_ask(c, &r);
		return;
	}
	names = authority(c, &r);
	if (!put_head(c, &r, &names))
		front_http_fault(c, "head: more than 65536 bytes", head);
	else
		body_begin(c, &r);
}

void
front_http_connected(struct front_conn *c, struct str host)
{
	struct front_http *h = c->http;

	if (h->state != FRONT_HTTP_CONNECT || !str_eqz(host, h->host))
		return;
	h->connect = authority_text(h->host, h->port);
	h->proxy = false;
	front_conn_deadline(c, c->hub->clocks.startup);
	front_conn_secure(c, h->host, STR("HTTP/1.1 200 Connection established\r\n\r\n"));
}
