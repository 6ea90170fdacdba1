/*
 * A worker of serve.h: one connection, one request at a time, in a process of its own. All that it
 * reads comes from whoever connected; nothing is kept beyond its bounds and nothing waits for ever.
 */
#include "common/serve_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/clock.h"
#include "common/log.h"

#include "common/banned.h"

#define READ_CHUNK ((size_t)65536)
#define IN_MAX (2 * READ_CHUNK)
#define LINGER_MS 2000
#define DRAIN_MAX \
	((uint64_t)1 << 20) /* of a body that the handler left, read to keep the connection */

static volatile sig_atomic_t at_request, go_asked;

/* Told to make room: between requests at once, in one when it is answered. */
static void
on_term(int signo UNUSED)
{
	if (!at_request)
		_exit(0);
	go_asked = 1;
}

static uint64_t
in_ms(uint64_t ms)
{
	return clock_boot_us() + ms * 1000;
}

int
serve_conn_wait(struct serve_conn *c, bool read, uint64_t until_us, struct err *err)
{
	uint32_t want = tlsio_events(&c->io, read, !read);
	struct pollfd p = {.fd = c->io.fd,
	    .events = (short)(((want & EPOLLIN) != 0 ? POLLIN : 0) |
			      ((want & EPOLLOUT) != 0 ? POLLOUT : 0))};

	for (;;) {
		uint64_t now = clock_boot_us();
		int rc;

		if (now >= until_us)
			return err_set(err, ERR_TIMEOUT, "the client takes too long");
		rc = poll(&p, 1, (int)((until_us - now + 999) / 1000));
		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "poll");
	}
}

/* 1: something came; 0: nothing now (only without wait); else an error, ERR_UNAVAILABLE at the end
 * of the stream. */
static int
read_some(struct serve_conn *c, bool wait, uint64_t until_us, struct err *err)
{
	size_t room = c->in.max - c->in.n;
	uint8_t *p;
	ssize_t n;
	int rc;

	if (room > READ_CHUNK)
		room = READ_CHUNK;
	if (room == 0)
		return 1;
	for (;;) {
		p = buf_grow(&c->in, room);
		n = tlsio_read(&c->io, p, room, err);
		c->in.n -= room - (n > 0 ? (size_t)n : 0);
		if (n > 0)
			return 1;
		if (n != TLSIO_AGAIN) {
			c->dead = true;
			return err_set(err, ERR_UNAVAILABLE, "the client has gone");
		}
		if (!wait)
			return 0;
		if ((rc = serve_conn_wait(c, true, until_us, err)) != 0)
			return rc;
	}
}

/* --- the head ------------------------------------------------------------------------- */

/* 0 and *ret bytes of a head; ERR_UNAVAILABLE: the connection is to end without a word. */
static int
head_find(struct serve_conn *c, size_t *ret, struct err *err)
{
	uint64_t until = in_ms(c->in.n != 0 ? SERVE_REQUEST_MS : SERVE_IDLE_MS);
	size_t scanned = 0;
	bool empty_line = false, begun = c->in.n != 0;
	int rc;

	for (;;) {
		if (!empty_line && c->in.n >= 2 && memcmp(c->in.p, "\r\n", 2) == 0) {
			buf_drop(&c->in, 2); /* RFC 9112 2.2: one empty line in front */
			empty_line = true;
		}
		if ((rc = http_head_end(buf_str(&c->in), &scanned, ret, err)) != 0)
			return rc;
		if (*ret > SERVE_HEAD_MAX || (*ret == 0 && c->in.n > SERVE_HEAD_MAX))
			return err_set(
			    err, ERR_TOO_LARGE, "a head has up to %zu bytes", SERVE_HEAD_MAX);
		if (*ret != 0)
			return 0;
		rc = read_some(c, true, until, err);
		if (rc < 0)
			return rc == ERR_TIMEOUT && c->in.n == 0 ? ERR_UNAVAILABLE : rc;
		if (!begun)
			until = in_ms(SERVE_REQUEST_MS);
		begun = true;
	}
}

static unsigned
status_of(int code)
{
	if (code == ERR_TOO_LARGE)
		return 431;
	return code == ERR_TIMEOUT ? 408 : (unsigned)err_http(code);
}

