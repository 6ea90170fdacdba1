/*
 * One client's connection as a socket: reading up to a bound, writing with back-pressure to the
 * server, TLS, and an end that lets the client read why. Runs in front; the client is hostile.
 */
#include "broker/front.h"

#include <errno.h>

#include "broker/front_tls.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define READ_CHUNK ((size_t)32 << 10)

static void on_io(void *arg, uint32_t events);

static struct front_conns *
bucket(struct front_hub *h, uint64_t id)
{
	return &h->conns[(id ^ id >> 32) % FRONT_BUCKETS];
}

struct front_conn *
front_conn_find(struct front_hub *h, uint64_t id)
{
	struct front_conn *c;

	LIST_FOREACH (c, bucket(h, id), link)
		if (c->id == id)
			return c;
	return NULL;
}

/* --- life ------------------------------------------------------------------------ */

static void
conn_free(struct front_conn *c)
{
	buf_free(&c->in);
	buf_free(&c->out);
	buf_free(&c->unit);
	buf_free(&c->hold);
	free(c);
}

/* From here on it counts for nothing: core is told once, the listener forgets it. */
static void
detach(struct front_conn *c)
{
	if (c->core_knows) {
		AUTO_BUF struct buf b = BUF(64);

		buf_u64(&b, c->id);
		front_hub_core(c->hub, MSG_PG_CLOSE, &b);
		c->core_knows = false;
	}
	if (c->listener == NULL)
		return;
	c->listener->sockets--;
	if (c->counted)
		c->listener->sessions--;
	c->listener = NULL;
}

void
front_conn_end(struct front_conn *c)
{
	if (c->state == FRONT_DEAD)
		return;
	detach(c);
	c->state = FRONT_DEAD;
	loop_timer_del(TAKE_PTR(c->timer));
	loop_io_del(TAKE_PTR(c->ev));
	tlsio_close(&c->io);
	LIST_REMOVE(c, link);
	front_hub_queue(c);
}

static void
on_timeout(void *arg)
{
	struct front_conn *c = arg;

	c->timer = NULL;
	if (c->state == FRONT_CLOSING)
		front_conn_end(c);
	else
		front_conn_fatal(c, "08006", "start-up took longer than 60 s");
}

void
front_conn_new(struct front_listener *l, int fd)
{
	struct front_conn *c = xcalloc(1, sizeof(*c));

	c->hub = l->hub;
	c->listener = l;
	l->sockets++;
	c->id = ++l->hub->last_id;
	c->state = FRONT_START;
	c->txn = 'I';
	tlsio_init(&c->io, fd);
	buf_init(&c->in, FRONT_IN_MAX);
	buf_init(&c->out, FRONT_OUT_MAX);
	buf_init(&c->unit, PGWIRE_MESSAGE_MAX + PGWIRE_UNIT_BYTES);
	buf_init(&c->hold, PGWIRE_HOLD_MAX);
	LIST_INSERT_HEAD(bucket(l->hub, c->id), c, link);
	c->timer = loop_timer_add(l->hub->loop, FRONT_STARTUP_MS, on_timeout, c);
	c->ev = loop_io_add(l->hub->loop, fd, EPOLLIN, on_io, c);
}

void
front_conn_started(struct front_conn *c)
{
	loop_timer_del(TAKE_PTR(c->timer));
}

/* --- events ---------------------------------------------------------------------- */

static bool
reads(const struct front_conn *c)
{
	switch (c->state) {
	case FRONT_START:
	case FRONT_HANDSHAKE:
	case FRONT_CLOSING: return true;
	case FRONT_OPENING:
	case FRONT_READY:
	case FRONT_ACT: return !c->blocked;
	case FRONT_LEAF: /* what comes now belongs to the handshake */
	case FRONT_NONE:
	case FRONT_DEAD: break;
	}
	return false;
}

static void
watch(struct front_conn *c)
{
	bool writes = c->out_at != c->out.n && c->state != FRONT_HANDSHAKE;
	uint32_t ev;

	if (c->state == FRONT_DEAD)
		return;
	ev = tlsio_events(&c->io, reads(c), writes);
	/* Epoll tells a hang-up even to who asks for nothing: then not to be there at all. */
	if (ev == 0)
		loop_io_del(TAKE_PTR(c->ev));
	else if (c->ev == NULL)
		c->ev = loop_io_add(c->hub->loop, c->io.fd, ev, on_io, c);
	else
		loop_io_events(c->ev, ev);
}

static void
pause_server(struct front_conn *c, bool on)
{
	AUTO_BUF struct buf b = BUF(64);

	c->paused = on;
	buf_u64(&b, c->id);
	buf_u8(&b, on);
	front_hub_upstream(c->hub, MSG_FU_PAUSE, &b);
}

/* False: the client is gone. */
static bool
flush(struct front_conn *c)
{
	struct err err = {0};

	while (c->out_at != c->out.n && c->state != FRONT_HANDSHAKE) {
		ssize_t n = tlsio_write(&c->io, c->out.p + c->out_at, c->out.n - c->out_at, &err);

		if (n == TLSIO_AGAIN)
			break;
		if (n < 0)
			return false;
		c->out_at += (size_t)n;
	}
	if (c->out_at == c->out.n) {
		buf_reset(&c->out);
		c->out_at = 0;
	} else if (c->out_at > FRONT_OUT_HIGH) {
		buf_drop(&c->out, c->out_at);
		c->out_at = 0;
	}
	return true;
}

