/*
 * HTTP/1.1 client of the loop (process: cofferdam-agent), over its own unix socket to the broker:
 * one connection a request, no TLS, no credential. While it waits it looks at the wire to the
 * broker, so that a run that is ended from outside ends here, too. The answer may come before the
 * request is all sent: then that is the answer.
 */
#include "agent/model_http.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"

#include "common/banned.h"

#define IDLE_MS 600000
#define ROOM 65536

struct exchange {
	const struct model_http *h;
	const struct model_post *p;
	struct model_http_answer *a;
	int fd;
	struct buf out, in; /* not sent yet; not read yet */
	size_t sent, scanned;
	struct http_reader reader;
	bool send_over, got_head, over;
	int stop; /* what `stream` said */
};

static void
exchange_close(struct exchange *x)
{
	cleanup_close_fd(&x->fd);
	buf_free(&x->out);
	buf_free(&x->in);
}

void
model_http_answer_free(struct model_http_answer *a)
{
	buf_free(&a->head_bytes);
	buf_free(&a->body);
}

/* --- waiting --------------------------------------------------------------------- */

static int
watch_look(const struct model_http *h, struct err *err)
{
	if (h->watch != NULL && h->watch(h->watch_arg))
		return err_set(err, ERR_STATE, "the run was ended");
	return 0;
}

/* 0, also when only the watch spoke or `ms` is over (*ret_events is 0 then). */
static int
wait_for(const struct model_http *h, int fd, short events, unsigned ms, uint64_t until_us,
    short *ret_events, struct err *err)
{
	uint64_t now = clock_boot_us();
	uint64_t left_ms = until_us > now ? (until_us - now + 999) / 1000 : 0;
	struct pollfd p[2] = {{.fd = fd, .events = events},
	    {.fd = h->watch_fd != NULL ? *h->watch_fd : -1, .events = POLLIN}};

	*ret_events = 0;
	if (left_ms == 0)
		return err_set(err, ERR_TIMEOUT, "the time for the model's answer is over");
	if (left_ms > ms)
		left_ms = ms;
	if (poll(p, 2, (int)left_ms) < 0)
		return errno == EINTR ? 0 : err_sys(err, ERR_SYSTEM, errno, "poll");
	*ret_events = p[0].revents;
	return p[1].revents != 0 ? watch_look(h, err) : 0;
}

int
model_http_wait(const struct model_http *h, unsigned ms, uint64_t until_us, struct err *err)
{
	uint64_t end = clock_boot_us() + ms * (uint64_t)1000, now;
	short none;
	int rc = 0;

	while (rc == 0 && (now = clock_boot_us()) < end)
		rc = wait_for(h, -1, 0, (unsigned)((end - now + 999) / 1000), until_us, &none, err);
	return rc;
}

/* --- the request ----------------------------------------------------------------- */

static void
request_put(const struct model_post *p, struct buf *out)
{
	char length[24];

	(void)snprintf(length, sizeof(length), "%zu", p->body.n);
	http_put_request(out, STR("POST"), p->path);
	http_put_field(out, STR("Host"), p->host);
	http_put_field(out, STR("Accept"), STR("text/event-stream"));
	http_put_field(out, STR("Accept-Encoding"), STR("identity"));
	http_put_field(out, STR("Connection"), STR("close"));
	http_put_field(out, STR("Content-Type"), STR("application/json"));
	http_put_field(out, STR("User-Agent"), STR("cofferdam"));
	for (size_t i = 0; i < p->nfields; i++)
		http_put_field(out, p->fields[i].name, p->fields[i].value);
	http_put_field(out, STR("Content-Length"), str_z(length));
	http_put_end(out);
	buf_put_str(out, p->body);
}

/* A server that has answered already may not take the rest: what it says is read all the same. */
static int
send_some(struct exchange *x, struct err *err)
{
	ssize_t k =
	    send(x->fd, x->out.p + x->sent, x->out.n - x->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (k < 0 && (errno == EPIPE || errno == ECONNRESET))
		x->send_over = true;
	else if (k < 0 && errno != EAGAIN && errno != EINTR)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sending to the broker");
	else if (k > 0)
		x->sent += (size_t)k;
	x->send_over = x->send_over || x->sent == x->out.n;
	return 0;
}

/* --- the answer ------------------------------------------------------------------ */

static bool
is_stream(const struct http_response *r)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "content-type");
	struct str type = f != NULL ? f->value : STR_NONE;

	(void)str_cut(&(struct str){type.p, type.n}, ';', &type);
	return r->status == 200 && str_ieqz(str_trim(type), "text/event-stream");
}

