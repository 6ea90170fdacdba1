/*
 * The hub of cofferdam-sandboxd: which sandboxes there are, whose they are, and by which tokens
 * they are reached. Runs in the listener's process, between its connections, and reads of what
 * comes from outside only the texts that its workers pass on. It waits for nobody. It holds the one
 * descriptor that keeps the keepers alive: when it ends, by itself or by force, they and their
 * sandboxes do.
 */
#include "agent/e2b_hub_int.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "common/hash.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "agent/keeper_client.h"

#include "common/banned.h"

void
e2b_entry_free(struct e2b_entry *e)
{
	free(e->id);
	free(e->principal);
	free(e->template);
	free(e->metadata);
	free(e->network);
	free(e->token);
	free(e->traffic);
	*e = (struct e2b_entry){0};
}

/* --- entries ------------------------------------------------------------------------------ */

struct sandbox_entry *
hub_find(struct e2b_hub *h, struct str id)
{
	for (struct sandbox_entry *s = h->first; s != NULL; s = s->next)
		if (str_eqz(id, s->e.id))
			return s;
	return NULL;
}

/* Workers have copies of what was open when they were forked: a close alone would not take it out.
 */
static void
fd_close(struct e2b_hub *h, int *fd)
{
	if (*fd >= 0)
		(void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, *fd, NULL);
	cleanup_close_fd(fd);
}

void
hub_drop(struct e2b_hub *h, struct sandbox_entry *s)
{
	struct sandbox_entry **at = &h->first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	if (h->last == &s->next)
		h->last = at;
	h->n--;
	fd_close(h, &s->keeper);
	e2b_entry_free(&s->e);
	free(s);
}

/* Its maker is gone before it said that it is there: whatever comes up is ended, by a process that
 * may wait for it. */
static void
abandon(struct e2b_hub *h, struct sandbox_entry *s)
{
	const struct timespec nap = {.tv_nsec = 200000000};
	pid_t self = getpid(), pid = fork();

	if (pid == 0) {
		struct keeper *k;
		struct err e = {0};

		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self)
			_exit(1);
		for (int i = 0; i < 50; i++, (void)nanosleep(&nap, NULL))
			if (keeper_open(s->e.id, &k, &e) == 0)
				_exit(keeper_end(k, "error", "who made it is gone", &e) != 0);
		_exit(0);
	}
	hub_drop(h, s);
}

char *
hub_random(size_t bytes)
{
	AUTO_BUF struct buf b = BUF(256);
	uint8_t room[64];

	rand_bytes(room, bytes);
	enc_base32(&b, str_mem(room, bytes));
	return buf_dup_z(&b);
}

/* --- descriptors -------------------------------------------------------------------------------
 */

static void
caller_gone(struct e2b_hub *h, size_t i)
{
	int fd = h->callers[i];

	for (struct sandbox_entry *s = h->first, *next; s != NULL; s = next) {
		next = s->next;
		if (s->caller == fd)
			abandon(h, s);
	}
	fd_close(h, &h->callers[i]);
	h->callers[i] = h->callers[--h->ncallers];
}

static void
caller_turn(struct e2b_hub *h, size_t i)
{
	uint8_t room[HUB_MESSAGE_MAX];
	ssize_t n = recv(h->callers[i], room, sizeof(room), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (size_t)n > sizeof(room))
		caller_gone(h, i);
	else
		hub_answer(h, h->callers[i], str_mem(room, (size_t)n));
}

static void
accept_one(struct e2b_hub *h)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	ev.data.fd = fd;
	if (!keeper_peer_is_ours(fd) || h->ncallers == CALLERS_MAX ||
	    epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
		(void)close(fd);
	else
		h->callers[h->ncallers++] = fd;
}

static void
fd_turn(struct e2b_hub *h, int fd)
{
	if (fd == h->listener) {
		accept_one(h);
		return;
	}
	for (size_t i = 0; i < h->ncallers; i++)
		if (h->callers[i] == fd) {
			caller_turn(h, i);
			return;
		}
	/* A keeper says nothing unasked: it is gone. */
	for (struct sandbox_entry *s = h->first; s != NULL; s = s->next)
		if (s->keeper == fd) {
			hub_drop(h, s);
			return;
		}
}

static void
ready(void *arg)
{
	struct e2b_hub *h = arg;
	struct epoll_event ev;

	/* One at a time: what it closes may be another's number by the next. */
	if (epoll_wait(h->epoll, &ev, 1, 0) == 1)
		fd_turn(h, ev.data.fd);
}

/* --- its life
 * ------------------------------------------------------------------------------------- */

static int
listener_open(struct e2b_hub *h, struct err *err)
{
	struct epoll_event ev = {.events = EPOLLIN};
	AUTO_FREE char *name = hub_random(10);
	struct sockaddr_un a;
	socklen_t n;

	(void)snprintf(h->c->hub, sizeof(h->c->hub), "cofferdam-sandboxd-%s", name);
	n = e2b_hub_address(h->c, &a);
	h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ev.data.fd = h->listener;
	if (h->listener < 0 || bind(h->listener, (const struct sockaddr *)&a, n) != 0 ||
	    listen(h->listener, 128) != 0 ||
	    epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->listener, &ev) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "the hub's socket");
	return 0;
}

int
e2b_hub_open(struct e2b_config *c, struct e2b_hub **ret, struct err *err)
{
	struct e2b_hub *h = xcalloc(1, sizeof(*h));
	int life[2];

	*ret = c->own_hub = h;
	h->c = c;
	h->last = &h->first;
	h->listener = h->life = -1;
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll < 0 || pipe2(life, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "the hub's descriptors");
	c->life = life[0];
	h->life = life[1];
	h->hook = (struct serve_hook){.fd = h->epoll, .ready = ready, .arg = h};
	return listener_open(h, err);
}

const struct serve_hook *
e2b_hub_hook(struct e2b_hub *h)
{
	return &h->hook;
}

void
e2b_hub_leave(struct e2b_hub *h)
{
	for (struct sandbox_entry *s = h->first; s != NULL; s = s->next)
		cleanup_close_fd(&s->keeper);
	while (h->ncallers != 0)
		(void)close(h->callers[--h->ncallers]);
	cleanup_close_fd(&h->listener);
	cleanup_close_fd(&h->epoll);
	cleanup_close_fd(&h->life);
}

void
e2b_hub_close(struct e2b_hub *h)
{
	if (h == NULL)
		return;
	while (h->first != NULL)
		hub_drop(h, h->first);
	while (h->ncallers != 0)
		(void)close(h->callers[--h->ncallers]);
	cleanup_close_fd(&h->listener);
	cleanup_close_fd(&h->epoll);
	cleanup_close_fd(&h->life);
	cleanup_close_fd(&h->c->life);
	free(h);
}
