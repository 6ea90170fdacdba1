/*
 * A request to switch protocols, and what passes when the server does. Runs in upstream. libcurl
 * has made the connection; from there on this file writes the head that was leased, reads the
 * answer by the same strict reader as any, and is a pipe once that is the 101 that was asked for.
 * Front is believed within its credit; the server is untrusted. Nothing is buffered beyond what one
 * turn brings: who does not read stops the other side.
 */
#include "broker/upstream_http_int.h"

#include <assert.h>
#include <sys/socket.h>

#include "broker/upstream_http_head.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CHUNK ((size_t)16384)
#define READS_PER_TURN 16 /* then others have their turn */

/* The numbers of UH_DONE. */
enum ended {
	ENDED_NONE,
	ENDED_SERVER,
	ENDED_CLIENT,
	ENDED_SILENT,
	ENDED_LIMIT,
	ENDED_PROTOCOL,
	ENDED_BROKER,
	ENDED_LOST
};

struct stream {
	struct multi multi;
	curl_socket_t fd; /* libcurl's */
	struct loop_io *io;
	uint32_t events;
	bool begun, eager; /* eager: the socket had more than one turn takes */
	struct buf line;   /* of the answer's head, as far as it has come */
	bool framed;	   /* the final head is here, and it is no 101 */
	struct http_reader reader;
	struct buf out; /* to the server: the head, then what the client sends */
	size_t out_at;
	bool half; /* the client's end was told */
	enum ended ended;
	struct loop_timer *settle, *again;
};

struct stream *
stream_new(void)
{
	struct stream *s = xcalloc(1, sizeof(*s));

	s->fd = CURL_SOCKET_BAD;
	buf_init(&s->line, HTTP_HEAD_MAX);
	buf_init(&s->out, 2 * HTTP_HEAD_MAX + 8 * UPSTREAM_SECRET_MAX + HTTP_TARGET_MAX);
	return s;
}

static void
on_done(void *exchange, CURLcode result)
{
	transfer_done(exchange, result);
}

struct multi *
stream_multi(struct exchange *x)
{
	struct stream *s = x->stream;
	struct err err = {0};

	if (s->multi.curl == NULL &&
	    multi_init(&s->multi, x->h->hub->loop, on_done, 1, &err) != 0) {
		log_error("%s", err.msg);
		return NULL;
	}
	return &s->multi;
}

void
stream_drop(struct exchange *x)
{
	struct stream *s = x->stream;

	if (s == NULL)
		return;
	loop_io_del(TAKE_PTR(s->io));
	loop_timer_del(TAKE_PTR(s->settle));
	loop_timer_del(TAKE_PTR(s->again));
}

void
stream_free(struct stream *s)
{
	if (s == NULL)
		return;
	if (s->multi.curl != NULL)
		multi_free(&s->multi);
	buf_free(&s->line);
	buf_free(&s->out);
	free(s);
}

static bool
switched(const struct exchange *x)
{
	return x->answer != NULL && answer_switched(x->answer);
}

unsigned
stream_limit(const struct exchange *x)
{
	const struct upstream_http_times *t = &x->h->times;

	if (switched(x))
		return x->stream->half ? t->half : t->stream;
	return answer_status(x->answer) != 0 ? t->idle : t->first;
}

/* Who has ended it: what was not said otherwise, the broker or its clock did. */
uint8_t
stream_ended(const struct exchange *x)
{
	const struct stream *s = x->stream;

	if (s == NULL || !switched(x))
		return ENDED_NONE;
	if (s->ended != ENDED_NONE)
		return (uint8_t)s->ended;
	return x->silent ? ENDED_SILENT : ENDED_BROKER;
}

static void
over(struct exchange *x, enum exchange_end end, enum ended who, const char *why)
{
	x->stream->ended = who;
	exchange_end(x, end, why);
}

void
stream_over(struct exchange *x, const char *why)
{
	over(x, END_BROKEN, ENDED_LIMIT, why);
}

