/*
 * Frames between a caller and the supervisor of a sandbox (call.h has what they say): u32 body
 * length, u8 type, u8 number of descriptors, body. Descriptors travel with the frame's first byte.
 * Every call has a deadline, so that no peer can hold the other.
 */
#ifndef AGENT_SANDBOX_WIRE_H
#define AGENT_SANDBOX_WIRE_H

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "common/buf.h"
#include "common/err.h"

#define WIRE_FD 3
#define WIRE_FDS_MAX 252
#define WIRE_BODY_MAX ((size_t)4 << 20)
#define WIRE_INSIDE_MAX ((size_t)64 << 10) /* what pid 1 may send */
#define WIRE_SEND_MS 10000
/* The kernel counts by user what waits in unix sockets, and compares it with the sender's limit
 * (unix(7), ETOOMANYREFS): nobody waits for others to take theirs. */
#define WIRE_IN_FLIGHT                                                                          \
	"sandbox: processes of this user have more descriptors in flight in unix sockets than " \
	"the limit of open files of the one who sends (ulimit -n): end the programs that do, "  \
	"or start them with a lower --limit open-files"

struct wire_msg {
	uint8_t type;
	struct buf body;
	int fds[WIRE_FDS_MAX];
	size_t nfds;
};

static inline void
wire_msg_free(struct wire_msg *m)
{
	for (size_t i = 0; i < m->nfds; i++)
		if (m->fds[i] >= 0)
			(void)close(m->fds[i]);
	m->nfds = 0;
	buf_free(&m->body);
}
#define AUTO_WIRE __attribute__((cleanup(wire_msg_free)))
#define WIRE_MSG ((struct wire_msg){.body = BUF(WIRE_BODY_MAX)})

static inline int64_t
wire_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* deadline < 0: none. */
static inline int
wire_wait(int fd, short events, int64_t deadline, struct err *err)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		int64_t left = deadline < 0 ? -1 : deadline - wire_now_ms();
		int rc;

		if (deadline >= 0 && left <= 0)
			return err_set(err, ERR_TIMEOUT, "sandbox wire: no progress in time");
		rc = poll(&p, 1, left > 60000 ? 60000 : (int)left);
		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox wire: poll");
	}
}

