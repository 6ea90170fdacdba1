/*
 * One connection to a server as a socket: addresses tried in turn, SSLRequest and TLS,
 * buffers, back-pressure, the end. Runs in upstream. A server is untrusted until TLS and SCRAM
 * have proved it, and bounded after: one message is held whole at most, rows never.
 */
#include "broker/upstream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "broker/upstream_act.h"
#include "broker/upstream_cancel.h"
#include "broker/upstream_copy.h"
#include "broker/upstream_tls.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define OUT_MAX ((size_t)4 << 20)
#define OUT_DROP ((size_t)256 << 10) /* written: taken out of the buffer */
#define READ_CHUNK ((size_t)64 << 10)

static void on_io(void *arg, uint32_t events);

/* --- life ------------------------------------------------------------------------ */

static void
socket_close(struct upstream_conn *c)
{
	loop_io_del(TAKE_PTR(c->ev));
	tlsio_close(&c->io);
}

static void
conn_free(struct upstream_conn *c)
{
	free(c->run);
	free(c->host);
	free(c->ca);
	secret_free(c->password);
	upstream_scram_free(c->scram);
	buf_free(&c->startup);
	buf_free(&c->binding);
	buf_free(&c->in);
	buf_free(&c->out);
	buf_free(&c->params);
	explicit_bzero(c->key, sizeof(c->key));
	free(c);
}

void
upstream_conn_bury(struct upstream_hub *h)
{
	struct upstream_conn *c;

	while ((c = LIST_FIRST(&h->dead)) != NULL) {
		LIST_REMOVE(c, link);
		conn_free(c);
	}
}

static void
tell_end(struct upstream_conn *c, const char *sqlstate, const char *message)
{
	AUTO_BUF struct buf b = BUF(4096);
	char text[1000];

	upstream_text(str_z(message), text, sizeof(text));
	buf_u64(&b, c->id);
	if (c->state == UP_READY) {
		buf_lz(&b, sqlstate);
		buf_lz(&b, text);
		upstream_hub_core(c->hub, MSG_U_GONE, &b);
		return;
	}
	buf_u8(&b, 0);
	buf_lz(&b, sqlstate);
	buf_lz(&b, text);
	buf_lz(&b, c->peer);
	buf_lz(&b, c->cert);
	buf_u32(&b, 0);
	upstream_hub_core(c->hub, MSG_U_OPENED, &b);
}

void
upstream_conn_end(struct upstream_conn *c, const char *sqlstate, const char *message)
{
	if (c->state == UP_DEAD)
		return;
	upstream_cancel_forget(c);
	upstream_act_lost(c, sqlstate, message);
	upstream_seal_flush(c->hub, c);
	if (sqlstate != NULL && !c->cancels)
		tell_end(c, sqlstate, message);
	if (c->state == UP_READY && sqlstate == NULL && c->out.n == c->out_at) {
		AUTO_BUF struct buf b = BUF(16);
		struct err err = {0};

		pgwire_put_terminate(&b);
		(void)tlsio_write(&c->io, b.p, b.n, &err);
	}
	c->state = UP_DEAD;
	resolve_cancel(TAKE_PTR(c->query));
	loop_timer_del(TAKE_PTR(c->timer));
	loop_timer_del(TAKE_PTR(c->again));
	socket_close(c);
	LIST_REMOVE(c, link);
	LIST_INSERT_HEAD(&c->hub->dead, c, link); /* a caller may still look at it */
	c->hub->nconns--;
	upstream_cancel_over(c, message);
}

static void
fail(struct upstream_conn *c, const struct err *err)
{
	upstream_conn_end(c, err_sqlstate(err->code), err->msg);
}

/* --- reading and writing --------------------------------------------------------- */

