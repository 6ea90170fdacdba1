/*
 * Framed messages over a unix stream socket, driven by the loop. Runs in every broker
 * process. The peer may be taken over: each header is held against the table before a
 * byte of its body is stored, a descriptor that no frame asked for ends the wire, and
 * nothing a peer sends makes this process hold more than one frame and IPC_FDS_MAX
 * descriptors. Must never block, and must never call back from inside ipc_send().
 */
#include "common/ipc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/ipc_frame.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define READ_MIN ((size_t)64 << 10)
#define IOV_FRAMES 64
#define DRAIN_ROUNDS 256

struct out {
	struct out *next;
	int fds[IPC_FDS_MAX];
	size_t nfds, n, off;
	uint8_t data[];
};

struct ipc {
	struct loop *loop;
	struct loop_io *io;
	struct loop_timer *kick; /* runs kicked() from the loop */
	int fd;
	enum ipc_role self, peer;
	ipc_msg_fn *fn;
	ipc_gone_fn *gone;
	void *arg;

	struct buf in;
	size_t pos; /* frames before it are handled */
	int fds[IPC_FDS_MAX];
	size_t nfds;

	struct out *first, **last;
	size_t queued;
	bool reading, busy, freed, broken;
	bool lazy;	/* what is sent waits for the loop's next turn */
	bool stalled;	/* reading stopped with whole frames in `in` */
	bool draining;	/* the last words: handled whatever `reading` says */
	struct err why; /* set with broken */
};

static void on_io(void *arg, uint32_t events);
static void kicked(void *arg);

/* --- life ----------------------------------------------------------------------------- */

/* Epoll reports a hang-up even for no events: a wire that wants nothing is taken out. */
static void
watch(struct ipc *w)
{
	uint32_t ev = 0;

	if (w->reading)
		ev |= EPOLLIN;
	if (w->first != NULL)
		ev |= EPOLLOUT;
	if (w->freed || w->broken)
		ev = 0;
	if (ev == 0) {
		loop_io_del(w->io);
		w->io = NULL;
	} else if (w->io == NULL) {
		w->io = loop_io_add(w->loop, w->fd, ev, on_io, w);
	} else {
		loop_io_events(w->io, ev);
	}
}

static void
kick(struct ipc *w)
{
	if (w->kick == NULL && !w->freed)
		w->kick = loop_timer_add(w->loop, 0, kicked, w);
}

struct ipc *
ipc_new(struct loop *loop, int fd, enum ipc_role self, enum ipc_role peer, ipc_msg_fn *fn,
    ipc_gone_fn *gone, void *arg)
{
	struct ipc *w = xcalloc(1, sizeof(*w));
	int fl = fcntl(fd, F_GETFL);

	if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) != 0)
		fatal("ipc: descriptor %d: %s", fd, strerror(errno));
	w->loop = loop;
	w->fd = fd;
	w->self = self;
	w->peer = peer;
	w->fn = fn;
	w->gone = gone;
	w->arg = arg;
	w->last = &w->first;
	w->reading = true;
	buf_init(&w->in, IPC_HEADER + IPC_BODY_MAX + READ_MIN);
	watch(w);
	return w;
}

static void
out_pop(struct ipc *w)
{
	struct out *o = w->first;

	w->first = o->next;
	if (w->first == NULL)
		w->last = &w->first;
	w->queued -= o->n - o->off;
	ipc_close_fds(o->fds, o->nfds);
	explicit_bzero(o->data, o->n); /* a frame may carry a credential */
	free(o);
}

void
ipc_free(struct ipc *w)
{
	if (w == NULL || w->freed)
		return;
	w->freed = true;
	watch(w);
	loop_timer_del(w->kick);
	while (w->first != NULL)
		out_pop(w);
	ipc_close_fds(w->fds, w->nfds);
	(void)close(w->fd);
	if (w->busy)
		return; /* the body is still in use; end_busy() comes here again */
	buf_free(&w->in);
	free(w);
}