union wire_control {
	char room[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
	struct cmsghdr align;
};

/* Descriptors, 1 to WIRE_FDS_MAX, that go with the first byte of *m. */
static inline void
wire_rights(struct msghdr *m, union wire_control *c, const int *fds, size_t nfds)
{
	struct cmsghdr *h;

	m->msg_control = c->room;
	m->msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
	h = CMSG_FIRSTHDR(m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
	/* cppcheck-suppress ctunullpointer; NULL comes with nfds 0 alone */
	memcpy(CMSG_DATA(h), fds, sizeof(int) * nfds);
}

static inline int
wire_send(
    int fd, uint8_t type, const struct buf *body, const int *fds, size_t nfds, struct err *err)
{
	union wire_control c = {0};
	size_t n = body != NULL ? body->n : 0, off = 0;
	int64_t deadline = wire_now_ms() + WIRE_SEND_MS;
	AUTO_BUF struct buf all = BUF(WIRE_BODY_MAX + 6);

	if ((body != NULL && buf_over(body)) || n > WIRE_BODY_MAX || nfds > WIRE_FDS_MAX)
		return err_set(err, ERR_TOO_LARGE, "sandbox wire: message of type %u is too large",
		    (unsigned)type);
	buf_u32(&all, (uint32_t)n);
	buf_u8(&all, type);
	buf_u8(&all, (uint8_t)nfds);
	if (body != NULL)
		buf_put(&all, body->p, n);
	while (off < all.n) {
		struct iovec iov = {.iov_base = all.p + off, .iov_len = all.n - off};
		struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
		ssize_t k;

		if (off == 0 && nfds != 0)
			wire_rights(&m, &c, fds, nfds);
		k = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (k > 0) {
			off += (size_t)k;
			continue;
		}
		if (k < 0 && errno == ETOOMANYREFS)
			return err_set(err, ERR_UNAVAILABLE, WIRE_IN_FLIGHT);
		if (k < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox wire: send");
		if (wire_wait(fd, POLLOUT, deadline, err) != 0)
			return err->code;
	}
	return 0;
}

/* What there is, from 1 to n bytes; descriptors are kept in *m (at most WIRE_FDS_MAX in all, the
 * rest refused). */
static inline int
wire_some(
    int fd, void *p, size_t n, int64_t deadline, struct wire_msg *m, size_t *ret_n, struct err *err)
{
	for (;;) {
		union {
			char room[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
			struct cmsghdr align;
		} c;
		struct iovec iov = {.iov_base = p, .iov_len = n};
		struct msghdr h = {.msg_iov = &iov,
		    .msg_iovlen = 1,
		    .msg_control = c.room,
		    .msg_controllen = sizeof(c.room)};
		ssize_t k;

		k = recvmsg(fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		if (k < 0 && errno == EAGAIN && wire_wait(fd, POLLIN, deadline, err) != 0)
			return err->code;
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (k < 0)
			return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox wire: receive");
		if (k == 0)
			return err_set(
			    err, ERR_UNAVAILABLE, "sandbox wire: the other side is gone");
		for (struct cmsghdr *q = CMSG_FIRSTHDR(&h); q != NULL; q = CMSG_NXTHDR(&h, q)) {
			size_t cnt = (q->cmsg_len - CMSG_LEN(0)) / sizeof(int);

			if (q->cmsg_level != SOL_SOCKET || q->cmsg_type != SCM_RIGHTS)
				continue;
			for (size_t i = 0; i < cnt; i++) {
				int got;

				memcpy(&got, CMSG_DATA(q) + i * sizeof(int), sizeof(int));
				if (m->nfds < WIRE_FDS_MAX)
					m->fds[m->nfds++] = got;
				else
					(void)close(got);
			}
		}
		if ((h.msg_flags & MSG_CTRUNC) != 0)
			return err_set(err, ERR_PROTOCOL, "sandbox wire: descriptors were cut");
		*ret_n = (size_t)k;
		return 0;
	}
}

/* All of n bytes. */
static inline int
wire_take(int fd, void *p, size_t n, int64_t deadline, struct wire_msg *m, struct err *err)
{
	for (size_t off = 0, k = 0; off < n; off += k)
		if (wire_some(fd, (char *)p + off, n - off, deadline, m, &k, err) != 0)
			return err->code;
	return 0;
}

#define WIRE_HEAD ((size_t)6)

/*
 * What was read of the messages behind one. The kernel gives the descriptors of one message with
 * its bytes and ends there, but may give bytes of earlier ones before it: so they are of the first
 * message here that names any.
 */
struct wire_ahead {
	uint8_t p[256];
	size_t n, room;	      /* room: read so much at once, from WIRE_HEAD on */
	struct wire_msg with; /* descriptors; never a body */
};
#define WIRE_AHEAD \
	((struct wire_ahead){.room = sizeof(((struct wire_ahead *)0)->p), .with = WIRE_MSG})

static inline void
wire_ahead_free(struct wire_ahead *a)
{
	wire_msg_free(&a->with);
	a->n = 0;
}

static inline bool
wire_ahead_whole(const struct wire_ahead *a)
{
	struct rd r = rd_init(str_mem(a->p, a->n));

	return a->n >= WIRE_HEAD && a->n - WIRE_HEAD >= rd_u32(&r);
}

/* While descriptors wait for the rest of their message's head, no more than that is read. */
static inline int
wire_ahead_head(int fd, int64_t deadline, struct wire_ahead *a, struct err *err)
{
	while (a->n < WIRE_HEAD) {
		size_t room = a->with.nfds != 0 ? WIRE_HEAD : a->room, k;

		if (wire_some(fd, a->p + a->n, room - a->n, deadline, &a->with, &k, err) != 0)
			return err->code;
		a->n += k;
	}
	return 0;
}

/* Those of this message, if it names any; else none may be left when nothing is behind it. */
static inline int
wire_ahead_fds(struct wire_ahead *a, size_t named, struct wire_msg *m, struct err *err)
{
	size_t have = a->with.nfds + m->nfds;

	if (named != 0 ? have != named || (m->nfds != 0 && a->with.nfds != 0)
		       : m->nfds != 0 || (a->n == 0 && a->with.nfds != 0))
		return err_set(err, ERR_PROTOCOL,
		    "sandbox wire: %zu descriptors came, %zu were named", have, named);
	if (m->nfds == 0 && named != 0) {
		memcpy(m->fds, a->with.fds, named * sizeof(m->fds[0]));
		m->nfds = named;
		a->with.nfds = 0;
	}
	return 0;
}

/* As wire_recv, and what is behind it may be read with it, and is then taken first. */
static inline int
wire_recv_ahead(
    int fd, int timeout_ms, size_t max, struct wire_ahead *a, struct wire_msg *m, struct err *err)
{
	int64_t deadline;
	uint8_t *p;
	struct rd r;
	uint32_t n;
	size_t nfds, here;

	wire_msg_free(m);
	if (timeout_ms < 0 && a->n == 0 && wire_wait(fd, POLLIN, -1, err) != 0)
		return err->code;
	deadline = wire_now_ms() + (timeout_ms < 0 ? WIRE_SEND_MS : timeout_ms);
	if (wire_ahead_head(fd, deadline, a, err) != 0)
		return err->code;
	r = rd_init(str_mem(a->p, WIRE_HEAD));
	n = rd_u32(&r);
	m->type = rd_u8(&r);
	nfds = rd_u8(&r);
	if (n > max)
		return err_set(
		    err, ERR_PROTOCOL, "sandbox wire: message of %u bytes, limit %zu", n, max);
	p = buf_grow(&m->body, n);
	if (n != 0 && p == NULL)
		return err_set(err, ERR_PROTOCOL, "sandbox wire: too large");
	here = a->n - WIRE_HEAD < n ? a->n - WIRE_HEAD : n;
	if (here != 0)
		memcpy(p, a->p + WIRE_HEAD, here);
	a->n -= WIRE_HEAD + here;
	memmove(a->p, a->p + WIRE_HEAD + here, a->n);
	if (here != n && wire_take(fd, p + here, n - here, deadline, m, err) != 0)
		return err->code;
	return wire_ahead_fds(a, nfds, m, err);
}

/* *m is emptied first. timeout_ms < 0: wait for the first byte for ever, never for the rest. */
static inline int
wire_recv(int fd, int timeout_ms, size_t max, struct wire_msg *m, struct err *err)
{
	struct wire_ahead a = WIRE_AHEAD;
	int rc;

	a.room = WIRE_HEAD;
	rc = wire_recv_ahead(fd, timeout_ms, max, &a, m, err);
	wire_ahead_free(&a);
	return rc;
}

/* An answer of u32 -code, str text back into an error; its code is checked against our own range.
 */
static inline int
wire_take_error(struct wire_msg *m, struct err *err)
{
	struct rd r = rd_init(buf_str(&m->body));
	uint32_t code = rd_u32(&r);
	struct str text = rd_lstr(&r);

	if (!rd_end(&r) || code == 0 || code > 100)
		return err_set(err, ERR_PROTOCOL, "sandbox wire: malformed error");
	return err_set(err, -(int)code, "%.*s", STR_ARG(text));
}

#endif
