/*
 * The listener of serve.h: runs in programs that a person starts. It accepts, forks and reaps, and
 * reads no byte of what comes in. Bounded: where there is no room for one more, the worker goes
 * that has been without a request for longest; while all are at one, connections wait in the
 * kernel. Must never let a worker live on without it.
 */
#include "common/serve_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define BACKLOG 64
#define REST_MS 200 /* without descriptors or processes for a moment */

static volatile sig_atomic_t stop_asked;

static void
on_signal(int signo)
{
	if (signo != SIGCHLD)
		stop_asked = 1;
}

/* --- where ---------------------------------------------------------------------------- */

static bool
is_loopback(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	if (a->ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static int
address_read(const struct serve_config *c, struct sockaddr_storage *ret, struct err *err)
{
	struct sockaddr_in *v4 = (void *)ret;
	struct sockaddr_in6 *v6 = (void *)ret;
	const char *colon = strrchr(c->listen, ':');
	struct str host = str_mem(c->listen, colon != NULL ? (size_t)(colon - c->listen) : 0);
	AUTO_FREE char *name = NULL;
	uint64_t port;

	*ret = (struct sockaddr_storage){0};
	if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = str_mem(host.p + 1, host.n - 2);
	else if (host.n == 0 || str_eqz(host, "localhost"))
		host = STR("127.0.0.1");
	name = str_dup(host);
	if (colon != NULL && str_to_u64(str_z(colon + 1), 65535, &port)) {
		if (inet_pton(AF_INET, name, &v4->sin_addr) == 1) {
			v4->sin_family = AF_INET;
			v4->sin_port = htons((uint16_t)port);
			return 0;
		}
		if (inet_pton(AF_INET6, name, &v6->sin6_addr) == 1) {
			v6->sin6_family = AF_INET6;
			v6->sin6_port = htons((uint16_t)port);
			return 0;
		}
	}
	return err_set(err, ERR_INVALID,
	    "%s %s: an address and a port are wanted: 127.0.0.1:8931, [::1]:8931, :8931", c->option,
	    c->listen);
}

static void
url_make(struct serve *s, const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;
	bool four = a->ss_family == AF_INET;
	char text[INET6_ADDRSTRLEN] = "";

	(void)inet_ntop(
	    a->ss_family, four ? (const void *)&v4->sin_addr : &v6->sin6_addr, text, sizeof(text));
	s->port = ntohs(four ? v4->sin_port : v6->sin6_port);
	s->url = xasprintf("%s://%s%s%s:%u", s->ctx != NULL ? "https" : "http", four ? "" : "[",
	    text, four ? "" : "]", (unsigned)s->port);
}

static int
listen_open(struct serve *s, const struct serve_config *c, struct err *err)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	const int on = 1;
	int rc = address_read(c, &a, err);

	if (rc != 0)
		return rc;
	s->loopback = is_loopback(&a);
	if (!s->loopback && s->ctx == NULL)
		return err_set(err, ERR_INVALID,
		    "%s %s: only loopback addresses are served in clear text; give a certificate "
		    "and its key, or 127.0.0.1",
		    c->option, c->listen);
	s->fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0 || setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(s->fd, (const void *)&a, sizeof(a)) != 0 || listen(s->fd, BACKLOG) != 0 ||
	    getsockname(s->fd, (void *)&a, &n) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "%s %s", c->option, c->listen);
	url_make(s, &a);
	return 0;
}

int
serve_open(const struct serve_config *c, struct serve **ret, struct err *err)
{
	AUTO(serve) struct serve *s = xcalloc(1, sizeof(*s));
	int rc;

	s->fd = -1;
	s->max = c->workers != 0 ? c->workers : SERVE_WORKERS_DEFAULT;
	s->client_ca = c->client_ca != NULL;
	if (s->max > SERVE_WORKERS_MAX)
		return err_set(err, ERR_INVALID, "%s: %zu connections, limit %d", c->option, s->max,
		    SERVE_WORKERS_MAX);
	if ((rc = serve_tls_context(c, &s->ctx, err)) != 0 || (rc = listen_open(s, c, err)) != 0)
		return rc;
	s->slots = mmap(NULL, s->max * sizeof(*s->slots), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->slots == MAP_FAILED) {
		s->slots = NULL;
		return err_sys(err, ERR_SYSTEM, errno, "shared memory");
	}
	*ret = TAKE_PTR(s);
	return 0;
}

const char *
serve_url(const struct serve *s)
{
	return s->url;
}

bool
serve_is_tls(const struct serve *s)
{
	return s->ctx != NULL;
}