static void
watch(struct upstream_conn *c)
{
	bool want_read = c->state > UP_CONNECTING && !c->paused && !c->throttled;
	bool want_write = c->state == UP_CONNECTING || c->out.n != c->out_at;
	uint32_t ev;

	if (c->state == UP_DEAD || c->io.fd < 0)
		return;
	ev = tlsio_events(&c->io, want_read, want_write);
	/* Epoll tells a hang-up even to who asks for nothing: then not to be there at all. */
	if (ev == 0)
		loop_io_del(TAKE_PTR(c->ev));
	else if (c->ev == NULL)
		c->ev = loop_io_add(c->hub->loop, c->io.fd, ev, on_io, c);
	else
		loop_io_events(c->ev, ev);
}

static int
flush(struct upstream_conn *c, struct err *err)
{
	while (c->out_at != c->out.n) {
		ssize_t n = tlsio_write(&c->io, c->out.p + c->out_at, c->out.n - c->out_at, err);

		if (n == TLSIO_AGAIN)
			break;
		if (n < 0)
			return err->code;
		c->out_at += (size_t)n;
	}
	if (c->out_at == c->out.n) {
		buf_reset(&c->out);
		c->out_at = 0;
	} else if (c->out_at > OUT_DROP) {
		buf_drop(&c->out, c->out_at);
		c->out_at = 0;
	}
	return 0;
}

/* A failed write is left to the reading side: what the server said last comes first. */
void
upstream_conn_send(struct upstream_conn *c, struct str bytes)
{
	struct err err = {0};

	buf_put_str(&c->out, bytes);
	if (buf_over(&c->out)) {
		upstream_conn_end(c, "54000", "the server does not take what is sent to it");
		return;
	}
	if (flush(c, &err) != 0) {
		buf_reset(&c->out);
		c->out_at = 0;
	}
	watch(c);
}

static void
again(void *arg)
{
	struct upstream_conn *c = arg;

	c->again = NULL;
	on_io(c, EPOLLIN);
}

/* Handle what is buffered, then read until there is nothing or the turn is over. */
static int
pump(struct upstream_conn *c, struct err *err)
{
	size_t turn = 0;
	int rc = upstream_pg_pump(c, err);

	while (rc == 0 && c->state != UP_DEAD && !c->paused && !c->throttled) {
		uint8_t *room;
		ssize_t n;

		if (turn >= UPSTREAM_TURN_BYTES) {
			if (c->again == NULL)
				c->again = loop_timer_add(c->hub->loop, 0, again, c);
			break;
		}
		room = buf_grow(&c->in, READ_CHUNK);
		if (room == NULL)
			return err_set(err, ERR_TOO_LARGE, "a server message over %zu bytes",
			    UPSTREAM_MESSAGE_MAX);
		n = tlsio_read(&c->io, room, READ_CHUNK, err);
		c->in.n -= READ_CHUNK - (n > 0 ? (size_t)n : 0);
		if (n == TLSIO_AGAIN)
			break;
		if (n == 0)
			return err_set(
			    err, ERR_UPSTREAM, "the server closed the connection unexpectedly");
		if (n < 0)
			return err->code;
		turn += (size_t)n;
		rc = upstream_pg_pump(c, err);
	}
	if (c->state != UP_DEAD)
		upstream_act_flush(c);
	return rc;
}

void
upstream_conn_resume(struct upstream_conn *c)
{
	c->throttled = false;
	if (c->again == NULL && c->state >= UP_AUTH)
		c->again = loop_timer_add(c->hub->loop, 0, again, c);
}

void
upstream_conn_pause(struct upstream_conn *c, bool on)
{
	if (c->paused == on)
		return;
	c->paused = on;
	if (!on)
		upstream_conn_resume(c);
	watch(c);
}

/* --- the way there --------------------------------------------------------------- */

/* TLS, or none was asked for: from here on it is PostgreSQL. */
static void
go_auth(struct upstream_conn *c)
{
	c->state = c->cancels ? UP_CANCELLING : UP_AUTH;
	c->said = true;
	upstream_conn_send(c, buf_str(&c->startup));
	buf_free(&c->startup);
}

