/*
 * One client's connection as a socket: reading up to a bound, writing with back-pressure to the
 * server, TLS, and an end that lets the client read why. Runs in front; the client is hostile.
 * What the bytes mean is the business of struct front_proto.
 */
#include "broker/front.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define READ_CHUNK ((size_t)32 << 10)
#define READS_PER_TURN 16 /* then others have their turn */

static void on_io(void *arg, uint32_t events);
static void on_timer(void *arg);

static struct front_conns *
bucket(struct front_hub *h, uint64_t id)
{
	return &h->conns[(id ^ id >> 32) % FRONT_BUCKETS];
}

struct front_conn *
front_conn_find(struct front_hub *h, uint64_t id, const struct front_proto *proto)
{
	struct front_conn *c;

	LIST_FOREACH (c, bucket(h, id), link)
		if (c->id == id)
			return c->proto == proto && c->phase != FRONT_CLOSING ? c : NULL;
	return NULL;
}

struct str
front_conn_in(const struct front_conn *c)
{
	return str_mem(c->in.p + c->in_at, c->in.n - c->in_at);
}

/* --- timers ---------------------------------------------------------------------- */

/* When a client that does not read is given up; 0: never. */
static uint64_t
stalled_at(const struct front_conn *c)
{
	if (!c->proto->stalls || c->out.n == c->out_at)
		return 0;
	return c->moved + c->hub->clocks.stall;
}

/* One timer for both; it is set anew only where it would come too late. */
static void
arm(struct front_conn *c)
{
	uint64_t at = c->deadline, stall = stalled_at(c), now = loop_now_ms(c->hub->loop);

	if (stall != 0 && (at == 0 || at > stall))
		at = stall;
	if (at == 0 || c->phase == FRONT_DEAD || (c->timer != NULL && c->fires <= at))
		return;
	loop_timer_del(c->timer);
	c->fires = at;
	c->timer = loop_timer_add(c->hub->loop, at > now ? at - now : 0, on_timer, c);
}

static void
on_timer(void *arg)
{
	struct front_conn *c = arg;
	uint64_t now = loop_now_ms(c->hub->loop), stall = stalled_at(c);

	c->timer = NULL;
	if (stall != 0 && now >= stall) {
		front_conn_end(c);
	} else if (c->deadline != 0 && now >= c->deadline) {
		c->deadline = 0;
		if (c->phase == FRONT_CLOSING)
			front_conn_end(c);
		else
			c->proto->timeout(c);
	}
	arm(c);
}

void
front_conn_deadline(struct front_conn *c, uint64_t ms)
{
	c->deadline = ms != 0 ? loop_now_ms(c->hub->loop) + ms : 0;
	arm(c);
}

/* --- life ------------------------------------------------------------------------ */

static void
conn_free(struct front_conn *c)
{
	c->proto->free(c);
	buf_free(&c->in);
	buf_free(&c->out);
	front_tls_peer_free(&c->peer);
	free(c);
}

/* From here on it counts for nothing: core is told once, the listener forgets it. */
static void
detach(struct front_conn *c)
{
	if (c->listener == NULL)
		return;
	c->proto->gone(c);
	c->listener->sockets--;
	if (c->counted)
		c->listener->sessions--;
	c->listener = NULL;
}

void
front_conn_end(struct front_conn *c)
{
	if (c->phase == FRONT_DEAD)
		return;
	detach(c);
	c->phase = FRONT_DEAD;
	loop_timer_del(TAKE_PTR(c->timer));
	loop_io_del(TAKE_PTR(c->ev));
	tlsio_close(&c->io);
	LIST_REMOVE(c, link);
	front_hub_queue(c);
}

void
front_conn_close(struct front_conn *c)
{
	if (c->phase == FRONT_DEAD || c->phase == FRONT_CLOSING)
		return;
	/* In the middle of a handshake nothing can be told. */
	if (c->phase == FRONT_HANDSHAKE) {
		front_conn_end(c);
		return;
	}
	detach(c);
	c->phase = FRONT_CLOSING;
	front_conn_deadline(c, c->proto->stalls ? 0 : c->hub->clocks.linger);
	front_hub_queue(c);
}