/* False: w is no more. */
static bool
end_busy(struct ipc *w)
{
	w->busy = false;
	if (!w->freed)
		return true;
	buf_free(&w->in);
	free(w);
	return false;
}

/* The wire is over; its owner hears of it from the loop. The first reason stays. */
static void PRINTF_LIKE(2, 3) broken(struct ipc *w, const char *fmt, ...)
{
	va_list ap;

	if (w->broken)
		return;
	w->broken = true;
	va_start(ap, fmt);
	(void)vsnprintf(w->why.msg, sizeof(w->why.msg), fmt, ap);
	va_end(ap);
	while (w->first != NULL)
		out_pop(w);
	watch(w);
	kick(w);
}

/* --- receiving ------------------------------------------------------------------------ */

static int
frame_handle(struct ipc *w, const struct ipc_frame *f, struct err *err)
{
	struct rd body = rd_init(str_mem(w->in.p + w->pos + IPC_HEADER, f->body));
	int fds[IPC_FDS_MAX];
	int rc;

	memcpy(fds, w->fds, f->nfds * sizeof(int));
	w->nfds -= f->nfds;
	memmove(w->fds, w->fds + f->nfds, w->nfds * sizeof(int));
	w->pos += IPC_HEADER + f->body;
	rc = w->fn(w->arg, w, f->type, &body, fds, f->nfds, err);
	ipc_close_fds(fds, f->nfds);
	if (rc == 0)
		return 0;
	if (err->code == 0)
		return err_set(err, ERR_PROTOCOL, "%s was refused", ipc_msg_name(f->type));
	return err_wrap(err, "%s", ipc_msg_name(f->type));
}

/* 1: a frame was handled; 0: more bytes are needed; else an error that ends the wire. */
static int
frame_next(struct ipc *w, struct err *err)
{
	size_t have = w->in.n - w->pos;
	struct ipc_frame f;
	int rc;

	if (have < IPC_HEADER) {
		if (have == 0 && w->nfds != 0)
			return err_set(
			    err, ERR_PROTOCOL, "%zu descriptors without a frame", w->nfds);
		return 0;
	}
	rc = ipc_frame_decode(w->in.p + w->pos, w->peer, w->self, &f, err);
	if (rc != 0)
		return rc;
	if (w->nfds < f.nfds)
		return err_set(
		    err, ERR_PROTOCOL, "%s came without its descriptors", ipc_msg_name(f.type));
	if (have - IPC_HEADER < f.body) {
		if (w->nfds != f.nfds)
			return err_set(err, ERR_PROTOCOL, "%s with %zu descriptors, must have %u",
			    ipc_msg_name(f.type), w->nfds, f.nfds);
		return 0;
	}
	rc = frame_handle(w, &f, err);
	return rc != 0 ? rc : 1;
}

/* Forget (and wipe) what was handled. */
static void
in_compact(struct ipc *w)
{
	size_t n = w->in.n;

	if (w->pos == 0)
		return;
	if (w->pos == n) {
		buf_reset(&w->in);
	} else {
		buf_drop(&w->in, w->pos);
		explicit_bzero(w->in.p + w->in.n, n - w->in.n);
	}
	w->pos = 0;
}

/* Handle the frames that are here. False: w is no more, or broken. */
static bool
dispatch(struct ipc *w)
{
	struct err err = {0};
	int rc = 1;

	w->busy = true;
	while (rc > 0 && !w->freed && !w->broken && (w->reading || w->draining))
		rc = frame_next(w, &err);
	if (!end_busy(w))
		return false;
	w->stalled = rc > 0;
	if (rc < 0)
		broken(w, "%s", err.msg);
	if (!w->broken)
		in_compact(w);
	return !w->broken;
}

