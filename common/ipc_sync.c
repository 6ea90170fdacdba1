/*
 * The blocking form of the wire, for the agent and the command line: one frame at a time,
 * same table, same checks. Reads exactly one frame's bytes, so nothing is kept between
 * calls. Linked by programs that may connect; the broker's processes do not pull it in.
 */
#include "common/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "common/ipc_frame.h"

#include "common/banned.h"

static int64_t
mono_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Until the descriptor is ready or the deadline (-1: none) has passed. */
static int
wait_for(int fd, short events, int64_t deadline, struct err *err)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = events};
		int64_t left = deadline < 0 ? -1 : deadline - mono_ms();
		int n;

		if (deadline >= 0 && left < 0)
			left = 0;
		n = poll(&p, 1, left > 3600000 ? 3600000 : (int)left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "waiting for the broker");
		if (deadline >= 0 && mono_ms() >= deadline)
			return err_set(err, ERR_TIMEOUT, "no answer from the broker in time");
	}
}

int
ipc_sync_send(int fd, enum ipc_role self, enum ipc_role peer, uint16_t type, const struct buf *body,
    const int *fds, size_t nfds, struct err *err)
{
	AUTO_BUF struct buf all = BUF(IPC_HEADER + IPC_BODY_MAX);
	size_t off = 0;

	ipc_frame_must_fit(self, peer, type, body, nfds);
	ipc_frame_encode(&all, type, body != NULL ? body->n : 0, nfds);
	if (body != NULL)
		buf_put(&all, body->p, body->n);
	while (off < all.n) {
		struct iovec iov = {.iov_base = all.p + off, .iov_len = all.n - off};
		struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
		union ipc_control control;
		ssize_t n;
		int rc;

		ipc_control_put(&m, &control, fds, off == 0 ? nfds : 0);
		n = sendmsg(fd, &m, MSG_NOSIGNAL);
		if (n >= 0) {
			off += (size_t)n;
		} else if (errno == EAGAIN) {
			rc = wait_for(fd, POLLOUT, -1, err);
			if (rc != 0)
				return rc;
		} else if (errno != EINTR) {
			return err_sys(err, ERR_UNAVAILABLE, errno, "sending to the broker");
		}
	}
	return 0;
}

struct sync {
	int fd;
	int64_t deadline;
	int *fds;
	size_t nfds;
};

/* Exactly n bytes. Descriptors are looked for in the header alone; elsewhere they are an error. */
static int
read_exactly(struct sync *s, uint8_t *p, size_t n, bool header, struct err *err)
{
	size_t off = 0;

	while (off < n) {
		struct iovec iov = {.iov_base = p + off, .iov_len = n - off};
		union ipc_control control;
		struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
		int got[IPC_FDS_MAX];
		size_t ngot;
		ssize_t k;
		int rc = wait_for(s->fd, POLLIN, s->deadline, err);

		if (rc != 0)
			return rc;
		m.msg_control = control.b;
		m.msg_controllen = sizeof(control.b);
		k = recvmsg(s->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		if (k < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (k < 0)
			return err_sys(err, ERR_UNAVAILABLE, errno, "reading from the broker");
		ngot = ipc_control_take(&m, got);
		if ((m.msg_flags & MSG_CTRUNC) != 0 || (ngot != 0 && !(header && off == 0))) {
			ipc_close_fds(got, ngot);
			return err_set(err, ERR_PROTOCOL, "the broker sent stray descriptors");
		}
		if (k == 0)
			return err_set(err, ERR_UNAVAILABLE, "the broker closed the connection");
		if (ngot != 0)
			memcpy(s->fds, got, ngot * sizeof(int));
		s->nfds += ngot;
		off += (size_t)k;
	}
	return 0;
}

static int
frame_read(struct sync *s, enum ipc_role self, enum ipc_role peer, struct ipc_frame *f,
    struct buf *body, struct err *err)
{
	uint8_t head[IPC_HEADER];
	uint8_t *p;
	int rc = read_exactly(s, head, sizeof(head), true, err);

	if (rc != 0)
		return rc;
	rc = ipc_frame_decode(head, peer, self, f, err);
	if (rc != 0)
		return rc;
	if (s->nfds != f->nfds)
		return err_set(err, ERR_PROTOCOL, "%s with %zu descriptors, must have %u",
		    ipc_msg_name(f->type), s->nfds, f->nfds);
	if (f->body == 0)
		return 0;
	p = buf_grow(body, f->body);
	if (p == NULL)
		return err_set(err, ERR_TOO_LARGE, "%s of %u bytes, the caller has room for %zu",
		    ipc_msg_name(f->type), f->body, body->max);
	return read_exactly(s, p, f->body, false, err);
}

int
ipc_sync_recv(int fd, enum ipc_role self, enum ipc_role peer, int timeout_ms, uint16_t *ret_type,
    struct buf *body, int *fds, size_t *nfds, struct err *err)
{
	int got[IPC_FDS_MAX] = {0};
	struct sync s = {
	    .fd = fd, .deadline = timeout_ms < 0 ? -1 : mono_ms() + timeout_ms, .fds = got};
	struct ipc_frame f;
	int rc;

	buf_reset(body);
	rc = frame_read(&s, self, peer, &f, body, err);
	/* A caller that names no place for descriptors expects none. */
	if (rc == 0 && s.nfds != 0 && fds == NULL)
		rc = err_set(err, ERR_PROTOCOL, "%s with descriptors was not expected here",
		    ipc_msg_name(f.type));
	if (rc != 0) {
		ipc_close_fds(got, s.nfds);
		return rc;
	}
	if (fds != NULL && s.nfds != 0)
		memcpy(fds, got, s.nfds * sizeof(int));
	if (nfds != NULL)
		*nfds = s.nfds;
	*ret_type = f.type;
	return 0;
}

int
ipc_connect(const char *path, int *ret_fd, struct err *err)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *dir = NULL;
	AUTO_FD int dirfd = -1;
	AUTO_FD int fd = -1;
	int n;

	dir = slash == NULL ? str_dup(STR("."))
			    : str_dup(str_mem(path, slash == path ? 1 : (size_t)(slash - path)));
	dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "%s", dir);
	n = snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", dirfd,
	    slash != NULL ? slash + 1 : path);
	if (n < 0 || (size_t)n >= sizeof(sa.sun_path))
		return err_set(err, ERR_INVALID, "%s: the name of a socket is too long", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "socket");
	if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "%s", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}
