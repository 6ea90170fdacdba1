/*
 * See acceptor.h. A socket that stays ready and cannot be accepted would keep the loop turning:
 * then it is not looked at for ACCEPTOR_REST_MS. What waits there is not lost, its clients wait.
 */
#include "common/acceptor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ACCEPTS_A_TURN 64 /* then others have their turn */

struct acceptor {
	struct loop *loop;
	struct loop_io *io;
	struct loop_timer *rest;
	int fd;
	const char *what;
	acceptor_fn *fn;
	void *arg;
	bool *gone; /* while fn may free it */
};

static void
rested(void *arg)
{
	struct acceptor *a = arg;

	a->rest = NULL;
	loop_io_events(a->io, EPOLLIN);
}

static void
rest(struct acceptor *a, int errnum)
{
	log_error("%s: accept: %s: no more for a moment", a->what, strerror(errnum));
	loop_io_events(a->io, 0);
	a->rest = loop_timer_add(a->loop, ACCEPTOR_REST_MS, rested, a);
}

/* Those of one client or of none (accept(2): EAGAIN, ECONNABORTED, errors of its network ...)
 * are no reason to rest. */
static bool
lacks_room(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == ENOBUFS || errnum == ENOMEM;
}

static void
on_ready(void *arg, uint32_t events UNUSED)
{
	struct acceptor *a = arg;
	bool gone = false;

	for (int i = 0; i < ACCEPTS_A_TURN && !gone; i++) {
		int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && lacks_room(errno))
			rest(a, errno);
		if (fd < 0)
			return;
		a->gone = &gone;
		a->fn(a->arg, fd);
		if (!gone)
			a->gone = NULL;
	}
}

struct acceptor *
acceptor_new(struct loop *l, int listen_fd, const char *what, acceptor_fn *fn, void *arg)
{
	struct acceptor *a = xcalloc(1, sizeof(*a));

	*a = (struct acceptor){.loop = l, .fd = listen_fd, .what = what, .fn = fn, .arg = arg};
	a->io = loop_io_add(l, listen_fd, EPOLLIN, on_ready, a);
	return a;
}

void
acceptor_free(struct acceptor *a)
{
	if (a == NULL)
		return;
	if (a->gone != NULL)
		*a->gone = true;
	loop_io_del(a->io);
	loop_timer_del(a->rest);
	free(a);
}