/* It did not come to its end. */
static void
broken(struct exchange *x, enum ended who, const char *why)
{
	over(x, answer_status(x->answer) != 0 ? END_BROKEN : END_NO_ANSWER, who, why);
}

/* --- to the server ----------------------------------------------------------------------- */

/* False: there is no more for now. */
static bool
fill(struct exchange *x)
{
	struct stream *s = x->stream;
	struct err err = {0};
	uint8_t *p;
	size_t n = 0;
	int rc;

	buf_reset(&s->out);
	s->out_at = 0;
	if (!switched(x) || s->half)
		return false;
	transfer_credit(x);
	p = buf_grow(&s->out, CHUNK);
	rc = body_read(x->body, p, CHUNK, &n, &err);
	s->out.n = n;
	x->send_paused = rc == BODY_WAIT;
	if (rc == BODY_END) {
		s->half = true;
		(void)shutdown(
		    s->fd, SHUT_WR); /* what TLS has to say of an end libcurl keeps back */
	}
	return n != 0;
}

/* False: the exchange is over. */
static bool
write_all(struct exchange *x)
{
	struct stream *s = x->stream;

	while (s->out_at != s->out.n || fill(x)) {
		size_t n = 0;
		CURLcode rc =
		    curl_easy_send(x->easy, s->out.p + s->out_at, s->out.n - s->out_at, &n);

		if (rc == CURLE_AGAIN)
			return true;
		if (rc != CURLE_OK) {
			broken(x, ENDED_LOST, "the connection to the server broke");
			return false;
		}
		s->out_at += n;
		x->active = loop_now_ms(x->h->hub->loop);
	}
	return true;
}

/* --- from the server --------------------------------------------------------------------- */

static void
on_settle(void *arg)
{
	struct exchange *x = arg;

	x->stream->settle = NULL;
	answer_settle(x->answer);
}

/* A stream may stand still in the middle of what looks like a secret: it is not kept for ever. */
static void
settle_later(struct exchange *x)
{
	struct stream *s = x->stream;

	loop_timer_del(TAKE_PTR(s->settle));
	if (switched(x) && answer_waits(x->answer))
		s->settle = loop_timer_add(x->h->hub->loop, x->h->times.settle, on_settle, x);
}

/* Content of an answer that switches nothing. False: the exchange is over. */
static bool
take_content(struct exchange *x, struct str in)
{
	struct stream *s = x->stream;
	struct err err = {0};
	struct str run;
	int rc = 0;

	do {
		rc = http_reader_next(&s->reader, &in, &run, &err);
		if (rc >= 0 && run.n != 0 && answer_content(x->answer, run, &err) != 0)
			rc = err.code;
	} while (rc == 0 && in.n != 0);
	if (rc < 0)
		exchange_end(x, END_BROKEN, err.msg);
	else if (rc == 1)
		exchange_end(x, END_WHOLE, "");
	return rc == 0;
}

/* The rest behind the head, which has just ended. */
static bool
take_rest(struct exchange *x, struct str in)
{
	struct stream *s = x->stream;
	struct err err = {0};
	uint64_t length;

	if (switched(x)) {
		if (in.n == 0 || answer_content(x->answer, in, &err) == 0)
			return true;
		over(x, END_BROKEN, ENDED_PROTOCOL, err.msg);
		return false;
	}
	if (!s->framed)
		http_reader_init(&s->reader, answer_framing(x->answer, &length), 0);
	if (!s->framed && s->reader.kind == HTTP_BODY_LENGTH)
		http_reader_init(&s->reader, HTTP_BODY_LENGTH, length);
	s->framed = true;
	return take_content(x, in);
}

/* False: the exchange is over. */
static bool
take(struct exchange *x, struct str in)
{
	struct stream *s = x->stream;
	struct err err = {0};
	struct str line;
	unsigned head = 0;

	while (answer_status(x->answer) == 0 && str_cut(&in, '\n', &line)) {
		buf_put_str(&s->line, line);
		buf_put_c(&s->line, '\n');
		if (answer_line(x->answer, buf_str(&s->line), &head, &err) != 0) {
			broken(x, ENDED_PROTOCOL, err.msg);
			return false;
		}
		buf_reset(&s->line);
	}
	if (answer_status(x->answer) != 0)
		return take_rest(x, in);
	buf_put_str(&s->line, in);
	if (!buf_over(&s->line))
		return true;
	broken(x, ENDED_PROTOCOL, "the head of the answer is too long");
	return false;
}

