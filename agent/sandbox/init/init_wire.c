/*
 * Frames between pid 1 and the supervisor. Nothing here waits for more than 10 seconds, and never
 * for code inside: only the supervisor has the other end. Runs in pid 1 itself, never in a minder.
 */
#include "agent/sandbox/init/init_wire.h"
#include "agent/sandbox/init/init_text.h"

#include "common/banned.h"

#define WIRE_SECONDS 10
#define WIRE_FDS 7
#define FLIGHT_TRIES 5 /* a receiver takes what is in flight */
#define FLIGHT_MS 10

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int) * WIRE_FDS)];
};

/* Ends the process at the tenth second of nothing. Counted by seconds that were really waited, as
 * all of the sandbox may have been frozen meanwhile. */
static void
wire_wait(short events, int *seconds)
{
	struct pollfd p = {.fd = INSIDE_WIRE_FD, .events = events};
	int rc = sys_poll(&p, 1, 1000);

	if ((rc < 0 && rc != -EINTR) || (rc == 0 && ++*seconds >= WIRE_SECONDS))
		sys_exit(1);
}

/* What poll knows nothing of: memory, and the descriptors of others. */
static void
wire_sleep(int ms)
{
	(void)sys_poll(NULL, 0, ms);
}

/* Heads and bodies behind the first `done` bytes; their size, 0 when that is all. */
static size_t
frames_left(const struct wire_frame *f, const struct inside_head *heads, int n, size_t done,
    struct iovec iov[2 * WIRE_FRAMES_MAX])
{
	size_t left = 0;

	for (int i = 0; i < 2 * n; i++) {
		const char *p = i % 2 == 0 ? (const char *)&heads[i / 2] : f[i / 2].body;
		size_t size = i % 2 == 0 ? sizeof(*heads) : f[i / 2].n;
		size_t skip = done < size ? done : size;

		done -= skip;
		left += size - skip;
		iov[i] = (struct iovec){
		    size != skip ? (char *)(uintptr_t)(p + skip) : NULL, size - skip};
	}
	return left;
}

bool
wire_send_frames(const struct wire_frame *f, int n, const int *fds, int nfds)
{
	struct inside_head heads[WIRE_FRAMES_MAX];
	size_t fds_size = sizeof(int) * (size_t)nfds, done = 0;
	struct iovec iov[2 * WIRE_FRAMES_MAX];
	union control c;
	int seconds = 0, flights = 0, short_ms = 0;

	for (int i = 0; i < n; i++)
		heads[i] = (struct inside_head){.size = (uint32_t)f[i].n,
		    .type = (uint16_t)f[i].type,
		    .nfds = (uint16_t)(i == 0 ? nfds : 0),
		    .proc = f[i].proc,
		    .a = f[i].a};
	while (frames_left(f, heads, n, done, iov) != 0) {
		struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2 * (size_t)n};
		long rc;

		if (done == 0 && nfds != 0) {
			c.head.cmsg_level = SOL_SOCKET;
			c.head.cmsg_type = SCM_RIGHTS;
			c.head.cmsg_len = CMSG_LEN(fds_size);
			memcpy(CMSG_DATA(&c.head), fds, fds_size);
			m.msg_control = &c;
			m.msg_controllen = CMSG_SPACE(fds_size);
		}
		rc =
		    sys_call(SYS_sendmsg, INSIDE_WIRE_FD, P(&m), MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
		if (rc > 0)
			done += (size_t)rc;
		else if (rc == -EAGAIN)
			wire_wait(POLLOUT, &seconds);
		else if (rc == -ETOOMANYREFS && flights == FLIGHT_TRIES)
			return false;
		else if (rc == -ETOOMANYREFS || rc == -ENOBUFS) {
			flights += rc == -ETOOMANYREFS ? 1 : 0;
			wire_sleep(FLIGHT_MS);
			if ((short_ms += FLIGHT_MS) >= WIRE_SECONDS * 1000)
				sys_exit(1);
		} else if (rc != -EINTR)
			sys_exit(1);
	}
	return true;
}

bool
wire_send(enum inside_type type, uint32_t proc, uint32_t a, const void *body, size_t n,
    const int *fds, int nfds)
{
	return wire_send_frames(&(struct wire_frame){type, proc, a, body, n}, 1, fds, nfds);
}

void
wire_send_text(enum inside_type type, uint32_t proc, uint32_t a, const char *text)
{
	(void)wire_send(type, proc, a, text, strlen(text), NULL, 0);
}

_Noreturn void
wire_fatal(const char *text)
{
	wire_send_text(INSIDE_FATAL, 0, 0, text);
	sys_exit(1);
}

static void
fds_take(const struct msghdr *m, const union control *c, int *fds, int *nfds, int max)
{
	size_t n = 0;

	if (m->msg_controllen >= sizeof(c->head) && c->head.cmsg_level == SOL_SOCKET &&
	    c->head.cmsg_type == SCM_RIGHTS && c->head.cmsg_len <= sizeof(*c))
		n = (c->head.cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(&c->head) + i * sizeof(int), sizeof(fd));
		if (*nfds >= 0 && *nfds < max) {
			fds[(*nfds)++] = fd;
			continue;
		}
		(void)sys_close(fd);
		while (*nfds > 0)
			(void)sys_close(fds[--(*nfds)]);
		*nfds = -1;
	}
	if ((m->msg_flags & MSG_CTRUNC) != 0) {
		while (*nfds > 0)
			(void)sys_close(fds[--(*nfds)]);
		*nfds = -1;
	}
}

void
wire_read(void *p, size_t n, int *fds, int *nfds, int max)
{
	size_t done = 0;
	int seconds = 0;

	while (done < n) {
		union control c = {.head = {0}};
		struct iovec iov = {(char *)p + done, n - done};
		struct msghdr m = {.msg_iov = &iov,
		    .msg_iovlen = 1,
		    .msg_control = &c,
		    .msg_controllen = sizeof(c)};
		long rc = sys_call(
		    SYS_recvmsg, INSIDE_WIRE_FD, P(&m), MSG_CMSG_CLOEXEC | MSG_DONTWAIT, 0, 0);

		if (rc == 0)
			sys_exit(0); /* the supervisor is gone: with us goes everything */
		if (rc > 0) {
			fds_take(&m, &c, fds, nfds, max);
			done += (size_t)rc;
		} else if (rc == -EAGAIN)
			wire_wait(POLLIN, &seconds);
		else if (rc != -EINTR)
			sys_exit(1);
	}
}

void
wire_drop(size_t n)
{
	static char sink[4096];
	int none = 0;

	while (n != 0) {
		size_t k = n < sizeof(sink) ? n : sizeof(sink);

		wire_read(sink, k, NULL, &none, 0);
		n -= k;
	}
}
