/*
 * A connection that speaks HTTP/1.1: its requests one after the other, its clocks and its end.
 * Runs in front on hostile bytes. Nothing is decided here: a head that reads in one way only goes
 * to core, and so does, as a fault, what is none. What comes behind a request stays in the buffer
 * until that one is answered and on record.
 */
#include "broker/front_http.h"

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define EMPTY_LINES_MAX 4 /* before a request (RFC 9112 2.2) */

static void
exchange_init(struct front_exchange *x)
{
	*x = (struct front_exchange){.memfd = -1};
	buf_init(&x->ask, (size_t)1 << 18);
	buf_init(&x->part, FRONT_HTTP_INLINE_MAX);
	buf_init(&x->held, FRONT_HTTP_HELD_MAX);
	buf_init(&x->receipt, 1024);
}

static void
exchange_free(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	front_http_body_free(c);
	buf_free(&x->ask);
	buf_free(&x->held);
	buf_free(&x->receipt);
}

/* --- requests, one after the other ----------------------------------------------- */

static void
skip_empty_lines(struct front_conn *c)
{
	struct front_http *h = c->http;

	while (h->scanned == 0 && h->empty < EMPTY_LINES_MAX &&
	       str_has_prefix(front_conn_in(c), "\r\n")) {
		c->in_at += 2;
		h->empty++;
	}
}

static void
head(struct front_conn *c)
{
	struct front_http *h = c->http;
	struct err err = {0};
	struct str in;
	size_t n = 0;

	if (c->paused)
		return; /* who does not read answers gets no more of them */
	skip_empty_lines(c);
	in = front_conn_in(c);
	if (in.n == 0)
		return;
	if (!h->heading)
		front_conn_deadline(c, c->hub->clocks.head);
	h->heading = true;
	if (front_hub_busy(c, c->hub->core))
		return;
	if (http_head_end(in, &h->scanned, &n, &err) != 0) {
		front_http_fault(c, err.msg, in);
		return;
	}
	if (n == 0)
		return;
	h->heading = false;
	h->empty = 0;
	front_conn_deadline(c, 0);
	if (!front_listen_count(c)) {
		front_http_problem(c, 503, "the run has 1024 connections, which is the limit");
		return;
	}
	c->in_at += n;
	front_http_request(c, (struct str){in.p, n});
}

void
front_http_next(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;
	bool last = x->last || !x->keep_alive || !x->whole;

	x->told = true;
	if (last) {
		front_conn_close(c);
		return;
	}
	exchange_free(c);
	exchange_init(x);
	c->http->state = FRONT_HTTP_HEAD;
	front_conn_deadline(c, c->hub->clocks.idle);
	front_conn_kick(c);
}

static void
input(struct front_conn *c)
{
	if (c->http->state == FRONT_HTTP_HEAD)
		head(c);
	if (c->phase == FRONT_OPEN &&
	    (c->http->state == FRONT_HTTP_BODY || c->http->state == FRONT_HTTP_ACT))
		front_http_body(c);
}

/* --- the connection's life --------------------------------------------------------- */

static void
start(struct front_conn *c)
{
	struct front_http *h = xcalloc(1, sizeof(*h));

	c->http = h;
	h->state = FRONT_HTTP_HEAD;
	h->tls = c->listener->kind == FRONT_HTTPS;
	h->proxy = c->listener->kind == FRONT_PROXY;
	h->loop = c->listener->kind == FRONT_LOOP;
	exchange_init(&h->x);
	front_conn_deadline(c, h->tls ? c->hub->clocks.startup : c->hub->clocks.idle);
	if (h->tls)
		front_conn_secure(c, c->listener->host, STR_NONE);
}

static void
http_free(struct front_conn *c)
{
	exchange_free(c);
	free(c->http->connect);
	free(c->http);
}

static bool
reads(const struct front_conn *c)
{
	/* What comes behind CONNECT belongs to the tunnel. */
	return c->http->state != FRONT_HTTP_CONNECT;
}

static void
secured(struct front_conn *c)
{
	c->http->tls = true;
	c->http->state = FRONT_HTTP_HEAD;
	front_conn_deadline(c, c->hub->clocks.idle);
}

static bool
can_speak(const struct front_conn *c)
{
	return c->phase == FRONT_OPEN && (!c->http->tls || c->io.ssl != NULL);
}

void
front_http_over(struct front_conn *c, const char *detail)
{
	if (!can_speak(c))
		front_conn_end(c);
	else if (c->http->state == FRONT_HTTP_HEAD || c->http->x.answered)
		front_conn_close(c); /* nobody waits for anything */
	else if (c->http->x.begun)
		front_http_cut(c);
	else
		front_http_problem(c, 503, detail);
}

bool
front_http_tunnels(const struct front_conn *c, struct str host, uint16_t port)
{
	const struct front_http *h = c->http;
	struct str own, label;

	if (h == NULL || h->connect == NULL || h->port != port)
		return false;
	own = str_z(h->host);
	if (!str_has_prefix(host, "*."))
		return str_eq(host, own);
	return str_cut(&own, '.', &label) && label.n != 0 &&
	       str_eq(own, str_mem(host.p + 2, host.n - 2));
}

static void
over(struct front_conn *c, enum front_why why)
{
	switch (why) {
	case FRONT_RUN_ENDED: front_http_over(c, "the run has ended"); break;
	case FRONT_CORE_LOST: front_http_over(c, "the broker restarts"); break;
	case FRONT_STOPPING: front_http_over(c, "the broker stops"); break;
	case FRONT_NO_LEAF:
		front_http_over(c, "the broker has no certificate for this host");
		break;
	case FRONT_REVOKED: front_http_over(c, "the target is not this run's any more"); break;
	case FRONT_UPSTREAM_LOST:
		/* Of what upstream does not know yet, core will say what becomes of it. */
		if (c->http->x.go)
			front_http_over(c, "the connection to the server was lost");
		break;
	}
}

static void
timeout(struct front_conn *c)
{
	if (!can_speak(c) || (c->http->state == FRONT_HTTP_HEAD && !c->http->heading))
		front_conn_end(c);
	else if (c->http->state == FRONT_HTTP_HEAD)
		front_http_problem(c, 408, "the head of the request took longer than 30 s");
	else
		front_http_problem(c, 408, "nothing of the request's body came for 60 s");
}

static void
tell_hold(struct front_conn *c, bool on)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, c->id);
	buf_u64(&b, c->http->act);
	buf_u8(&b, on);
	front_hub_upstream(c->hub, MSG_FU_HOLD, &b);
	c->http->x.held_up = on;
}

static void
hold_server(struct front_conn *c, bool on)
{
	struct front_exchange *x = &c->http->x;

	if (on ? x->headed && !x->ended : x->held_up)
		tell_hold(c, on);
	if (!on && c->phase == FRONT_OPEN)
		front_conn_kick(c);
}

static void
gone(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;
	AUTO_BUF struct buf b = BUF(64);

	front_http_body_free(c);
	if (!x->asked || x->told)
		return;
	x->told = true;
	buf_u64(&b, c->id);
	buf_u64(&b, c->http->act);
	front_hub_core(c->hub, MSG_H_CLOSE, &b);
}

const struct front_proto front_http_proto = {
    .alpn = "http/1.1",
    .sni = true,
    .in_max = FRONT_HTTP_IN_MAX,
    .stalls = true,
    .start = start,
    .free = http_free,
    .reads = reads,
    .input = input,
    .eof = front_http_stream_eof,
    .secured = secured,
    .over = over,
    .timeout = timeout,
    .pause = hold_server,
    .gone = gone,
};