/* Interim answers are passed over (RFC 9110 15.2). */
static int
head_take(struct exchange *x, struct err *err)
{
	struct model_http_answer *a = x->a;
	size_t n = 0;
	int rc = http_head_end(buf_str(&x->in), &x->scanned, &n, err);

	if (rc != 0 || n == 0)
		return rc;
	buf_reset(&a->head_bytes);
	buf_put(&a->head_bytes, x->in.p, n);
	buf_drop(&x->in, n);
	if ((rc = http_response_parse(buf_str(&a->head_bytes), false, &a->head, err)) != 0)
		return rc;
	if (a->head.status < 200)
		return 0;
	http_reader_init(&x->reader, a->head.body, a->head.length);
	a->streamed = x->p->stream != NULL && is_stream(&a->head);
	x->got_head = true;
	return 0;
}

static int
content_take(struct exchange *x, struct str content, struct err *err)
{
	struct model_http_answer *a = x->a;
	size_t room = a->body.max - a->body.n;
	int rc;

	if (a->streamed) {
		rc = content.n != 0 ? x->p->stream(x->p->stream_arg, content, err) : 0;
		x->over = x->over || rc == 1;
		return rc == 1 ? 0 : rc;
	}
	buf_put(&a->body, content.p, content.n < room ? content.n : room);
	return 0;
}

static int
body_take(struct exchange *x, struct err *err)
{
	struct str in = buf_str(&x->in), content;
	int rc = 0;

	while (!x->over) {
		int end = http_reader_next(&x->reader, &in, &content, err);

		if (end < 0)
			return end;
		if ((rc = content_take(x, content, err)) != 0)
			return rc;
		x->over = x->over || end == 1;
		if (in.n == 0 && content.n == 0)
			break;
	}
	x->in.n = 0;
	return 0;
}

/* An answer without a length ends with the connection; every other is broken off by that. */
static int
closed(struct exchange *x, struct err *err)
{
	if (!x->got_head)
		return err_set(err, ERR_UNAVAILABLE, "the connection was closed without an answer");
	if (x->a->head.body != HTTP_BODY_CLOSE)
		return err_set(err, ERR_UNAVAILABLE, "the answer was broken off");
	x->over = true;
	return 0;
}

static int
read_some(struct exchange *x, struct err *err)
{
	uint8_t room[ROOM / 4];
	ssize_t k = recv(x->fd, room, sizeof(room), MSG_DONTWAIT);
	int rc = 0;

	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (k < 0 && errno != ECONNRESET)
		return err_sys(err, ERR_UNAVAILABLE, errno, "reading from the broker");
	if (k <= 0)
		return closed(x, err);
	buf_put(&x->in, room, (size_t)k);
	while (rc == 0 && !x->got_head && x->in.n != 0) {
		size_t before = x->in.n;

		rc = head_take(x, err);
		if (x->in.n == before)
			break;
	}
	return rc == 0 && x->got_head ? body_take(x, err) : rc;
}

static int
turn(struct exchange *x, uint64_t *quiet_since, struct err *err)
{
	unsigned idle = x->h->idle_ms != 0 ? x->h->idle_ms : IDLE_MS;
	uint64_t quiet_ms = (clock_boot_us() - *quiet_since) / 1000;
	short want = (short)(POLLIN | (x->send_over ? 0 : POLLOUT)), got;
	int rc;

	if (quiet_ms >= idle)
		return err_set(err, ERR_UNAVAILABLE, "no byte of an answer for %u s", idle / 1000);
	rc = wait_for(x->h, x->fd, want, idle - (unsigned)quiet_ms, x->p->until_us, &got, err);
	if (rc != 0 || got == 0)
		return rc;
	*quiet_since = clock_boot_us();
	if ((got & POLLOUT) != 0 && !x->send_over && (rc = send_some(x, err)) != 0)
		return rc;
	return (got & (POLLIN | POLLHUP | POLLERR)) != 0 ? read_some(x, err) : 0;
}

int
model_http_post(const struct model_http *h, const struct model_post *p,
    struct model_http_answer *ret, struct err *err)
{
	__attribute__((cleanup(exchange_close))) struct exchange x = {.h = h,
	    .p = p,
	    .a = ret,
	    .fd = -1,
	    .out = BUF(p->body.n + ROOM),
	    .in = BUF(HTTP_HEAD_MAX + ROOM)};
	uint64_t quiet_since = clock_boot_us();
	int rc;

	*ret = (struct model_http_answer){
	    .head_bytes = BUF(HTTP_HEAD_MAX), .body = BUF(MODEL_HTTP_BODY_MAX)};
	request_put(p, &x.out);
	if (buf_over(&x.out))
		return err_set(err, ERR_TOO_LARGE, "the head of a model's request is too large");
	rc = h->connect(h->connect_arg, &x.fd, err);
	while (rc == 0 && !x.over)
		rc = turn(&x, &quiet_since, err);
	return rc;
}
