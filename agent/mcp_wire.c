/*
 * Frames between hub, jobs and workers of cofferdam-mcp. The hub's side never blocks and is bounded
 * both ways; the other sides block, each with one thing to wait for.
 */
#include "agent/mcp_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define READ_CHUNK ((size_t)16384)

void
mcp_frame_put(struct buf *out, enum mcp_frame type, struct str body)
{
	buf_u32(out, (uint32_t)(body.n + 1));
	buf_u8(out, (uint8_t)type);
	buf_put_str(out, body);
}

/* --- blocking --------------------------------------------------------------------------- */

int
mcp_frame_send(int fd, enum mcp_frame type, struct str body, struct err *err)
{
	AUTO_BUF struct buf b = BUF(MCP_WIRE_MAX + 8);
	size_t at = 0;

	mcp_frame_put(&b, type, body);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "a frame of %zu bytes", body.n);
	while (at < b.n) {
		ssize_t n = send(fd, b.p + at, b.n - at, MSG_NOSIGNAL);

		if (n > 0)
			at += (size_t)n;
		else if (errno != EINTR)
			return err_sys(err, ERR_UNAVAILABLE, errno, "the server's own socket");
	}
	return 0;
}

static int
recv_some(int fd, void *p, size_t n, uint64_t until_us, bool ever, struct err *err)
{
	size_t at = 0;

	while (at < n) {
		struct pollfd f = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_boot_us();
		int rc = poll(&f, 1,
		    ever	     ? -1
		    : now < until_us ? (int)((until_us - now) / 1000 + 1)
				     : 0);
		ssize_t k;

		if (rc == 0)
			return err_set(err, ERR_TIMEOUT, "no frame in time");
		if (rc < 0 && errno == EINTR)
			continue;
		k = rc < 0 ? -1 : read(fd, (char *)p + at, n - at);
		if (k > 0)
			at += (size_t)k;
		else if (k == 0 || errno != EINTR)
			return err_set(
			    err, ERR_UNAVAILABLE, "the server's own socket is at its end");
	}
	return 0;
}

int
mcp_frame_recv(int fd, int ms, enum mcp_frame *ret_type, struct buf *ret, struct err *err)
{
	uint64_t until = clock_boot_us() + (uint64_t)(ms > 0 ? ms : 0) * 1000;
	uint8_t head[5];
	struct rd r;
	uint32_t n;
	uint8_t *p;
	int rc = recv_some(fd, head, sizeof(head), until, ms < 0, err);

	if (rc != 0)
		return rc;
	r = rd_init(str_mem(head, sizeof(head)));
	n = rd_u32(&r);
	*ret_type = (enum mcp_frame)rd_u8(&r);
	if (n == 0 || n > MCP_WIRE_MAX || (n > 1 && (p = buf_grow(ret, n - 1)) == NULL))
		return err_set(err, ERR_PROTOCOL, "a frame of %u bytes", n);
	return n == 1 ? 0 : recv_some(fd, ret->p + ret->n - (n - 1), n - 1, until, true, err);
}

/* --- in the hub ------------------------------------------------------------------------- */

struct mcp_wire {
	int fd;
	struct loop *loop;
	struct loop_io *io;
	mcp_wire_fn *fn;
	void *arg;
	struct buf in, out;
	size_t out_at;
	bool broken;
	bool *freed; /* set when it is freed inside its own callback */
};

static bool
flush(struct mcp_wire *w)
{
	while (w->out_at < w->out.n) {
		ssize_t n = send(
		    w->fd, w->out.p + w->out_at, w->out.n - w->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			w->out_at += (size_t)n;
		else if (errno == EAGAIN)
			return true;
		else if (errno != EINTR)
			return false;
	}
	buf_reset(&w->out);
	w->out_at = 0;
	return true;
}

/* One whole frame, if there is one. 1: there was; 0: not yet; -1: what came is none. */
static int
frame_take(struct mcp_wire *w, bool *freed)
{
	AUTO_BUF struct buf body = BUF(MCP_WIRE_MAX);
	struct rd r = rd_init(buf_str(&w->in));
	enum mcp_frame type;
	uint32_t n;

	if (w->in.n < 5)
		return 0;
	n = rd_u32(&r);
	if (n == 0 || n > MCP_WIRE_MAX)
		return -1;
	if (w->in.n < 4 + (size_t)n)
		return 0;
	type = (enum mcp_frame)rd_u8(&r);
	buf_put_str(&body, rd_bytes(&r, n - 1));
	buf_drop(&w->in, 4 + (size_t)n);
	w->freed = freed;
	w->fn(w->arg, type, buf_str(&body));
	if (!*freed)
		w->freed = NULL;
	return type != 0 ? 1 : -1;
}

static void
on_io(void *arg, uint32_t events)
{
	struct mcp_wire *w = arg;
	bool freed = false, over = w->broken;
	int rc = 1;

	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
		uint8_t room[READ_CHUNK];
		ssize_t n = read(w->fd, room, sizeof(room));

		if (n > 0)
			buf_put(&w->in, room, (size_t)n);
		over = over || n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
	}
	while (rc == 1 && !freed)
		rc = frame_take(w, &freed);
	if (freed)
		return;
	if (over || rc < 0 || buf_over(&w->in) || !flush(w)) {
		w->fn(w->arg, 0, STR(""));
		return;
	}
	loop_io_events(w->io, EPOLLIN | (w->out.n != 0 ? EPOLLOUT : 0));
}

struct mcp_wire *
mcp_wire_new(struct loop *loop, int fd, mcp_wire_fn *fn, void *arg)
{
	struct mcp_wire *w = xcalloc(1, sizeof(*w));

	*w = (struct mcp_wire){.fd = fd, .loop = loop, .fn = fn, .arg = arg};
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	buf_init(&w->in, MCP_WIRE_MAX + READ_CHUNK + 8);
	buf_init(&w->out, MCP_WIRE_MAX + 8);
	w->io = loop_io_add(loop, fd, EPOLLIN, on_io, w);
	return w;
}

void
mcp_wire_send(struct mcp_wire *w, enum mcp_frame type, struct str body)
{
	if (body.n + 5 > w->out.max - w->out.n) { /* what was taken does not count */
		buf_drop(&w->out, w->out_at);
		w->out_at = 0;
	}
	mcp_frame_put(&w->out, type, body);
	if (buf_over(&w->out) || !flush(w)) {
		w->broken = true;
		(void)shutdown(w->fd, SHUT_RDWR); /* the loop will see it */
		return;
	}
	loop_io_events(w->io, EPOLLIN | (w->out.n != 0 ? EPOLLOUT : 0));
}

void
mcp_wire_free(struct mcp_wire *w)
{
	if (w == NULL)
		return;
	if (w->freed != NULL)
		*w->freed = true;
	(void)flush(w);
	loop_io_del(w->io);
	(void)close(w->fd);
	buf_free(&w->in);
	buf_free(&w->out);
	free(w);
}
