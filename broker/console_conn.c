/*
 * People's connections as sockets (process: console): bounded reading, one request at a time,
 * answers with the same security fields each, deadlines that a slow sender cannot stretch. What a
 * request means is console_route.c's business. Must never let one client stop the others: all is
 * bounded, and where there is no room, who waits longest without a request goes.
 */
#include "broker/console.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define READ_CHUNK ((size_t)8192)
#define IN_MAX (CONSOLE_HEAD_MAX + ((size_t)16 << 10))
/* Milliseconds, each from one moment to another; what comes in between prolongs nothing. */
#define REQUEST_MS 15000 /* TLS, or the first byte of a request, to its last */
#define IDLE_MS 60000	 /* between requests */
#define ASK_MS 20000	 /* core's answer: it gives up on its log after 2 s */
#define LINGER_MS 2000

static void on_io(void *arg, uint32_t events);
static void on_timer(void *arg);
static void next(struct console_conn *c);

void
console_conn_deadline(struct console_conn *c, uint64_t ms)
{
	loop_timer_del(c->timer);
	c->timer = loop_timer_add(c->k->loop, ms, on_timer, c);
}

static void
request_forget(struct console_conn *c)
{
	for (size_t i = 0; i < CONSOLE_DOCS_MAX; i++) {
		json_free(c->docs[i]);
		c->docs[i] = NULL;
	}
	c->ndocs = 0;
	c->call = 0;
	c->route = NULL;
	c->person = STR("");
	buf_free(&c->body);
}

void
console_conn_end(struct console_conn *c)
{
	struct console *k = c->k;

	request_forget(c);
	loop_timer_del(c->timer);
	loop_io_del(c->ev);
	tlsio_close(&c->io);
	if (c->phase == CONSOLE_STREAM)
		k->nstreams--;
	TAILQ_REMOVE(&k->conns, c, link);
	k->nconns--;
	buf_free(&c->in);
	buf_free(&c->out);
	free(c);
}

void
console_conn_free_all(struct console *k)
{
	while (!TAILQ_EMPTY(&k->conns))
		console_conn_end(TAILQ_FIRST(&k->conns));
}

void
console_conn_watch(struct console_conn *c)
{
	bool reads = c->out.n == 0 && c->phase != CONSOLE_ASKS;
	uint32_t ev = tlsio_events(&c->io, reads, c->out.n != 0);

	/* What lies in OpenSSL already raises no event: a socket that can be written to does. */
	if (reads && c->phase == CONSOLE_READS && console_tls_pending(c->io.ssl))
		ev |= EPOLLOUT;

	/* Epoll tells a hang-up even to who asks for nothing: then not to be there at all. */
	if (ev == 0) {
		loop_io_del(c->ev);
		c->ev = NULL;
	} else if (c->ev == NULL) {
		c->ev = loop_io_add(c->k->loop, c->io.fd, ev, on_io, c);
	} else {
		loop_io_events(c->ev, ev);
	}
}

/* --- writing ----------------------------------------------------------------------- */

/* False: the connection is gone. */
static bool
flush(struct console_conn *c)
{
	struct err err = {0};

	while (c->out_at != c->out.n) {
		ssize_t n = tlsio_write(&c->io, c->out.p + c->out_at, c->out.n - c->out_at, &err);

		if (n == TLSIO_AGAIN)
			return true;
		if (n < 0) {
			console_conn_end(c);
			return false;
		}
		c->out_at += (size_t)n;
	}
	buf_free(&c->out);
	c->out_at = 0;
	return true;
}

/* What was to be said is with the kernel: the next request, or the end. */
static void
sent(struct console_conn *c)
{
	if (c->out.n != 0) {
		console_conn_watch(c);
		return;
	}
	if (c->phase == CONSOLE_CLOSES) {
		/* A close with unread input would reset the stream before the peer read why. */
		tlsio_shut(&c->io);
		console_conn_deadline(c, LINGER_MS);
		console_conn_watch(c);
	} else if (c->phase == CONSOLE_READS) {
		console_conn_deadline(c, c->in.n != 0 ? REQUEST_MS : IDLE_MS);
		next(c);
	} else {
		console_conn_watch(c);
	}
}

void
console_conn_drop(struct console_conn *c)
{
	buf_drop(&c->in, c->head);
	c->head = c->scanned = 0;
	request_forget(c);
}

/* --- live updates ------------------------------------------------------------------ */