void
front_conn_service(struct front_conn *c)
{
	if (c->state != FRONT_DEAD && (buf_over(&c->out) || !flush(c)))
		front_conn_end(c);
	if (c->state == FRONT_DEAD) {
		if (c->queued)
			TAILQ_REMOVE(&c->hub->dirty, c, queue);
		conn_free(c);
		return;
	}
	if (c->paused && c->out.n - c->out_at < FRONT_OUT_LOW)
		pause_server(c, false);
	if (c->state == FRONT_CLOSING && c->out.n == 0 && !c->shut) {
		/* A close with unread input would reset the stream, and the client never read why.
		 */
		c->shut = true;
		tlsio_shut(&c->io);
	}
	watch(c);
}

void
front_conn_put(struct front_conn *c, struct str bytes, bool from_server)
{
	if (c->state == FRONT_DEAD || c->state == FRONT_CLOSING)
		return;
	if (from_server && !pgwire_track_add(&c->track, bytes)) {
		front_conn_end(c);
		return;
	}
	buf_put_str(&c->out, bytes);
	if (!c->paused && c->out.n - c->out_at > FRONT_OUT_HIGH)
		pause_server(c, true);
	front_hub_queue(c);
}

void
front_conn_fatal_error(struct front_conn *c, const struct pgwire_error *e)
{
	AUTO_BUF struct buf b = BUF(65536);

	if (c->state == FRONT_DEAD || c->state == FRONT_CLOSING)
		return;
	/* In the middle of a message, or of a handshake, no error can be told. */
	if (c->state == FRONT_HANDSHAKE || !pgwire_track_boundary(&c->track)) {
		front_conn_end(c);
		return;
	}
	pgwire_put_error(&b, "FATAL", e);
	front_conn_put(c, buf_str(&b), false);
	detach(c);
	c->state = FRONT_CLOSING;
	loop_timer_del(TAKE_PTR(c->timer));
	c->timer = loop_timer_add(c->hub->loop, FRONT_LINGER_MS, on_timeout, c);
	front_hub_queue(c);
}

void
front_conn_fatal(struct front_conn *c, const char *sqlstate, const char *message)
{
	struct pgwire_error e = {.sqlstate = str_z(sqlstate), .message = str_z(message)};

	front_conn_fatal_error(c, &e);
}

void
front_conn_fail(struct front_conn *c, const struct err *err)
{
	front_conn_fatal(c, err_sqlstate(err->code), err->msg);
}

/* --- reading --------------------------------------------------------------------- */

/* Until the socket has no more or the buffer is full. */
static void
read_more(struct front_conn *c)
{
	struct err err = {0};

	while (reads(c) && c->state != FRONT_HANDSHAKE && c->state != FRONT_CLOSING) {
		size_t room = c->in.max - c->in.n;
		uint8_t *p;
		ssize_t n;

		if (room > READ_CHUNK)
			room = READ_CHUNK;
		if (room == 0) {
			c->blocked = true;
			break;
		}
		p = buf_grow(&c->in, room);
		n = tlsio_read(&c->io, p, room, &err);
		c->in.n -= room - (n > 0 ? (size_t)n : 0);
		if (n == TLSIO_AGAIN)
			break;
		if (n <= 0) {
			front_conn_end(c);
			break;
		}
		front_pg_input(c);
	}
}

static void
handshake(struct front_conn *c)
{
	struct err err = {0};
	int rc = tlsio_handshake(&c->io, &err);

	if (rc < 0) {
		log_info("run %s, target %s: %s", c->listener->run, c->listener->target, err.msg);
		front_conn_end(c);
		return;
	}
	if (rc == 1) {
		c->state = FRONT_START;
		read_more(c);
	}
}

void
front_conn_tls(struct front_conn *c)
{
	struct ssl_st *ssl = NULL;
	struct err err = {0};
	bool written;

	if (front_tls_accept(c->listener->ctx, c->io.fd, &ssl, &err) != 0) {
		front_conn_fail(c, &err);
		return;
	}
	/* The one byte goes in clear: nothing else is waiting to be written. */
	front_conn_put(c, STR("S"), false);
	written = flush(c) && c->out.n == 0;
	tlsio_start(&c->io, ssl);
	if (!written) {
		front_conn_end(c);
		return;
	}
	c->state = FRONT_HANDSHAKE;
	front_hub_queue(c);
}

/* After the end has been said: read and forget, so that the client gets to read it. */
static void
discard(struct front_conn *c)
{
	char waste[4096];

	for (int i = 0; i < 16; i++) {
		ssize_t n = read(c->io.fd, waste, sizeof(waste));

		if (n > 0)
			continue;
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			front_conn_end(c);
		break;
	}
}

void
front_conn_kick(struct front_conn *c)
{
	front_pg_input(c);
	if (c->blocked && c->in.n < c->in.max) {
		c->blocked = false;
		read_more(c);
	}
	front_hub_queue(c);
}

static void
on_io(void *arg, uint32_t events)
{
	struct front_conn *c = arg;

	(void)events;
	if (c->state == FRONT_CLOSING)
		discard(c);
	else if (c->state == FRONT_HANDSHAKE)
		handshake(c);
	else
		read_more(c);
	front_hub_queue(c);
}