void
front_conn_new(struct front_listener *l, int fd)
{
	struct front_conn *c = xcalloc(1, sizeof(*c));

	c->hub = l->hub;
	c->listener = l;
	c->proto = l->proto;
	l->sockets++;
	c->id = ++l->hub->last_id;
	c->phase = FRONT_OPEN;
	tlsio_init(&c->io, fd);
	buf_init(&c->in, c->proto->in_max);
	buf_init(&c->out, FRONT_OUT_MAX);
	LIST_INSERT_HEAD(bucket(l->hub, c->id), c, link);
	c->ev = loop_io_add(l->hub->loop, fd, EPOLLIN, on_io, c);
	c->proto->start(c);
	front_hub_queue(c);
}

/* --- writing --------------------------------------------------------------------- */

static bool
reads(const struct front_conn *c)
{
	switch (c->phase) {
	case FRONT_HANDSHAKE:
	case FRONT_CLOSING: return true;
	case FRONT_OPEN: return !c->blocked && !c->ended && c->proto->reads(c);
	case FRONT_LEAF:
	case FRONT_CLEAR:
	case FRONT_DEAD: break;
	}
	return false;
}

static void
watch(struct front_conn *c)
{
	bool writes = c->out_at != c->out.n && c->phase != FRONT_HANDSHAKE;
	uint32_t ev;

	if (c->phase == FRONT_DEAD)
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

/* False: the client is gone. */
static bool
flush(struct front_conn *c)
{
	struct err err = {0};

	while (c->out_at != c->out.n && c->phase != FRONT_HANDSHAKE) {
		ssize_t n = tlsio_write(&c->io, c->out.p + c->out_at, c->out.n - c->out_at, &err);

		if (n == TLSIO_AGAIN)
			break;
		if (n < 0)
			return false;
		c->out_at += (size_t)n;
		c->moved = loop_now_ms(c->hub->loop);
	}
	if (c->out_at == c->out.n) {
		/* An idle connection needs no buffer. */
		if (c->out.cap > FRONT_OUT_LOW)
			buf_free(&c->out);
		else
			buf_reset(&c->out);
		c->out_at = 0;
	} else if (c->out_at > FRONT_OUT_HIGH) {
		buf_drop(&c->out, c->out_at);
		c->out_at = 0;
	}
	arm(c);
	return true;
}

static void
handshake_start(struct front_conn *c)
{
	struct ssl_st *ssl = NULL;
	struct err err = {0};

	if (front_tls_accept(&c->peer, c->io.fd, &ssl, &err) != 0) {
		log_error("run %s, host %s: %s", c->listener->run, c->peer.host, err.msg);
		front_conn_end(c);
		return;
	}
	tlsio_start(&c->io, ssl);
	c->phase = FRONT_HANDSHAKE;
}

static void
closing(struct front_conn *c)
{
	if (c->phase != FRONT_CLOSING || c->out.n != 0 || c->shut)
		return;
	/* A close with unread input would reset the stream, and the client never read why. */
	c->shut = true;
	tlsio_shut(&c->io);
	front_conn_deadline(c, c->hub->clocks.linger);
}

void
front_conn_service(struct front_conn *c)
{
	if (c->phase != FRONT_DEAD && (buf_over(&c->out) || !flush(c)))
		front_conn_end(c);
	if (c->phase == FRONT_CLEAR && c->out.n == 0)
		handshake_start(c);
	if (c->phase == FRONT_DEAD) {
		if (c->queued)
			TAILQ_REMOVE(&c->hub->dirty, c, queue);
		conn_free(c);
		return;
	}
	if (c->paused && c->out.n - c->out_at < FRONT_OUT_LOW) {
		c->paused = false;
		if (c->listener != NULL)
			c->proto->pause(c, false);
	}
	closing(c);
	watch(c);
}

void
front_conn_put(struct front_conn *c, struct str bytes)
{
	if (c->phase == FRONT_DEAD || c->phase == FRONT_CLOSING)
		return;
	if (c->out.n == c->out_at)
		c->moved = loop_now_ms(c->hub->loop);
	buf_put_str(&c->out, bytes);
	if (!c->paused && c->out.n - c->out_at > FRONT_OUT_HIGH) {
		c->paused = true;
		c->proto->pause(c, true);
	}
	front_hub_queue(c);
}

void
front_conn_cut(struct front_conn *c, bool reset)
{
	const struct linger at_once = {.l_onoff = 1};

	if (c->phase == FRONT_OPEN && !buf_over(&c->out))
		(void)flush(c);
	front_tls_silence(c->io.ssl);
	if (reset && c->phase != FRONT_DEAD)
		(void)setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	front_conn_end(c);
}

/* --- reading --------------------------------------------------------------------- */

static void
feed(struct front_conn *c)
{
	c->proto->input(c);
	if (c->in_at == c->in.n) {
		if (c->in.cap > FRONT_OUT_LOW)
			buf_free(&c->in);
		else
			buf_reset(&c->in);
	} else if (c->in_at != 0) {
		buf_drop(&c->in, c->in_at);
	}
	c->in_at = 0;
}

/* Until the socket has no more, the buffer is full or others wait. */
static void
read_more(struct front_conn *c)
{
	struct err err = {0};

	/* What lies in OpenSSL already raises no event. */
	for (int i = 0; c->phase == FRONT_OPEN && reads(c) &&
			(i < READS_PER_TURN || front_tls_pending(c->io.ssl));
	     i++) {
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
		if (n == 0 && c->proto->eof != NULL && c->proto->eof(c)) {
			c->ended = true;
			feed(c);
			break;
		}
		if (n <= 0) {
			front_conn_end(c);
			break;
		}
		feed(c);
	}
}

void
front_conn_kick(struct front_conn *c)
{
	feed(c);
	if (c->blocked && c->in.n < c->in.max)
		c->blocked = false;
	read_more(c);
	front_hub_queue(c);
}

static void
handshake(struct front_conn *c)
{
	struct err err = {0};
	int rc = tlsio_handshake(&c->io, &err);

	if (rc < 0) {
		log_info("run %s, host %s: %s", c->listener->run, c->peer.host,
		    c->peer.reason[0] != '\0' ? c->peer.reason : err.msg);
		front_conn_end(c);
		return;
	}
	if (rc == 1) {
		c->phase = FRONT_OPEN;
		c->proto->secured(c);
		read_more(c);
	}
}

void
front_conn_secure(struct front_conn *c, const char *host, struct str clear)
{
	struct ssl_ctx_st *ctx;

	front_tls_peer_init(&c->peer, host, c->proto->sni, c->proto->alpn);
	c->clear = clear;
	c->phase = FRONT_LEAF;
	ctx = front_leaf_get(c->listener, host);
	if (ctx != NULL)
		front_conn_leaf(c, ctx);
	front_hub_queue(c);
}

void
front_conn_leaf(struct front_conn *c, struct ssl_ctx_st *ctx)
{
	if (c->phase != FRONT_LEAF)
		return;
	if (ctx == NULL) {
		c->phase = FRONT_OPEN;
		c->proto->over(c, FRONT_NO_LEAF);
		return;
	}
	front_tls_peer_use(&c->peer, ctx);
	front_conn_put(c, c->clear);
	c->phase = FRONT_CLEAR;
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

static void
on_io(void *arg, uint32_t events)
{
	struct front_conn *c = arg;

	(void)events;
	if (c->phase == FRONT_CLOSING)
		discard(c);
	else if (c->phase == FRONT_HANDSHAKE)
		handshake(c);
	else
		read_more(c);
	front_hub_queue(c);
}
