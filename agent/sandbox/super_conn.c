/*
 * The callers' connections: frames of wire.h in and out. Runs in the supervisor, which trusts its
 * callers (one user) not to be hostile, but not to read: what waits for one is bounded, one that
 * takes nothing for ten seconds is dropped, and one that has much to read yet is not heard.
 */
#include "agent/sandbox/super_state.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define OUT_MAX ((size_t)16 << 20)
#define OUT_ALL_MAX ((size_t)128 << 20) /* of all callers */
#define OUT_FULL ((size_t)2 << 20)	/* requests wait while so much is to be sent */

static void
events_set(struct super_conn *c)
{
	uint32_t ev = 0;

	if (c->out.first != NULL)
		ev |= EPOLLOUT;
	if (!c->leaving && c->out.bytes < OUT_FULL)
		ev |= EPOLLIN;
	loop_io_events(c->io, ev);
}

static void
on_stuck(void *arg)
{
	struct super_conn *c = arg;

	c->stuck = NULL;
	super_conn_drop(c);
}

/* After anything was queued or sent. `moved`: the time begins anew. */
static void
sent(struct super_conn *c, bool moved)
{
	if (c->stuck != NULL && (moved || c->out.first == NULL)) {
		loop_timer_del(c->stuck);
		c->stuck = NULL;
	}
	if (c->stuck == NULL && c->out.first != NULL)
		c->stuck = loop_timer_add(c->s->loop, (uint64_t)super_times.stuck, on_stuck, c);
	if (c->leaving && c->out.first == NULL)
		super_conn_drop(c);
	else
		events_set(c);
}

/* So much may wait for this one: what the others leave of what is for all. */
static size_t
out_max(const struct super_conn *c)
{
	size_t others = 0;

	for (const struct super_conn *o = c->s->conns; o != NULL; o = o->next)
		others += o == c ? 0 : o->out.bytes;
	if (others >= OUT_ALL_MAX)
		return 0;
	return OUT_ALL_MAX - others < OUT_MAX ? OUT_ALL_MAX - others : OUT_MAX;
}

static void
head_put(struct buf *out, uint8_t type, uint32_t tag, size_t n, size_t nfds)
{
	buf_u32(out, (uint32_t)n + 4);
	buf_u8(out, type);
	buf_u8(out, (uint8_t)nfds);
	buf_u32(out, tag);
}

/* head: of the last of what is sent as one, behind the others; fds go with the first. */
static bool
put(struct super_conn *c, uint32_t tag, struct str head, struct str body, const int *fds,
    size_t nfds)
{
	int rc = super_queue_put(&c->out, c->fd, head, body, fds, nfds, out_max(c));

	if (rc == -ETOOMANYREFS)
		super_conn_error(c, tag, ERR_UNAVAILABLE, "%s", WIRE_IN_FLIGHT);
	else if (rc == 0)
		sent(c, false);
	else
		super_conn_drop(c);
	return rc != -ETOOMANYREFS;
}

/* True: an error is sent in its place. */
static bool
is_too_large(struct super_conn *c, uint32_t tag, const struct buf *rest)
{
	if (rest == NULL || (!buf_over(rest) && rest->n + 4 <= WIRE_BODY_MAX))
		return false;
	super_conn_error(c, tag, ERR_TOO_LARGE, "sandbox: the answer is too large");
	return true;
}

bool
super_conn_send(struct super_conn *c, uint8_t type, uint32_t tag, const struct buf *rest,
    const int *fds, size_t nfds)
{
	struct str body = rest != NULL ? buf_str(rest) : STR_NONE;
	AUTO_BUF struct buf head = BUF(16);

	if (c->dead || is_too_large(c, tag, rest))
		return true;
	head_put(&head, type, tag, body.n, nfds);
	return put(c, tag, buf_str(&head), body, fds, nfds);
}

bool
super_conn_send_both(struct super_conn *c, uint32_t tag, const struct buf *started,
    const struct buf *exited, const int *fds, size_t nfds)
{
	AUTO_BUF struct buf head = BUF(64);

	if (c->dead || is_too_large(c, tag, exited))
		return true;
	head_put(&head, CALL_STARTED, tag, started->n, nfds);
	buf_put_str(&head, buf_str(started));
	head_put(&head, CALL_EXITED, tag, exited->n, 0);
	return put(c, tag, buf_str(&head), buf_str(exited), fds, nfds);
}

void
super_conn_done(struct super_conn *c, uint32_t tag)
{
	(void)super_conn_send(c, CALL_DONE, tag, NULL, NULL, 0);
}

