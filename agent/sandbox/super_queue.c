/*
 * Sockets that nobody waits for: what cannot be sent now is kept, up to a limit, and what has not
 * come yet is read later. Runs in the supervisor, towards its callers and towards pid 1. Must never
 * block and never keep a descriptor that nobody asked for.
 */
#include "agent/sandbox/super_state.h"

#include <fcntl.h>

#include "common/xalloc.h"

#include "common/banned.h"

struct super_item {
	struct super_item *next;
	size_t n, off, nfds;
	int *fds; /* own duplicates */
	uint8_t bytes[];
};

/* Bytes taken; 0: nothing now; -1: broken; -ETOOMANYREFS: these descriptors cannot go. */
static ssize_t
send_some(int fd, struct iovec *iov, size_t niov, const int *fds, size_t nfds)
{
	union wire_control c = {0};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = niov};
	ssize_t k;

	if (nfds != 0)
		wire_rights(&m, &c, fds, nfds);
	do
		k = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (k < 0 && errno == EINTR);
	if (k < 0)
		return errno == EAGAIN || errno == ENOBUFS ? 0
		       : errno == ETOOMANYREFS		   ? -ETOOMANYREFS
							   : -1;
	return k;
}

static void
item_free(struct super_item *it)
{
	super_fds_close(it->fds, &it->nfds);
	free(it->fds);
	free(it);
}

/* What is behind the first `off` bytes of both. */
static bool
item_add(struct super_queue *q, struct str head, struct str body, size_t off, const int *fds,
    size_t nfds)
{
	size_t n = head.n + body.n - off, k = 0;
	struct super_item *it = xcalloc(1, sizeof(*it) + n);

	it->fds = xcalloc(nfds + 1, sizeof(int));
	for (; it->nfds < nfds; it->nfds++) {
		it->fds[it->nfds] = fcntl(fds[it->nfds], F_DUPFD_CLOEXEC, 0);
		if (it->fds[it->nfds] < 0) {
			item_free(it);
			return false;
		}
	}
	if (off < head.n) {
		k = head.n - off;
		memcpy(it->bytes, head.p + off, k);
		off = head.n;
	}
	if (n > k)
		memcpy(it->bytes + k, body.p + (off - head.n), n - k);
	it->n = n;
	if (q->first == NULL)
		q->last = &q->first;
	*q->last = it;
	q->last = &it->next;
	q->bytes += n;
	q->items++;
	return true;
}

int
super_queue_put(struct super_queue *q, int fd, struct str head, struct str body, const int *fds,
    size_t nfds, size_t max)
{
	struct iovec iov[2] = {
	    {(void *)(uintptr_t)head.p, head.n}, {(void *)(uintptr_t)body.p, body.n}};
	ssize_t k = 0;

	if (q->first == NULL)
		k = send_some(fd, iov, body.n != 0 ? 2 : 1, fds, nfds);
	if (k < 0)
		return (int)k;
	if ((size_t)k == head.n + body.n)
		return 0;
	if (q->bytes > max || head.n + body.n > max - q->bytes)
		return -1;
	return item_add(q, head, body, (size_t)k, fds, k == 0 ? nfds : 0) ? 0 : -1;
}

bool
super_queue_flush(struct super_queue *q, int fd, bool *ret_moved)
{
	*ret_moved = false;
	while (q->first != NULL) {
		struct super_item *it = q->first;
		struct iovec iov = {it->bytes + it->off, it->n - it->off};
		ssize_t k = send_some(fd, &iov, 1, it->fds, it->nfds);

		if (k <= 0)
			return k == 0;
		*ret_moved = true;
		super_fds_close(it->fds, &it->nfds);
		it->off += (size_t)k;
		q->bytes -= (size_t)k;
		if (it->off < it->n)
			continue;
		q->first = it->next;
		q->items--;
		item_free(it);
	}
	return true;
}

void
super_queue_free(struct super_queue *q)
{
	while (q->first != NULL) {
		struct super_item *it = q->first;

		q->first = it->next;
		item_free(it);
	}
	*q = (struct super_queue){0};
}

void
super_fds_close(int *fds, size_t *nfds)
{
	for (size_t i = 0; i < *nfds; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	*nfds = 0;
}

/* False: more than there is room for; the rest is closed. */
static bool
fds_take(struct msghdr *m, int *fds, size_t *nfds, size_t max)
{
	bool ok = (m->msg_flags & MSG_CTRUNC) == 0;

	for (struct cmsghdr *q = CMSG_FIRSTHDR(m); q != NULL; q = CMSG_NXTHDR(m, q)) {
		size_t n = (q->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (q->cmsg_level != SOL_SOCKET || q->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int got;

			memcpy(&got, CMSG_DATA(q) + i * sizeof(int), sizeof(int));
			if (*nfds < max) {
				fds[(*nfds)++] = got;
				continue;
			}
			(void)close(got);
			ok = false;
		}
	}
	return ok;
}

ssize_t
super_recv(int fd, void *p, size_t n, int *fds, size_t *nfds, size_t max)
{
	union wire_control c;
	struct iovec iov = {p, n};
	struct msghdr m = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = c.room,
	    .msg_controllen = sizeof(c.room)};
	ssize_t k;

	do
		k = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (k < 0 && errno == EINTR);
	if (k < 0)
		return errno == EAGAIN ? 0 : -1;
	if (!fds_take(&m, fds, nfds, max) || k == 0)
		return -1;
	return k;
}