void
serve_close(struct serve *s)
{
	if (s == NULL)
		return;
	if (s->slots != NULL)
		(void)munmap(s->slots, s->max * sizeof(*s->slots));
	serve_tls_context_free(s->ctx);
	cleanup_close_fd(&s->fd);
	free(s->url);
	free(s);
}

/* --- workers -------------------------------------------------------------------------- */

void
serve_forked(const struct serve *s)
{
	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGINT, SIG_DFL);
	(void)close(s->fd);
	(void)sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

static struct serve_slot *
slot_free(struct serve *s)
{
	for (size_t i = 0; i < s->max; i++)
		if (s->slots[i].pid == 0)
			return &s->slots[i];
	return NULL;
}

/* The worker that has waited longest for a request is told to go. */
static void
make_room(struct serve *s)
{
	struct serve_slot *oldest = NULL;

	for (size_t i = 0; i < s->max; i++) {
		struct serve_slot *t = &s->slots[i];

		if (t->pid != 0 && t->waits_us != 0 &&
		    (oldest == NULL || t->waits_us < oldest->waits_us))
			oldest = t;
	}
	if (oldest != NULL)
		(void)kill(oldest->pid, SIGTERM);
}

static void
worker_begin(struct serve *s, int fd, serve_fn *fn, void *arg)
{
	struct serve_slot *slot = slot_free(s);
	pid_t self = getpid(), pid;

	slot->waits_us = clock_boot_us();
	pid = fork();
	if (pid < 0) {
		log_warn("no worker: %s", strerror(errno));
		slot->waits_us = 0;
		return;
	}
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self)
			_exit(1);
		serve_forked(s);
		serve_conn_run(s, slot, fd, fn, arg);
		_exit(0);
	}
	slot->pid = pid;
	s->n++;
}

static bool
worker_ended(struct serve *s, pid_t pid, int status)
{
	for (size_t i = 0; i < s->max; i++) {
		if (s->slots[i].pid != pid)
			continue;
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM &&
		    WTERMSIG(status) != SIGKILL)
			log_warn("a worker ended by signal %d", WTERMSIG(status));
		s->slots[i].waits_us = 0;
		s->slots[i].pid = 0;
		s->n--;
		return true;
	}
	return false;
}

static void
reap(struct serve *s, const struct serve_hook *hook)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (!worker_ended(s, pid, status) && hook != NULL && hook->reaped != NULL)
			hook->reaped(hook->arg, pid, status);
}

/* False: rest for a moment. */
static bool
take(struct serve *s, serve_fn *fn, void *arg)
{
	AUTO_FD int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
	worker_begin(s, fd, fn, arg);
	return true;
}

static int
turn(struct serve *s, serve_fn *fn, void *arg, const struct serve_hook *hook, struct err *err)
{
	struct pollfd p[2] = {{.fd = s->fd, .events = POLLIN},
	    {.fd = hook != NULL ? hook->fd : -1, .events = POLLIN}};
	const struct timespec rest = {.tv_nsec = REST_MS * 1000000L};
	static bool rests;

	/* Somebody waits, and there is no room. */
	if (rests || s->n == s->max) {
		struct pollfd waits = {.fd = s->fd, .events = POLLIN};

		p[0].fd = -1;
		if (!rests && poll(&waits, 1, 0) == 1)
			make_room(s);
	}
	if (ppoll(p, 2, rests || s->n == s->max ? &rest : NULL, &s->mask) < 0) {
		if (errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "poll");
		reap(s, hook);
		return 0;
	}
	rests = false;
	reap(s, hook);
	if ((p[1].revents & (POLLIN | POLLHUP)) != 0)
		hook->ready(hook->arg);
	if ((p[0].revents & POLLIN) != 0 && s->n < s->max)
		rests = !take(s, fn, arg);
	return 0;
}

int
serve_run(struct serve *s, serve_fn *fn, void *arg, const struct serve_hook *hook, struct err *err)
{
	const struct sigaction act = {.sa_handler = on_signal};
	sigset_t block;
	int rc = 0;

	(void)sigemptyset(&block);
	(void)sigaddset(&block, SIGCHLD);
	(void)sigaddset(&block, SIGTERM);
	(void)sigaddset(&block, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &block, &s->mask);
	(void)sigaction(SIGCHLD, &act, NULL);
	(void)sigaction(SIGTERM, &act, NULL);
	(void)sigaction(SIGINT, &act, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	stop_asked = 0;
	while (rc == 0 && !stop_asked)
		rc = turn(s, fn, arg, hook, err);
	for (size_t i = 0; i < s->max; i++)
		if (s->slots[i].pid != 0)
			(void)kill(s->slots[i].pid, SIGKILL);
	return rc;
}