static void
server_ended(struct exchange *x)
{
	struct stream *s = x->stream;

	if (switched(x))
		over(x, END_WHOLE, s->half ? ENDED_CLIENT : ENDED_SERVER, "");
	else if (s->framed && s->reader.kind == HTTP_BODY_CLOSE)
		exchange_end(x, END_WHOLE, "");
	else
		broken(x, ENDED_LOST,
		    s->framed ? "the server broke the answer off"
			      : "the server closed the connection without an answer");
}

/* Is the server not to be read now? */
static bool
held(struct exchange *x)
{
	struct upstream_hub *hub = x->h->hub;

	if (hub->front != NULL && ipc_queued(hub->front) > UPSTREAM_QUEUE_HIGH)
		hub->throttled = x->throttled = true;
	x->recv_paused = x->hold || x->throttled;
	return x->recv_paused;
}

/* False: the exchange is over. */
static bool
read_some(struct exchange *x)
{
	struct stream *s = x->stream;
	uint8_t b[CHUNK];

	s->eager = false;
	for (int i = 0; !held(x); i++) {
		size_t n = 0;
		CURLcode rc;

		if (i == READS_PER_TURN) {
			s->eager = true; /* what lies in OpenSSL raises no event */
			break;
		}
		rc = curl_easy_recv(x->easy, b, sizeof(b), &n);
		if (rc == CURLE_AGAIN)
			break;
		x->active = loop_now_ms(x->h->hub->loop);
		if (rc != CURLE_OK)
			broken(x, ENDED_LOST, "the connection to the server broke");
		else if (n == 0)
			server_ended(x);
		else if (take(x, str_mem(b, n)))
			continue;
		return false;
	}
	settle_later(x);
	return true;
}

/* --- turns ------------------------------------------------------------------------------- */

static void on_io(void *arg, uint32_t events);
static void on_again(void *arg);

static void
watch(struct exchange *x)
{
	struct stream *s = x->stream;
	uint32_t ev = 0;

	if (!x->recv_paused)
		ev |= EPOLLIN;
	if (s->out_at != s->out.n)
		ev |= EPOLLOUT;
	/* Epoll tells a hang-up even to who asks for nothing: then not to be there at all. */
	if (ev == 0)
		loop_io_del(TAKE_PTR(s->io));
	else if (s->io == NULL)
		s->io = loop_io_add(x->h->hub->loop, s->fd, ev, on_io, x);
	else if (ev != s->events)
		loop_io_events(s->io, ev);
	s->events = ev;
	if (s->eager && s->again == NULL)
		s->again = loop_timer_add(x->h->hub->loop, 0, on_again, x);
}

static void
turn(struct exchange *x)
{
	/* What it says first may let the client send: so read, then write. */
	if (x->state == X_RUNNING && read_some(x) && write_all(x))
		watch(x);
}

static void
on_io(void *arg, uint32_t events)
{
	(void)events;
	turn(arg);
}

static void
on_again(void *arg)
{
	struct exchange *x = arg;

	x->stream->again = NULL;
	turn(x);
}

void
stream_resume(struct exchange *x)
{
	if (x->stream->begun)
		turn(x);
}

void
stream_begin(struct exchange *x)
{
	struct stream *s = x->stream;

	if (curl_easy_getinfo(x->easy, CURLINFO_ACTIVESOCKET, &s->fd) != CURLE_OK ||
	    s->fd == CURL_SOCKET_BAD) {
		exchange_end(x, END_NOT_SENT, "libcurl has no connection");
		return;
	}
	s->begun = true;
	head_write(str_z(x->method), (const char *)x->target.p, x->fields, &s->out);
	assert(!buf_over(&s->out));
	turn(x);
}
