/*
 * The event loop of every process. Trusts only its own callers; what the descriptors
 * carry is the callbacks' business. One timerfd serves all timers (a heap), so that a
 * suspended machine wakes with its deadlines past. What is deleted inside a turn is freed
 * at the turn's end: an event already fetched may still point at it.
 */
#include "common/loop.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define EVENTS_PER_TURN 64
#define BEFORE_MAX 16

struct loop_io {
	struct loop *l;
	struct loop_io *prev, *next; /* of live, or (next only) of dead */
	int fd;
	bool dead;
	uint32_t events;
	loop_io_fn *fn;
	void *arg;
};

struct loop_timer {
	struct loop *l;
	struct loop_timer *next; /* of dead */
	uint64_t at, seq;
	size_t index; /* in the heap; SIZE_MAX: not there any more */
	loop_fn *fn;
	void *arg;
};

struct child {
	struct loop_io *io;
	int pidfd;
	pid_t pid;
	loop_child_fn *fn;
	void *arg;
};

struct loop {
	int epfd, timerfd, sigfd;
	int rc;
	bool stopped;
	uint64_t now, armed, seq;
	struct loop_io *live, *dead;
	struct loop_timer **heap, *dead_timers;
	size_t timers, timers_cap;
	sigset_t signals;
	struct {
		loop_signal_fn *fn;
		void *arg;
	} on_signal[128];
	struct {
		loop_fn *fn;
		void *arg;
	} before[BEFORE_MAX];
	size_t before_n;
};

static uint64_t
boot_ms(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0)
		fatal("clock_gettime: %s", strerror(errno));
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* --- descriptors ----------------------------------------------------------------- */

struct loop_io *
loop_io_add(struct loop *l, int fd, uint32_t events, loop_io_fn *fn, void *arg)
{
	struct loop_io *io = xcalloc(1, sizeof(*io));
	struct epoll_event ev = {.events = events, .data.ptr = io};

	io->l = l;
	io->fd = fd;
	io->events = events;
	io->fn = fn;
	io->arg = arg;
	if (epoll_ctl(l->epfd, EPOLL_CTL_ADD, fd, &ev) != 0)
		fatal("epoll_ctl(add %d): %s", fd, strerror(errno));
	io->next = l->live;
	if (l->live != NULL)
		l->live->prev = io;
	l->live = io;
	return io;
}

void
loop_io_events(struct loop_io *io, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = io};

	assert(!io->dead);
	if (io->events == events)
		return;
	io->events = events;
	if (epoll_ctl(io->l->epfd, EPOLL_CTL_MOD, io->fd, &ev) != 0)
		fatal("epoll_ctl(mod %d): %s", io->fd, strerror(errno));
}

void
loop_io_del(struct loop_io *io)
{
	struct loop *l;

	if (io == NULL)
		return;
	assert(!io->dead);
	l = io->l;
	/* Fails only when the caller closed the descriptor first; then it watches a stranger. */
	if (epoll_ctl(l->epfd, EPOLL_CTL_DEL, io->fd, NULL) != 0)
		fatal("epoll_ctl(del %d): %s", io->fd, strerror(errno));
	if (io->prev != NULL)
		io->prev->next = io->next;
	else
		l->live = io->next;
	if (io->next != NULL)
		io->next->prev = io->prev;
	io->dead = true;
	io->next = l->dead;
	l->dead = io;
}

static void
bury(struct loop *l)
{
	while (l->dead != NULL) {
		struct loop_io *io = l->dead;

		l->dead = io->next;
		free(io);
	}
	while (l->dead_timers != NULL) {
		struct loop_timer *t = l->dead_timers;

		l->dead_timers = t->next;
		free(t);
	}
}

/* --- timers: a binary heap by (time, order of birth) -------------------------------- */