/* To a stream that still has something to take nothing is added: it will look anyway. */
static void
stream_put(struct console_conn *c, const char *text)
{
	if (c->out.n != 0)
		return;
	buf_put_z(&c->out, text);
	if (flush(c))
		console_conn_watch(c);
}

void
console_conn_tell_all(struct console *k)
{
	struct console_conn *c, *after;

	for (c = TAILQ_FIRST(&k->conns); c != NULL; c = after) {
		after = TAILQ_NEXT(c, link);
		if (c->phase == CONSOLE_STREAM)
			stream_put(c, "event: changed\ndata: 1\n\n");
	}
}

void
console_conn_streams_end(struct console *k)
{
	struct console_conn *c, *after;

	for (c = TAILQ_FIRST(&k->conns); c != NULL; c = after) {
		after = TAILQ_NEXT(c, link);
		if (c->phase == CONSOLE_STREAM)
			console_conn_end(c);
	}
}

static void
stream_beat(struct console_conn *c)
{
	/* It did not take the last beat, or it is time that the session is looked at again. */
	if (c->out.n != 0 || loop_now_ms(c->k->loop) >= c->stream_until) {
		console_conn_end(c);
		return;
	}
	console_conn_deadline(c, CONSOLE_BEAT_MS);
	stream_put(c, ":\n\n");
}

/* --- reading ----------------------------------------------------------------------- */

static void
refuse(struct console_conn *c, unsigned status, const struct err *err)
{
	c->close = true;
	console_route_refuse(c, status, http_reason(status), str_z(err->msg));
}

/* More of the body; false: not whole yet, or refused. */
static bool
body_read(struct console_conn *c)
{
	struct str in = str_mem(c->in.p + c->head, c->in.n - c->head), out;
	size_t before = in.n;
	struct err err = {0};
	int rc = 0;

	do {
		rc = http_reader_next(&c->reader, &in, &out, &err);
		buf_put_str(&c->body, out);
	} while (rc == 0 && in.n != 0 && !buf_over(&c->body));
	/* The head stays: the strings of the request point nowhere, but its length counts. */
	buf_drop(&c->in, c->head + before - in.n);
	c->head = 0;
	if (buf_over(&c->body)) {
		(void)err_set(&err, ERR_TOO_LARGE, "a body has up to %zu bytes", CONSOLE_BODY_MAX);
		refuse(c, 413, &err);
		return false;
	}
	if (rc < 0)
		refuse(c, 400, &err);
	return rc == 1;
}

static bool
head_read(struct console_conn *c)
{
	struct str in = buf_str(&c->in);
	struct err err = {0};
	unsigned status;
	int rc;

	c->rq = (struct console_request){.method = CONSOLE_GET};
	rc = http_head_end(in, &c->scanned, &c->head, &err);

	if (rc == 0 && c->head == 0 && in.n <= CONSOLE_HEAD_MAX)
		return false;
	if (rc == 0 && (c->head == 0 || c->head > CONSOLE_HEAD_MAX))
		rc = err_set(&err, ERR_TOO_LARGE, "a head has up to %zu bytes", CONSOLE_HEAD_MAX);
	if (rc != 0) {
		c->head = 0;
		refuse(c, rc == ERR_TOO_LARGE ? 431 : 400, &err);
		return false;
	}
	status = console_request_read(
	    &c->k->at, str_z(c->k->origin), str_mem(in.p, c->head), &c->rq, &err);
	c->close = !c->rq.keep_alive;
	if (status == 0 && c->rq.body == HTTP_BODY_LENGTH && c->rq.length > CONSOLE_BODY_MAX) {
		(void)err_set(&err, ERR_TOO_LARGE, "a body has up to %zu bytes", CONSOLE_BODY_MAX);
		status = 413;
	}
	if (status != 0) {
		refuse(c, status, &err);
		return false;
	}
	http_reader_init(&c->reader, c->rq.body, c->rq.length);
	buf_init(&c->body, CONSOLE_BODY_MAX);
	c->started = true;
	return true;
}

/* What is in hand, as far as one request. */
static void
next(struct console_conn *c)
{
	if (c->phase != CONSOLE_READS || c->out.n != 0)
		return;
	if (!c->started && c->in.n != 0 && c->in.p[0] == '\r' && c->in.n > 1 && c->in.p[1] == '\n')
		buf_drop(&c->in, 2); /* RFC 9112 2.2: one empty line in front */
	if (!c->started && (c->in.n == 0 || !head_read(c))) {
		if (c->phase == CONSOLE_READS)
			console_conn_watch(c);
		return;
	}
	if (!body_read(c)) {
		if (c->phase == CONSOLE_READS)
			console_conn_watch(c);
		return;
	}
	c->started = false;
	c->phase = CONSOLE_ASKS;
	console_conn_deadline(c, ASK_MS);
	console_conn_watch(c);
	console_route(c);
}

