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
	loop_io_del(s->keeper_io);
	cleanup_close_fd(&s->keeper);
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
caller_free(struct hub_caller *c)
{
	LIST_REMOVE(c, link);
	c->hub->ncallers--;
	loop_io_del(c->io);
	cleanup_close_fd(&c->fd);
	free(c);
}

static void
caller_gone(struct hub_caller *c)
{
	for (struct sandbox_entry *s = c->hub->first, *next; s != NULL; s = next) {
		next = s->next;
		if (s->caller == c->fd)
			abandon(c->hub, s);
	}
	caller_free(c);
}

static void
on_caller(void *arg, uint32_t events UNUSED)
{
	struct hub_caller *c = arg;
	uint8_t room[HUB_MESSAGE_MAX];
	ssize_t n = recv(c->fd, room, sizeof(room), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (size_t)n > sizeof(room))
		caller_gone(c);
	else
		hub_answer(c->hub, c->fd, str_mem(room, (size_t)n));
}

static void
on_accept(void *arg, int fd)
{
	struct e2b_hub *h = arg;
	struct hub_caller *c;

	if (!keeper_peer_is_ours(fd) || h->ncallers == CALLERS_MAX) {
		(void)close(fd);
		return;
	}
	c = xcalloc(1, sizeof(*c));
	*c = (struct hub_caller){.hub = h, .fd = fd};
	c->io = loop_io_add(h->loop, fd, EPOLLIN, on_caller, c);
	LIST_INSERT_HEAD(&h->callers, c, link);
	h->ncallers++;
}

/* A keeper says nothing unasked: it is gone. */
static void
on_keeper(void *arg, uint32_t events UNUSED)
{
	struct sandbox_entry *s = arg;

	hub_drop(s->hub, s);
}

void
hub_keeper_watch(struct sandbox_entry *s)
{
	s->keeper_io = loop_io_add(s->hub->loop, s->keeper, EPOLLIN | EPOLLRDHUP, on_keeper, s);
}

static void
ready(void *arg)
{
	struct e2b_hub *h = arg;

	(void)loop_turn(h->loop);
}

/* --- its life
 * ------------------------------------------------------------------------------------- */

static int
listener_open(struct e2b_hub *h, struct err *err)
{
	AUTO_FREE char *name = hub_random(10);
	struct sockaddr_un a;
	socklen_t n;

	(void)snprintf(h->c->hub, sizeof(h->c->hub), "cofferdam-sandboxd-%s", name);
	n = e2b_hub_address(h->c, &a);
	h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->listener < 0 || bind(h->listener, (const struct sockaddr *)&a, n) != 0 ||
	    listen(h->listener, 128) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "the hub's socket");
	h->acceptor = acceptor_new(h->loop, h->listener, "hub", on_accept, h);
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
	LIST_INIT(&h->callers);
	h->loop = loop_new();
	if (pipe2(life, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "the hub's descriptors");
	c->life = life[0];
	h->life = life[1];
	h->hook = (struct serve_hook){.fd = loop_fd(h->loop), .ready = ready, .arg = h};
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
	struct hub_caller *c;

	for (struct sandbox_entry *s = h->first; s != NULL; s = s->next)
		cleanup_close_fd(&s->keeper);
	LIST_FOREACH (c, &h->callers, link)
		cleanup_close_fd(&c->fd);
	cleanup_close_fd(&h->listener);
	loop_forget(h->loop);
	cleanup_close_fd(&h->life);
}

void
e2b_hub_close(struct e2b_hub *h)
{
	if (h == NULL)
		return;
	while (h->first != NULL)
		hub_drop(h, h->first);
	while (!LIST_EMPTY(&h->callers))
		caller_free(LIST_FIRST(&h->callers));
	acceptor_free(h->acceptor);
	cleanup_close_fd(&h->listener);
	loop_free(h->loop);
	cleanup_close_fd(&h->life);
	cleanup_close_fd(&h->c->life);
	free(h);
}