void
super_conn_error(struct super_conn *c, uint32_t tag, int code, const char *fmt, ...)
{
	AUTO_BUF struct buf b = BUF(4096);
	char text[ERR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_u32(&b, (uint32_t)-code);
	buf_lz(&b, text);
	(void)super_conn_send(c, CALL_ERROR, tag, &b, NULL, 0);
}

enum frame { FRAME_BROKEN, FRAME_PART, FRAME_MORE, FRAME_WHOLE };

/* The length, then that many bytes, never more than this one frame: so descriptors are its own. */
static enum frame
frame_read(struct super_conn *c)
{
	struct rd r = rd_init(str_mem(c->head, sizeof(c->head)));
	size_t want;
	ssize_t k;

	if (c->have < sizeof(c->head)) {
		k = super_recv(c->fd, c->head + c->have, sizeof(c->head) - c->have, c->fds,
		    &c->nfds, ARRAY_LEN(c->fds));
		if (k <= 0)
			return k == 0 ? FRAME_PART : FRAME_BROKEN;
		c->have += (size_t)k;
		return FRAME_MORE;
	}
	want = rd_u32(&r);
	if (want < 4 || want > WIRE_BODY_MAX)
		return FRAME_BROKEN;
	if (c->body.n == 0 && c->body.cap < want) {
		(void)buf_grow(&c->body, want);
		c->body.n = 0;
	}
	k = super_recv(
	    c->fd, c->body.p + c->body.n, want - c->body.n, c->fds, &c->nfds, ARRAY_LEN(c->fds));
	if (k <= 0)
		return k == 0 ? FRAME_PART : FRAME_BROKEN;
	c->body.n += (size_t)k;
	return c->body.n == want ? FRAME_WHOLE : FRAME_MORE;
}

/* False: it broke the rules. */
static bool
frame_serve(struct super_conn *c)
{
	struct str body = buf_str(&c->body);
	bool ok = c->nfds == c->head[5] && super_call(c, c->head[4], body, c->fds, c->nfds);

	super_fds_close(c->fds, &c->nfds);
	c->have = 0;
	if (c->body.cap > 65536)
		buf_free(&c->body); /* a big one is rare: give it back */
	c->body.n = 0;
	return ok;
}

/* One frame in a turn: others are there, too. */
static void
on_conn(void *arg, uint32_t events)
{
	struct super_conn *c = arg;
	enum frame got;
	bool moved;

	if ((events & EPOLLOUT) != 0) {
		if (!super_queue_flush(&c->out, c->fd, &moved)) {
			super_conn_drop(c);
			return;
		}
		sent(c, moved);
	}
	if (c->leaving && (events & (EPOLLHUP | EPOLLERR)) != 0)
		super_conn_drop(c);
	if (c->dead || c->leaving || c->out.bytes >= OUT_FULL ||
	    (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
		return;
	do
		got = frame_read(c);
	while (got == FRAME_MORE);
	if (got == FRAME_BROKEN || (got == FRAME_WHOLE && !frame_serve(c)))
		super_conn_drop(c);
}

void
super_conn_new(struct super *s, int fd, enum super_conn_kind kind)
{
	struct super_conn *c = xcalloc(1, sizeof(*c));

	c->s = s;
	c->fd = fd;
	c->kind = kind;
	c->body = BUF(WIRE_BODY_MAX);
	c->io = loop_io_add(s->loop, fd, EPOLLIN, on_conn, c);
	c->next = s->conns;
	s->conns = c;
	s->linger_by = 0;
}

/* Freed by the sweep at the end of the turn: callbacks may still hold it. */
void
super_conn_drop(struct super_conn *c)
{
	struct super *s = c->s;

	if (c->dead)
		return;
	c->dead = true;
	loop_timer_del(c->stuck);
	loop_io_del(c->io);
	(void)close(c->fd);
	super_fds_close(c->fds, &c->nfds);
	super_queue_free(&c->out);
	super_waiters_drop(s, c);
	super_execs_orphan(s, c);
	if (s->creator == c)
		s->creator = NULL;
	if (c->maker && s->spec.tied)
		s->untied = true;
	if (s->holder == c) {
		s->holder = NULL;
		super_execs_held(s);
		(void)super_inside_send(s, INSIDE_HOLD, 0, 0, STR_NONE, NULL, 0);
	}
}

void
super_conns_sweep(struct super *s)
{
	struct super_conn **at = &s->conns, *c;

	while ((c = *at) != NULL) {
		if (!c->dead) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		buf_free(&c->body);
		free(c);
	}
}

size_t
super_conns_count(const struct super *s)
{
	size_t n = 0;

	for (const struct super_conn *c = s->conns; c != NULL; c = c->next)
		n += c->dead ? 0 : 1;
	return n;
}

size_t
super_conns_kind(const struct super *s, enum super_conn_kind kind)
{
	size_t n = 0;

	for (const struct super_conn *c = s->conns; c != NULL; c = c->next)
		n += c->dead || c->kind != kind ? 0 : 1;
	return n;
}
