/*
 * Fuzz target: the readers of frames. The first byte picks who speaks to whom, the second
 * where the bytes are cut in two, the third how many descriptors travel with each half; the
 * rest is the wire. The reader on the loop and the blocking one must hand out the same
 * frames, and no descriptor may be left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/ipc.h"
#include "common/ipc_frame.h"
#include "common/log.h"

#include "common/banned.h"

#define INPUT_MAX ((size_t)64 << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
	enum ipc_role self, peer;
} pairs[] = {
    {IPC_ROLE_PARENT, IPC_ROLE_CORE},
    {IPC_ROLE_PARENT, IPC_ROLE_FRONT},
    {IPC_ROLE_CORE, IPC_ROLE_PARENT},
    {IPC_ROLE_CORE, IPC_ROLE_FRONT},
    {IPC_ROLE_CORE, IPC_ROLE_AGENT},
    {IPC_ROLE_CORE, IPC_ROLE_CLI},
    {IPC_ROLE_CORE, IPC_ROLE_PARSER},
    {IPC_ROLE_UPSTREAM, IPC_ROLE_CORE},
    {IPC_ROLE_FRONT, IPC_ROLE_UPSTREAM},
    {IPC_ROLE_WRITER, IPC_ROLE_UPSTREAM},
};

struct seen {
	size_t frames;
	struct hash_ctx *all; /* type, body and descriptor count of each frame */
};

static struct loop *loop;

static void
note(struct seen *s, uint16_t type, struct str body, size_t nfds)
{
	uint32_t head[3] = {type, (uint32_t)body.n, (uint32_t)nfds};

	s->frames++;
	hash_add(s->all, head, sizeof(head));
	hash_add(s->all, body.p, body.n);
}

static int
on_msg(void *arg, struct ipc *w UNUSED, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err UNUSED)
{
	for (size_t i = 0; i < nfds; i++)
		if (fcntl(fds[i], F_GETFD) != FD_CLOEXEC)
			abort();
	note(arg, type, str_mem(body->p, body->n), nfds);
	return 0;
}

static void
on_gone(void *arg UNUSED, struct ipc *w, const char *why UNUSED)
{
	ipc_free(w);
	loop_stop(loop, 0);
}

static void
send_part(int fd, const uint8_t *p, size_t n, size_t nfds)
{
	static const int some[IPC_FDS_MAX + 1] = {0, 0, 0, 0, 0};
	union {
		char b[CMSG_SPACE(sizeof(some))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {(void *)(uintptr_t)p, n};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *h;

	if (n == 0)
		return;
	if (nfds != 0) {
		m.msg_control = control.b;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(h), some, nfds * sizeof(int));
	}
	if (sendmsg(fd, &m, MSG_NOSIGNAL) != (ssize_t)n)
		abort();
}

/* A socket that holds the whole input and then the end. */
static int
filled(const uint8_t *data, size_t size)
{
	size_t cut = data[1] < size - 3 ? data[1] : size - 3;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0)
		abort();
	send_part(sv[1], data + 3, cut, ((size_t)data[2] & 15) % (IPC_FDS_MAX + 2));
	send_part(sv[1], data + 3 + cut, size - 3 - cut, (data[2] >> 4) % (IPC_FDS_MAX + 2));
	(void)close(sv[1]);
	return sv[0];
}

static void
read_by_loop(const uint8_t *data, size_t size, struct seen *s)
{
	(void)ipc_new(loop, filled(data, size), pairs[data[0] % ARRAY_LEN(pairs)].self,
	    pairs[data[0] % ARRAY_LEN(pairs)].peer, on_msg, on_gone, s);
	(void)loop_run(loop);
}

static void
read_blocking(const uint8_t *data, size_t size, struct seen *s)
{
	AUTO_FD int fd = filled(data, size);
	AUTO_BUF struct buf body = BUF(IPC_BODY_MAX);
	int fds[IPC_FDS_MAX];
	size_t nfds;
	uint16_t type;

	while (ipc_sync_recv(fd, pairs[data[0] % ARRAY_LEN(pairs)].self,
		   pairs[data[0] % ARRAY_LEN(pairs)].peer, 1000, &type, &body, fds, &nfds,
		   NULL) == 0) {
		note(s, type, buf_str(&body), nfds);
		ipc_close_fds(fds, nfds);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen a = {0}, b = {0};
	struct hash x, y;
	int lowest;

	if (size < 3 || size > INPUT_MAX)
		return 0;
	if (loop == NULL) {
		log_init("fuzz", LOG_ERROR_);
		loop = loop_new();
	}
	a.all = hash_begin();
	b.all = hash_begin();
	lowest = dup(0);
	(void)close(lowest);
	read_by_loop(data, size, &a);
	read_blocking(data, size, &b);
	x = hash_end(a.all);
	y = hash_end(b.all);
	/*
	 * The blocking reader sees stray descriptors in a body at once, the other when the frame
	 * is whole; where descriptors come in the wrong place they may part, else never.
	 */
	if (data[2] == 0 && (a.frames != b.frames || !hash_eq(&x, &y)))
		abort();
	if (dup(0) != lowest)
		abort(); /* a descriptor was left open */
	(void)close(lowest);
	return 0;
}