static int
do_handshake(struct upstream_conn *c, struct err *err)
{
	int rc = tlsio_handshake(&c->io, err);

	if (rc < 0) {
		upstream_tls_explain(c->io.ssl, c->host, err);
		return err->code;
	}
	if (rc == 0)
		return 0;
	rc = upstream_tls_peer(c->io.ssl, c->cert, &c->binding, err);
	if (rc == 0)
		go_auth(c);
	return rc;
}

/*
 * One byte is read and no more: what somebody put behind it in clear stays in the socket and
 * breaks the handshake instead of being taken for the server's (CVE-2021-23222).
 */
static int
do_ssl_answer(struct upstream_conn *c, struct err *err)
{
	struct ssl_st *ssl = NULL;
	char answer;
	ssize_t n = tlsio_read(&c->io, &answer, 1, err);
	int rc;

	if (n == TLSIO_AGAIN)
		return 0;
	if (n < 0)
		return err->code;
	if (n == 0)
		return err_set(
		    err, ERR_UPSTREAM, "the server closed the connection when asked for TLS");
	if (answer != 'S')
		return err_set(
		    err, ERR_UPSTREAM, "the server does not offer TLS, which the target requires");
	rc = upstream_tls_new(str_z(c->ca), c->host, c->io.fd, &ssl, err);
	if (rc != 0)
		return rc;
	tlsio_start(&c->io, ssl);
	c->state = UP_HANDSHAKE;
	return do_handshake(c, err);
}