/* False: answered if there was anything to answer, and the connection ends. */
static bool
head_read(struct serve_conn *c)
{
	struct err e = {0};
	size_t n = 0;
	int rc = head_find(c, &n, &e);

	if (rc == ERR_UNAVAILABLE || rc == ERR_SYSTEM)
		return false;
	if (rc == 0) {
		buf_reset(&c->head);
		buf_put(&c->head, c->in.p, n);
		buf_drop(&c->in, n);
		rc = http_request_parse(buf_str(&c->head), &c->rq, &e);
	}
	if (rc == 0 && (c->rq.form == HTTP_AUTHORITY || c->rq.upgrade))
		rc = err_set(&e, ERR_INVALID, "neither CONNECT nor Upgrade is served here");
	if (rc != 0) {
		serve_refuse(c, status_of(rc), e.msg);
		return false;
	}
	http_reader_init(&c->body, c->rq.body, c->rq.length);
	c->body_done = c->rq.body == HTTP_BODY_NONE;
	c->expects = c->rq.expect;
	c->last = !c->rq.keep_alive;
	return true;
}

/* --- the body ------------------------------------------------------------------------- */

int
serve_body_next(struct serve_conn *c, struct str *ret, struct err *err)
{
	int rc;

	*ret = STR("");
	if (c->dead)
		return err_set(err, ERR_UNAVAILABLE, "the client has gone");
	buf_drop(&c->in, c->used);
	c->used = 0;
	if (c->body_done)
		return 1;
	if (c->expects && c->in.n == 0 && (rc = serve_continue(c, err)) != 0)
		return rc;
	c->expects = false;
	for (;;) {
		struct str in = buf_str(&c->in);

		rc = http_reader_next(&c->body, &in, ret, err);
		if (rc < 0) {
			c->last = true;
			return rc;
		}
		c->used = c->in.n - in.n;
		c->body_done = rc == 1;
		if (rc == 1 || ret->n != 0)
			return rc;
		buf_drop(&c->in, c->used);
		c->used = 0;
		if ((rc = read_some(c, true, in_ms(SERVE_STALL_MS), err)) < 0) {
			c->last = true;
			return rc;
		}
	}
}

int
serve_body(struct serve_conn *c, size_t max, struct buf *ret, struct err *err)
{
	struct str part;
	size_t n = 0;
	int rc;

	if (c->rq.body == HTTP_BODY_LENGTH && c->rq.length > max) {
		c->last = true;
		return err_set(err, ERR_TOO_LARGE, "a body of %llu bytes, limit %zu",
		    (unsigned long long)c->rq.length, max);
	}
	do {
		if ((rc = serve_body_next(c, &part, err)) < 0)
			return rc;
		n += part.n;
		if (n > max) {
			c->last = true;
			return err_set(
			    err, ERR_TOO_LARGE, "a body over the limit of %zu bytes", max);
		}
		buf_put_str(ret, part);
	} while (rc == 0);
	return 0;
}

/* What the handler left of the body stands between this request and the next. */
static bool
body_drain(struct serve_conn *c)
{
	struct str part;
	uint64_t n = 0;
	int rc;

	if (c->expects && !c->body_done && c->in.n == 0)
		return false; /* it will not come now */
	do {
		rc = serve_body_next(c, &part, NULL);
		n += part.n;
	} while (rc == 0 && n <= DRAIN_MAX);
	buf_drop(&c->in, c->used);
	c->used = 0;
	return rc == 1;
}

/* --- what a handler may look at ------------------------------------------------------- */

const struct http_request *
serve_request(const struct serve_conn *c)
{
	return &c->rq;
}

struct str
serve_field_get(const struct serve_conn *c, const char *name)
{
	const struct http_field *f = http_field_find(c->rq.fields, c->rq.nfields, name);

	return f != NULL ? f->value : STR("");
}

const char *
serve_peer(const struct serve_conn *c)
{
	return c->peer;
}

const char *
serve_client(const struct serve_conn *c)
{
	return c->client;
}

int
serve_fd(const struct serve_conn *c)
{
	return c->io.fd;
}

