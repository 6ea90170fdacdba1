/*
 * A program inside with the caller's own standard streams (cofferdam-agent and the command line, as
 * the person who calls). Bytes are passed on as they are, also to a terminal: this is the person's
 * own command and not a record. What was done to the terminal is undone whatever ends this.
 */
#include "agent/sandbox/sandbox_streams.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "common/xalloc.h"
#include "agent/sandbox/sandbox_client.h"

#include "common/banned.h"

struct streams {
	struct sandbox *sb;
	struct sandbox_streams *s;
	int watch; /* what sandbox_exec looks at: one of those below, or a set of them; -1: none */
	int signals, unread, asked; /* asked: the caller's own, borrowed */
	bool set;		    /* watch is a set, made here */
	bool raw, masked, broken;
	int ended;    /* by this signal */
	int terminal; /* inside; -1: none now */
	struct termios was;
	sigset_t mask;
};

/* --- what is looked at meanwhile ----------------------------------------------------------- */

static void
watch_add(struct streams *t, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	if (!t->set) {
		t->watch = epoll_create1(EPOLL_CLOEXEC);
		t->set = t->watch >= 0;
	}
	if (t->set)
		(void)epoll_ctl(t->watch, EPOLL_CTL_ADD, fd, &e);
}

/* The caller's may become another descriptor, or none. */
static void
watch_asked(struct streams *t, const int *now)
{
	int fd = now != NULL ? *now : -1;

	if (fd == t->asked)
		return;
	if (t->asked >= 0 && t->set)
		(void)epoll_ctl(t->watch, EPOLL_CTL_DEL, t->asked, NULL);
	t->asked = fd;
	if (fd >= 0)
		watch_add(t, fd);
}

static bool
readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

static void
size_take(struct sandbox_exec *x)
{
	struct winsize w;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_row == 0 || w.ws_col == 0)
		return;
	x->rows = w.ws_row;
	x->cols = w.ws_col;
}

/* True: it is to end. */
static bool
signal_take(struct streams *t)
{
	struct signalfd_siginfo info;
	struct winsize w;

	while (read(t->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGWINCH) {
			t->ended = (int)info.ssi_signo;
			return true;
		}
		if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) == 0 && t->terminal >= 0)
			(void)ioctl(t->terminal, TIOCSWINSZ, &w);
	}
	return false;
}

static bool
watch_turn(void *arg)
{
	struct streams *t = arg;
	const struct sandbox_exec *x = &t->s->x;
	bool end = t->broken;

	if (!end && readable(t->signals))
		end = signal_take(t);
	if (!end && t->asked >= 0 && readable(t->asked)) {
		end = x->watch(x->watch_arg);
		watch_asked(t, x->watch_fd);
	}
	return end;
}

static void
pass_on(void *arg, int stream, struct str bytes)
{
	struct streams *t = arg;

	while (bytes.n != 0 && !t->broken) {
		ssize_t k = client_write(t->sb, stream, bytes.p, bytes.n);

		if (k > 0) {
			bytes.p += k;
			bytes.n -= (size_t)k;
		} else if (k < 0 && errno == EAGAIN) {
			struct pollfd p = {.fd = stream, .events = POLLOUT};

			(void)poll(&p, 1, 1000);
		} else if (k < 0 && errno != EINTR) {
			break; /* nobody reads */
		}
	}
	if (bytes.n != 0 && t->s->end_unread && !t->broken) {
		t->broken = true;
		t->unread = eventfd(1, EFD_CLOEXEC);
		watch_add(t, t->unread);
	}
}

/* --- the terminal -------------------------------------------------------------------------- */

static void
terminal_take(struct streams *t)
{
	struct sandbox_exec *x = &t->s->x;
	struct termios raw;
	sigset_t take;

	x->rows = 24;
	x->cols = 80;
	size_take(x);
	(void)sigemptyset(&take);
	for (size_t i = 0; i < 5; i++)
		(void)sigaddset(
		    &take, (const int[]){SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT}[i]);
	t->masked = sigprocmask(SIG_BLOCK, &take, &t->mask) == 0;
	t->signals = signalfd(-1, &take, SFD_CLOEXEC | SFD_NONBLOCK);
	if (t->signals >= 0)
		watch_add(t, t->signals);
	if (tcgetattr(STDIN_FILENO, &t->was) != 0)
		return;
	raw = t->was;
	cfmakeraw(&raw);
	t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void
streams_end(struct streams *t)
{
	if (t->raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->was);
	if (t->signals >= 0)
		(void)close(t->signals);
	if (t->unread >= 0)
		(void)close(t->unread);
	if (t->set)
		(void)close(t->watch);
	if (t->masked)
		(void)sigprocmask(SIG_SETMASK, &t->mask, NULL);
}
#define AUTO_STREAMS __attribute__((cleanup(streams_end)))

int
sandbox_streams_status(const struct sandbox_result *r)
{
	switch (r->cause) {
	case SANDBOX_EXITED: return r->value;
	case SANDBOX_SIGNALLED: return 128 + r->value;
	case SANDBOX_TIMEOUT: return 124;
	case SANDBOX_MEMORY:
	case SANDBOX_OUTPUT:
	case SANDBOX_DISK: return 125;
	case SANDBOX_POLICY: return 128 + SIGSYS;
	case SANDBOX_NONE:
	case SANDBOX_KILLED:
	case SANDBOX_UNAVAILABLE: break;
	}
	return 126;
}

/* The caller's kind of terminal before what was asked for, which so wins. */
static const char **
env_with_term(const char *const *env, const char *term)
{
	size_t n = 0;
	const char **all;

	while (env != NULL && env[n] != NULL)
		n++;
	all = xcalloc(n + 2, sizeof(*all));
	all[0] = term;
	if (n != 0)
		memcpy(all + 1, env, n * sizeof(*all));
	return all;
}

int
sandbox_streams_run(struct sandbox *sb, struct sandbox_streams *s, struct sandbox_result *ret,
    int *ret_status, struct err *err)
{
	AUTO_STREAMS struct streams t = {.sb = sb,
	    .s = s,
	    .watch = -1,
	    .signals = -1,
	    .unread = -1,
	    .asked = -1,
	    .terminal = -1};
	const char *kind = getenv("TERM");
	AUTO_FREE char *term = xasprintf("TERM=%s", kind != NULL ? kind : "dumb");
	AUTO_FREE const char **env = env_with_term(s->x.env, term);
	struct sandbox_exec x;
	int rc;

	if (s->x.tty)
		terminal_take(&t);
	watch_asked(&t, s->x.watch_fd);
	x = s->x;
	if (x.tty)
		x.env = env;
	x.terminal = &t.terminal;
	x.output = pass_on;
	x.output_arg = &t;
	x.watch = watch_turn;
	x.watch_arg = &t;
	x.watch_fd = &t.watch;
	if ((rc = sandbox_exec(sb, &x, ret, err)) != 0)
		return rc;
	*ret_status = sandbox_streams_status(ret);
	if (t.ended != 0)
		*ret_status = 128 + t.ended;
	else if (t.broken)
		*ret_status = 128 + SIGPIPE;
	return 0;
}