static int
do_connected(struct upstream_conn *c, struct err *err)
{
	int e = 0, one = 1;
	socklen_t len = sizeof(e);

	if (getsockopt(c->io.fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0)
		e = errno;
	if (e != 0) {
		(void)err_sys(err, ERR_UPSTREAM, e, "cannot connect to %s", c->peer);
		upstream_conn_next(c, err);
		return err->code;
	}
	(void)setsockopt(c->io.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(c->io.fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (!c->tls) {
		go_auth(c);
		return 0;
	}
	c->state = UP_SSL_ASKED;
	{
		AUTO_BUF struct buf b = BUF(8);

		pgwire_put_ssl_request(&b);
		upstream_conn_send(c, buf_str(&b));
	}
	return 0;
}

void
upstream_conn_next(struct upstream_conn *c, struct err *err)
{
	while (c->addr < c->naddrs) {
		const struct resolve_addr *a = &c->addrs[c->addr++];
		int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		socket_close(c);
		resolve_text(a, c->peer, sizeof(c->peer));
		if (fd < 0) {
			(void)err_sys(err, ERR_UPSTREAM, errno, "socket for %s", c->peer);
			continue;
		}
		tlsio_init(&c->io, fd);
		if (connect(fd, (const struct sockaddr *)&a->sa, a->len) == 0 ||
		    errno == EINPROGRESS) {
			err_clear(err);
			c->state = UP_CONNECTING;
			watch(c);
			return;
		}
		(void)err_sys(err, ERR_UPSTREAM, errno, "cannot connect to %s", c->peer);
	}
}

static void
on_io(void *arg, uint32_t events)
{
	struct upstream_conn *c = arg;
	struct err err = {0};
	int rc = 0;

	(void)events;
	if (c->state > UP_CONNECTING && flush(c, &err) != 0) {
		buf_reset(&c->out);
		c->out_at = 0;
		err_clear(&err);
	}
	switch (c->state) {
	case UP_NONE:
	case UP_RESOLVING:
	case UP_DEAD: break;
	case UP_CONNECTING: rc = do_connected(c, &err); break;
	case UP_SSL_ASKED: rc = do_ssl_answer(c, &err); break;
	case UP_HANDSHAKE: rc = do_handshake(c, &err); break;
	case UP_CANCELLING: rc = upstream_cancel_read(c, &err); break;
	case UP_AUTH:
	case UP_STARTING:
	case UP_READY: rc = pump(c, &err); break;
	}
	if (rc != 0 && c->state != UP_DEAD)
		fail(c, &err);
	if (c->state == UP_READY)
		upstream_copy_more(c);
	watch(c);
}

static void
on_addresses(void *arg, const struct resolve_addr *addrs, size_t n, const char *why)
{
	struct upstream_conn *c = arg;
	struct err err = {0};

	c->query = NULL;
	for (c->naddrs = 0; c->naddrs < n && c->naddrs < RESOLVE_ADDRS_MAX; c->naddrs++)
		c->addrs[c->naddrs] = addrs[c->naddrs];
	if (n == 0)
		(void)err_set(&err, ERR_UPSTREAM, "host %s cannot be resolved: %s", c->host, why);
	else
		upstream_conn_next(c, &err);
	if (err.code != 0)
		fail(c, &err);
}

static void
on_timeout(void *arg)
{
	struct upstream_conn *c = arg;
	struct err err = {0};

	c->timer = NULL;
	(void)err_set(&err, ERR_UPSTREAM, "no connection to %s within %d s",
	    c->peer[0] != '\0' ? c->peer : c->host, UPSTREAM_OPEN_MS / 1000);
	fail(c, &err);
}

static int
open_check(const struct upstream_hub *h, const struct upstream_open *o, struct err *err)
{
	if (h->front == NULL)
		return err_set(err, ERR_UNAVAILABLE, "no wire to front");
	if (h->nconns >= UPSTREAM_CONNS_MAX)
		return err_set(err, ERR_UNAVAILABLE,
		    "%zu connections to servers are open, limit %d", h->nconns, UPSTREAM_CONNS_MAX);
	if (o->tls > 1)
		return err_set(err, ERR_UNSUPPORTED, "tls mode %u: only 0 and 1 are known", o->tls);
	if (o->port == 0 || o->port > 65535)
		return err_set(err, ERR_CONFIG, "port %u, must be 1 to 65535", o->port);
	if (o->host.n == 0 || o->host.n > 253 || memchr(o->host.p, 0, o->host.n) != NULL)
		return err_set(err, ERR_CONFIG, "host has %zu bytes, must be 1 to 253", o->host.n);
	return 0;
}

struct upstream_conn *
upstream_conn_new(struct upstream_hub *h, const struct upstream_open *o)
{
	struct upstream_conn *c = xcalloc(1, sizeof(*c));

	c->hub = h;
	c->id = o->id;
	c->run = str_dup(o->run);
	c->host = str_dup(o->host);
	c->ca = str_dup(o->ca);
	c->port = (uint16_t)o->port;
	c->tls = o->tls == 1;
	c->password = secret_copy(o->secret);
	tlsio_init(&c->io, -1);
	buf_init(&c->startup, 65536);
	buf_init(&c->binding, 64);
	buf_init(&c->in, UPSTREAM_IN_MAX);
	buf_init(&c->out, OUT_MAX);
	buf_init(&c->params, 60000);
	c->txn = 'I';
	return c;
}

int
upstream_conn_open(struct upstream_hub *h, const struct upstream_open *o, struct err *err)
{
	AUTO_FREE char *address = str_dup(o->address);
	struct upstream_conn *c;
	int rc = open_check(h, o, err);

	if (rc != 0)
		return rc;
	c = upstream_conn_new(h, o);
	if (address[0] != '\0' && !resolve_numeric(address, c->port, &c->addrs[0])) {
		rc = err_set(err, ERR_CONFIG, "address \"%s\" is not numeric", address);
		conn_free(c);
		return rc;
	}
	rc = upstream_auth_startup(c, o, err);
	if (rc != 0) {
		conn_free(c);
		return rc;
	}
	c->state = UP_RESOLVING;
	LIST_INSERT_HEAD(&h->conns[(o->id ^ o->id >> 32) % UPSTREAM_BUCKETS], c, link);
	h->nconns++;
	c->timer = loop_timer_add(h->loop, UPSTREAM_OPEN_MS, on_timeout, c);
	c->query = resolver_ask(
	    h->resolver, address[0] != '\0' ? address : c->host, c->port, on_addresses, c);
	return 0;
}