/* Room for the rest of the frame that has begun, or for what a socket holds. */
static size_t
read_size(const struct ipc *w)
{
	struct rd r = rd_init(str_mem(w->in.p, w->in.n));
	size_t body = rd_u32(&r), want;

	/* The header has passed the table, the frame is not whole: frame_next() saw it. */
	if (r.bad || w->in.n < IPC_HEADER)
		return READ_MIN;
	want = IPC_HEADER + body - w->in.n;
	return want > READ_MIN ? want : READ_MIN;
}

/* One recvmsg and what follows from it. 1: go on; 0: nothing there; -1: freed or broken. */
static int
receive_more(struct ipc *w)
{
	union ipc_control control;
	size_t had = w->in.n, room = read_size(w);
	struct iovec iov = {.iov_base = buf_grow(&w->in, room), .iov_len = room};
	struct msghdr m = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.b,
	    .msg_controllen = sizeof(control.b)};
	ssize_t n;
	int fds[IPC_FDS_MAX];
	size_t nfds;

	assert(iov.iov_base != NULL);
	n = recvmsg(w->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	w->in.n = had + (n > 0 ? (size_t)n : 0);
	if (n < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return 0;
		broken(w, "%s: %s", ipc_role_name(w->peer), strerror(errno));
		return -1;
	}
	nfds = ipc_control_take(&m, fds);
	if ((m.msg_flags & MSG_CTRUNC) != 0 || nfds > IPC_FDS_MAX - w->nfds) {
		ipc_close_fds(fds, nfds);
		broken(w, "%s sent more than %d descriptors", ipc_role_name(w->peer), IPC_FDS_MAX);
		return -1;
	}
	if (nfds != 0)
		memcpy(w->fds + w->nfds, fds, nfds * sizeof(int));
	w->nfds += nfds;
	if (n == 0) {
		broken(w, "%s closed the wire%s", ipc_role_name(w->peer),
		    w->in.n != w->pos ? " in the middle of a frame" : "");
		return -1;
	}
	return dispatch(w) ? 1 : -1;
}

static int
receive(struct ipc *w)
{
	if (w->stalled)
		return dispatch(w) ? 1 : -1;
	return receive_more(w);
}

/* --- sending -------------------------------------------------------------------------- */

static ssize_t
send_some(struct ipc *w, struct iovec *iov, size_t niov, const int *fds, size_t nfds)
{
	union ipc_control control;
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = niov};
	ssize_t n;

	ipc_control_put(&m, &control, fds, nfds);
	do
		n = sendmsg(w->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n;
}

/*
 * What the peer said before it went is still wanted (its last log lines): the reading
 * side reports the end, from the loop.
 */
static void
send_failed(struct ipc *w, int errnum)
{
	while (w->first != NULL)
		out_pop(w);
	if (w->why.msg[0] == '\0')
		(void)snprintf(w->why.msg, sizeof(w->why.msg), "sending to %s: %s",
		    ipc_role_name(w->peer), strerror(errnum));
	watch(w);
	kick(w);
}

/* One sendmsg for a run of frames: descriptors go with the first byte of their own. */
static bool
flush_run(struct ipc *w)
{
	struct iovec iov[IOV_FRAMES];
	size_t k = 0;
	ssize_t n;

	for (struct out *o = w->first; o != NULL && k < IOV_FRAMES; o = o->next) {
		if (k != 0 && o->nfds != 0)
			break;
		iov[k].iov_base = o->data + o->off;
		iov[k].iov_len = o->n - o->off;
		k++;
	}
	n = send_some(w, iov, k, w->first->fds, w->first->nfds);
	if (n < 0) {
		if (errno != EAGAIN)
			send_failed(w, errno);
		return false;
	}
	ipc_close_fds(w->first->fds, w->first->nfds);
	w->first->nfds = 0;
	for (size_t left = (size_t)n; w->first != NULL && left != 0;) {
		struct out *o = w->first;
		size_t part = left < o->n - o->off ? left : o->n - o->off;

		o->off += part;
		w->queued -= part;
		left -= part;
		if (o->off == o->n)
			out_pop(w);
	}
	return w->first != NULL;
}