static bool
earlier(const struct loop_timer *a, const struct loop_timer *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void
heap_put(struct loop *l, size_t i, struct loop_timer *t)
{
	l->heap[i] = t;
	t->index = i;
}

static void
heap_settle(struct loop *l, size_t i)
{
	struct loop_timer *t = l->heap[i];

	for (; i > 0 && earlier(t, l->heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap_put(l, i, l->heap[(i - 1) / 2]);
	for (;;) {
		size_t c = 2 * i + 1;

		if (c + 1 < l->timers && earlier(l->heap[c + 1], l->heap[c]))
			c++;
		if (c >= l->timers || !earlier(l->heap[c], t))
			break;
		heap_put(l, i, l->heap[c]);
		i = c;
	}
	heap_put(l, i, t);
}

static void
heap_remove(struct loop *l, struct loop_timer *t)
{
	size_t i = t->index;

	t->index = SIZE_MAX;
	l->timers--;
	if (i != l->timers) {
		heap_put(l, i, l->heap[l->timers]);
		heap_settle(l, i);
	}
	t->next = l->dead_timers;
	l->dead_timers = t;
}

struct loop_timer *
loop_timer_add(struct loop *l, uint64_t ms, loop_fn *fn, void *arg)
{
	struct loop_timer *t = xcalloc(1, sizeof(*t));

	t->l = l;
	t->at = boot_ms() + ms;
	t->seq = l->seq++;
	t->fn = fn;
	t->arg = arg;
	if (l->timers == l->timers_cap) {
		l->timers_cap = l->timers_cap != 0 ? l->timers_cap * 2 : 16;
		l->heap = xreallocarray(l->heap, l->timers_cap, sizeof(struct loop_timer *));
	}
	heap_put(l, l->timers, t);
	l->timers++;
	heap_settle(l, t->index);
	return t;
}

void
loop_timer_del(struct loop_timer *t)
{
	/* A timer inside its own callback is out of the heap already. */
	if (t != NULL && t->index != SIZE_MAX)
		heap_remove(t->l, t);
}

static void
arm(struct loop *l)
{
	uint64_t at = l->timers != 0 ? l->heap[0]->at : 0;
	struct itimerspec it = {0};

	if (at == l->armed)
		return;
	it.it_value.tv_sec = (time_t)(at / 1000);
	it.it_value.tv_nsec = (long)(at % 1000) * 1000000;
	if (timerfd_settime(l->timerfd, TFD_TIMER_ABSTIME, &it, NULL) != 0)
		fatal("timerfd_settime: %s", strerror(errno));
	l->armed = at;
}

static void
on_timerfd(void *arg, uint32_t events UNUSED)
{
	struct loop *l = arg;
	uint64_t n, born = l->seq;

	(void)!read(l->timerfd, &n, sizeof(n));
	l->armed = 0;
	/* One added by a callback waits for the next turn: nobody can starve the rest. */
	while (
	    l->timers != 0 && !l->stopped && l->heap[0]->at <= l->now && l->heap[0]->seq < born) {
		struct loop_timer *t = l->heap[0];

		heap_remove(l, t);
		t->fn(t->arg);
	}
	/* A past deadline that is left must fire again: the kernel was told of it no more. */
	arm(l);
}

/* --- signals and children ------------------------------------------------------------ */

static void
on_sigfd(void *arg, uint32_t events UNUSED)
{
	struct loop *l = arg;
	struct signalfd_siginfo si;

	while (read(l->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		if (si.ssi_signo < ARRAY_LEN(l->on_signal) && l->on_signal[si.ssi_signo].fn != NULL)
			l->on_signal[si.ssi_signo].fn(
			    l->on_signal[si.ssi_signo].arg, (int)si.ssi_signo);
}

void
loop_signal_add(struct loop *l, int signo, loop_signal_fn *fn, void *arg)
{
	bool first = l->sigfd < 0;

	assert(signo > 0 && (size_t)signo < ARRAY_LEN(l->on_signal));
	l->on_signal[signo].fn = fn;
	l->on_signal[signo].arg = arg;
	(void)sigaddset(&l->signals, signo);
	if (sigprocmask(SIG_BLOCK, &l->signals, NULL) != 0)
		fatal("sigprocmask: %s", strerror(errno));
	l->sigfd = signalfd(l->sigfd, &l->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->sigfd < 0)
		fatal("signalfd: %s", strerror(errno));
	if (first)
		(void)loop_io_add(l, l->sigfd, EPOLLIN, on_sigfd, l);
}

/* Its loop_io has been deleted: that needs the descriptor still open. */
static void
child_free(struct child *c)
{
	(void)close(c->pidfd);
	free(c);
}

static void
on_pidfd(void *arg, uint32_t events UNUSED)
{
	struct child *c = arg;
	int status = 0;
	pid_t r = waitpid(c->pid, &status, WNOHANG);

	if (r == 0 || (r < 0 && errno == EINTR))
		return;
	if (r < 0)
		fatal("waitpid(%d): %s", (int)c->pid, strerror(errno));
	c->fn(c->arg, c->pid, status);
	loop_io_del(c->io);
	child_free(c);
}

void
loop_child_add(struct loop *l, pid_t pid, loop_child_fn *fn, void *arg)
{
	struct child *c = xcalloc(1, sizeof(*c));

	c->pid = pid;
	c->fn = fn;
	c->arg = arg;
	c->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
	if (c->pidfd < 0)
		fatal("pidfd_open(%d): %s", (int)pid, strerror(errno));
	c->io = loop_io_add(l, c->pidfd, EPOLLIN, on_pidfd, c);
}

/* --- the loop -------------------------------------------------------------------------- */

struct loop *
loop_new(void)
{
	struct loop *l = xcalloc(1, sizeof(*l));

	l->sigfd = -1;
	(void)sigemptyset(&l->signals);
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	l->timerfd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (l->epfd < 0 || l->timerfd < 0)
		fatal("event loop: %s", strerror(errno));
	(void)loop_io_add(l, l->timerfd, EPOLLIN, on_timerfd, l);
	l->now = boot_ms();
	return l;
}

void
loop_free(struct loop *l)
{
	if (l == NULL)
		return;
	while (l->live != NULL) {
		struct loop_io *io = l->live;

		loop_io_del(io);
		if (io->fn == on_pidfd)
			child_free(io->arg);
	}
	while (l->timers != 0)
		heap_remove(l, l->heap[0]);
	bury(l);
	(void)close(l->epfd);
	(void)close(l->timerfd);
	if (l->sigfd >= 0)
		(void)close(l->sigfd);
	free(l->heap);
	free(l);
}

void
loop_forget(struct loop *l)
{
	(void)close(l->epfd);
	(void)close(l->timerfd);
	if (l->sigfd >= 0)
		(void)close(l->sigfd);
}

void
loop_before_sleep(struct loop *l, loop_fn *fn, void *arg)
{
	assert(l->before_n < BEFORE_MAX);
	l->before[l->before_n].fn = fn;
	l->before[l->before_n].arg = arg;
	l->before_n++;
}

static void
turn(struct loop *l, int timeout_ms)
{
	struct epoll_event ev[EVENTS_PER_TURN];
	int n;

	arm(l);
	n = epoll_wait(l->epfd, ev, EVENTS_PER_TURN, timeout_ms);
	if (n < 0 && errno != EINTR)
		fatal("epoll_wait: %s", strerror(errno));
	l->now = boot_ms();
	for (int i = 0; i < n; i++) {
		struct loop_io *io = ev[i].data.ptr;

		if (!io->dead && !l->stopped)
			io->fn(io->arg, ev[i].events);
	}
	bury(l);
}

static void
before_sleep(struct loop *l)
{
	for (size_t i = 0; i < l->before_n; i++)
		l->before[i].fn(l->before[i].arg);
}

int
loop_run(struct loop *l)
{
	for (;;) {
		/* Also after the last turn: what came in is synced and answered before the end. */
		before_sleep(l);
		if (l->stopped) {
			l->stopped = false;
			return l->rc;
		}
		turn(l, -1);
	}
}

bool
loop_turn(struct loop *l)
{
	turn(l, 0);
	before_sleep(l);
	arm(l);
	return l->stopped;
}

int
loop_fd(const struct loop *l)
{
	return l->epfd;
}

void
loop_stop(struct loop *l, int rc)
{
	l->stopped = true;
	l->rc = rc;
}

uint64_t
loop_now_ms(const struct loop *l)
{
	return l->now;
}