static void
read_more(struct console_conn *c)
{
	size_t room = c->in.max - c->in.n;
	struct err err = {0};
	bool first = c->in.n == 0 && !c->started;
	uint8_t *p;
	ssize_t n;

	if (room > READ_CHUNK)
		room = READ_CHUNK;
	if (room == 0)
		return;
	p = buf_grow(&c->in, room);
	n = tlsio_read(&c->io, p, room, &err);
	c->in.n -= room - (n > 0 ? (size_t)n : 0);
	if (n == TLSIO_AGAIN) {
		console_conn_watch(c);
		return;
	}
	if (n <= 0) {
		console_conn_end(c);
		return;
	}
	if (first)
		console_conn_deadline(c, REQUEST_MS);
	next(c);
}

/* A reader of live updates has nothing to say; of one that is told why, the rest is read and
 * forgotten. */
static void
discard(struct console_conn *c)
{
	char waste[4096];
	struct err err = {0};
	ssize_t n = c->phase == CONSOLE_STREAM ? tlsio_read(&c->io, waste, sizeof(waste), &err)
					       : read(c->io.fd, waste, sizeof(waste));

	if (n == 0 || n == TLSIO_ERROR ||
	    (n == -1 && c->phase != CONSOLE_STREAM && errno != EAGAIN))
		console_conn_end(c);
}

static void
handshake(struct console_conn *c)
{
	struct err err = {0};
	int rc = tlsio_handshake(&c->io, &err);

	if (rc < 0) {
		log_debug("console: %s", err.msg);
		console_conn_end(c);
		return;
	}
	if (rc == 1) {
		c->phase = CONSOLE_READS;
		read_more(c);
		return;
	}
	console_conn_watch(c);
}

static void
on_io(void *arg, uint32_t events)
{
	struct console_conn *c = arg;
	bool out = c->out.n != 0;

	(void)events;
	if (c->phase == CONSOLE_HANDSHAKE) {
		handshake(c);
		return;
	}
	if (out && !flush(c))
		return;
	if (out)
		sent(c);
	else if (c->phase == CONSOLE_STREAM || c->phase == CONSOLE_CLOSES)
		discard(c);
	else if (c->phase == CONSOLE_READS)
		read_more(c);
}

static void
on_timer(void *arg)
{
	struct console_conn *c = arg;
	struct err err = {0};

	c->timer = NULL;
	if (c->phase == CONSOLE_STREAM) {
		stream_beat(c);
	} else if (c->phase == CONSOLE_ASKS) {
		c->call = 0;
		(void)err_set(&err, ERR_TIMEOUT, "core does not answer");
		refuse(c, 504, &err);
	} else if (c->phase == CONSOLE_READS && c->out.n == 0 && (c->in.n != 0 || c->started)) {
		(void)err_set(&err, ERR_TIMEOUT, "a request has %d s", REQUEST_MS / 1000);
		c->head = 0;
		refuse(c, 408, &err);
	} else {
		console_conn_end(c);
	}
}

/* --- a new one --------------------------------------------------------------------- */

void
console_conn_new(struct console *k, int fd)
{
	struct console_conn *c = xcalloc(1, sizeof(*c));
	struct ssl_st *ssl = NULL;
	struct err err = {0};

	c->k = k;
	c->phase = k->clear ? CONSOLE_READS : CONSOLE_HANDSHAKE;
	tlsio_init(&c->io, fd);
	buf_init(&c->in, IN_MAX);
	buf_init(&c->out, CONSOLE_PAGE_MAX + 8192);
	TAILQ_INSERT_TAIL(&k->conns, c, link);
	k->nconns++;
	if (!k->clear && (k->tls == NULL || console_tls_accept(k->tls, fd, &ssl, &err) != 0)) {
		if (k->tls != NULL)
			log_error("console: %s", err.msg);
		console_conn_end(c);
		return;
	}
	if (ssl != NULL)
		tlsio_start(&c->io, ssl);
	console_conn_deadline(c, REQUEST_MS);
	console_conn_watch(c);
}