static void
enqueue(struct ipc *w, const struct iovec iov[2], size_t skip, const int *fds, size_t nfds)
{
	size_t total = iov[0].iov_len + iov[1].iov_len;
	struct out *o = xmalloc(sizeof(*o) + total);

	*o = (struct out){.n = total, .off = skip};
	memcpy(o->data, iov[0].iov_base, iov[0].iov_len);
	if (iov[1].iov_len != 0)
		memcpy(o->data + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	for (size_t i = 0; i < nfds; i++) {
		o->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
		if (o->fds[i] < 0)
			fatal("ipc: duplicating descriptor %d: %s", fds[i], strerror(errno));
		o->nfds++;
	}
	*w->last = o;
	w->last = &o->next;
	w->queued += total - skip;
	if (w->queued > IPC_QUEUE_MAX)
		broken(w, "%s does not read: %zu bytes wait, at most %zu", ipc_role_name(w->peer),
		    w->queued, IPC_QUEUE_MAX);
	watch(w);
}

void
ipc_send(struct ipc *w, uint16_t type, const struct buf *body, const int *fds, size_t nfds)
{
	AUTO_BUF struct buf head = BUF(IPC_HEADER);
	struct iovec iov[2] = {{0}};
	ssize_t n = 0;

	ipc_frame_must_fit(w->self, w->peer, type, body, nfds);
	if (!ipc_sound(w))
		return;
	ipc_frame_encode(&head, type, body != NULL ? body->n : 0, nfds);
	iov[0].iov_base = head.p;
	iov[0].iov_len = head.n;
	if (body != NULL && body->n != 0) {
		iov[1].iov_base = body->p;
		iov[1].iov_len = body->n;
	}
	if (w->first == NULL && !w->lazy) {
		n = send_some(w, iov, iov[1].iov_len != 0 ? 2 : 1, fds, nfds);
		if (n < 0 && errno != EAGAIN) {
			send_failed(w, errno);
			return;
		}
		if (n < 0)
			n = 0;
		if ((size_t)n == iov[0].iov_len + iov[1].iov_len)
			return;
	}
	enqueue(w, iov, (size_t)n, fds, n != 0 ? 0 : nfds);
}

void
ipc_lazy(struct ipc *w, bool on)
{
	w->lazy = on;
	while (!on && w->first != NULL && flush_run(w))
		;
	watch(w);
}

/* --- from the loop --------------------------------------------------------------------- */

static void
on_io(void *arg, uint32_t events)
{
	struct ipc *w = arg;

	if ((events & EPOLLOUT) != 0)
		while (w->first != NULL && flush_run(w))
			;
	if (w->reading && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && receive(w) < 0)
		return;
	watch(w);
}

/* Reading was switched on with frames waiting, or the wire broke while nobody looked. */
static void
kicked(void *arg)
{
	struct ipc *w = arg;
	struct err why;

	w->kick = NULL;
	if (!w->broken && w->why.msg[0] == '\0') {
		(void)dispatch(w);
		return;
	}
	w->draining = true;
	for (int i = 0; !w->broken && i < DRAIN_ROUNDS; i++) {
		int rc = receive(w);

		if (rc < 0)
			return; /* freed, or broken, which kicked again */
		if (rc == 0)
			break;
	}
	w->broken = true;
	watch(w);
	/* The callback frees the wire and then wants to log why. */
	why = w->why;
	w->gone(w->arg, w, why.msg);
}

size_t
ipc_queued(const struct ipc *w)
{
	return w->queued;
}

bool
ipc_sound(const struct ipc *w)
{
	return !w->freed && !w->broken && w->why.msg[0] == '\0';
}

int
ipc_fd(const struct ipc *w)
{
	return w->fd;
}

void
ipc_read_enable(struct ipc *w, bool on)
{
	if (w->freed || w->reading == on)
		return;
	w->reading = on;
	if (on && w->stalled)
		kick(w);
	watch(w);
}