bool
serve_gone(struct serve_conn *c)
{
	struct err e = {0};
	struct pollfd p = {.fd = c->io.fd, .events = POLLRDHUP};

	if (c->dead)
		return true;
	if (c->used == 0 && c->in.n < c->in.max)
		return read_some(c, false, 0, &e) < 0;
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* --- the connection ------------------------------------------------------------------- */

/* The address as text without port; which port; whether it is loopback. */
static void
name_put(const struct sockaddr_storage *a, char out[SERVE_ADDRESS_SIZE], uint16_t *port, bool *loop)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	out[0] = '\0';
	if (a->ss_family == AF_INET) {
		(void)inet_ntop(AF_INET, &v4->sin_addr, out, SERVE_ADDRESS_SIZE);
		*port = ntohs(v4->sin_port);
		*loop = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	} else if (a->ss_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &v6->sin6_addr, out, SERVE_ADDRESS_SIZE);
		*port = ntohs(v6->sin6_port);
		*loop = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	}
}

static void
names_find(struct serve_conn *c)
{
	struct sockaddr_storage a = {0}, b = {0};
	socklen_t na = sizeof(a), nb = sizeof(b);
	uint16_t port;
	bool loop;
	const int on = 1;

	if (getpeername(c->io.fd, (void *)&a, &na) == 0)
		name_put(&a, c->peer, &port, &loop);
	if (getsockname(c->io.fd, (void *)&b, &nb) == 0)
		name_put(&b, c->local, &c->port, &c->loopback);
	(void)setsockopt(c->io.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(c->io.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static bool
handshake(struct serve *s, struct serve_conn *c)
{
	uint64_t until = in_ms(SERVE_REQUEST_MS);
	struct err e = {0};
	int rc = 0;

	if (s->ctx == NULL)
		return true;
	serve_tls_begin(s->ctx, &c->io);
	while ((rc = tlsio_handshake(&c->io, &e)) == 0)
		if (serve_conn_wait(
			c, (tlsio_events(&c->io, true, false) & EPOLLIN) != 0, until, &e) != 0)
			return false;
	if (rc < 0) {
		log_debug("%s: %s", c->peer, e.msg);
		return false;
	}
	serve_tls_client(&c->io, c->client);
	return true;
}

/* A close with unread input would reset the stream before the peer read our last words. */
static void
linger(struct serve_conn *c)
{
	uint64_t until = in_ms(LINGER_MS);
	char waste[4096];

	tlsio_shut(&c->io);
	for (;;) {
		ssize_t n = read(c->io.fd, waste, sizeof(waste));

		if (n == 0 || (n < 0 && errno != EAGAIN))
			return;
		if (clock_boot_us() >= until ||
		    (n < 0 && serve_conn_wait(c, true, until, NULL) != 0))
			return;
	}
}

/* True: another may follow. */
static bool
request_serve(struct serve_conn *c, serve_fn *fn, void *arg)
{
	at_request = 1;
	c->slot->waits_us = 0;
	c->answered = c->streams = false;
	fn(arg, c);
	if (!c->answered)
		serve_refuse(c, 500, "no answer was made");
	buf_reset(&c->fields);
	if (c->streams) /* never ended: the client must see that it is not whole */
		c->dead = true;
	if (c->dead || c->last || go_asked || !body_drain(c))
		return false;
	c->slot->waits_us = clock_boot_us();
	at_request = 0;
	return go_asked == 0;
}

void
serve_conn_run(struct serve *s, struct serve_slot *slot, int fd, serve_fn *fn, void *arg)
{
	const struct sigaction act = {.sa_handler = on_term};
	static struct serve_conn c; /* large, and there is one of them */

	(void)sigaction(SIGTERM, &act, NULL);
	c.slot = slot;
	buf_init(&c.in, IN_MAX);
	buf_init(&c.head, SERVE_HEAD_MAX);
	buf_init(&c.fields, SERVE_HEAD_MAX);
	tlsio_init(&c.io, fd);
	names_find(&c);
	if (handshake(s, &c))
		while (head_read(&c) && request_serve(&c, fn, arg))
			;
	if (!c.dead)
		linger(&c);
	tlsio_close(&c.io);
	buf_free(&c.in);
	buf_free(&c.head);
	buf_free(&c.fields);
}
