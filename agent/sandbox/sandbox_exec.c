/*
 * One program from its start to its end, with its streams (any caller's process). Every byte that
 * comes out was written by code that nobody trusts: it is counted, cut and passed on, never read.
 * What code inside holds open (a pipe that a survivor keeps) must not hold this process.
 */
#include "agent/sandbox/sandbox.h"

#include <fcntl.h>
#include <string.h>

#include "common/xalloc.h"
#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/sandbox_result.h"

#include "common/banned.h"

#define SPARE_MS 5    /* a program that goes on for so long leaves time for other things */
#define GRACE_MS 5000 /* beyond the supervisor's own deadline, which comes first */
#define ROOM ((size_t)32768)
#define DRAIN_READS 64 /* as much as the largest pipe that a user may make, twice */

struct running {
	struct sandbox *sb;
	const struct sandbox_exec *x;
	struct sandbox_result *r;
	struct client_started s;
	struct str in_left;
	bool in_more; /* x->stdin_fd has not ended */
	enum sandbox_cause killed;
	int64_t deadline; /* 0: none */
	/* Not on the stack: what is not used costs no page there. First half output, then input. */
	uint8_t *room;
};

static void
running_free(struct running *g)
{
	client_started_free(&g->s);
	free(g->room);
}
#define AUTO_RUNNING __attribute__((cleanup(running_free)))

static uint64_t
now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void
running_kill(struct running *g, enum sandbox_cause why)
{
	int64_t until = wire_now_ms() + GRACE_MS;

	if (g->killed != SANDBOX_NONE)
		return;
	g->killed = why;
	if (g->deadline == 0 || g->deadline > until)
		g->deadline = until;
	client_kill(g->sb, &g->s, why);
}

/* Returns false when the stream has nothing now. */
static bool
output_take(struct running *g, int *fd, int stream)
{
	uint64_t left;
	ssize_t k;

	if (*fd < 0)
		return false;
	k = read(*fd, g->room, ROOM);
	if (k < 0 && (errno == EINTR || errno == EAGAIN))
		return errno == EINTR;
	if (k <= 0) { /* EIO is how a terminal ends */
		if (g->x->tty)
			g->in_more = false;
		if (g->x->terminal != NULL)
			*g->x->terminal = -1;
		cleanup_close_fd(fd);
		return false;
	}
	left = g->r->total < g->sb->output_max ? g->sb->output_max - g->r->total : 0;
	if ((uint64_t)k > left) {
		running_kill(g, SANDBOX_OUTPUT);
		k = (ssize_t)left;
	}
	if (g->x->output != NULL && k > 0)
		g->x->output(g->x->output_arg, stream, str_mem(g->room, (size_t)k));
	sandbox_result_add(g->r, str_mem(g->room, (size_t)k), g->x->head, g->x->tail);
	return g->killed != SANDBOX_OUTPUT;
}

/* Where input goes: the pipe, or the terminal, which has no end but a character for it. */
static int
input_fd(const struct running *g)
{
	return g->x->tty ? g->s.out : g->s.in;
}

static void
input_give(struct running *g)
{
	int fd = input_fd(g);
	ssize_t k;

	if (fd < 0)
		return;
	if (g->in_left.n != 0) {
		k = write(fd, g->in_left.p, g->in_left.n);
		if (k > 0) {
			g->in_left.p += k;
			g->in_left.n -= (size_t)k;
		} else if (k < 0 && errno != EAGAIN && errno != EINTR) {
			g->in_left.n = 0; /* nobody reads any more */
			g->in_more = false;
		}
	}
	if (g->in_left.n == 0 && !g->in_more)
		cleanup_close_fd(&g->s.in);
}

static void
input_take(struct running *g)
{
	static const char end[] = {4}; /* VEOF of a fresh terminal */
	uint8_t *room = g->room + ROOM;
	ssize_t k = client_read(g->sb, g->x->stdin_fd, room, ROOM);

	if (k > 0) {
		g->in_left = str_mem(room, (size_t)k);
	} else if (k == 0 || (errno != EAGAIN && errno != EINTR)) {
		g->in_more = false;
		if (g->x->tty)
			g->in_left = str_mem(end, sizeof(end));
	}
}

static void
running_polls(struct running *g, struct pollfd p[6])
{
	bool full = g->in_left.n != 0;
	int in = input_fd(g);

	p[0] = (struct pollfd){.fd = g->sb->wire, .events = POLLIN};
	p[1] = (struct pollfd){.fd = g->s.out, .events = POLLIN};
	p[2] = (struct pollfd){.fd = g->s.errs, .events = POLLIN};
	p[3] = (struct pollfd){.fd = -1};
	p[4] = (struct pollfd){
	    .fd = g->x->watch_fd != NULL && g->killed == SANDBOX_NONE ? *g->x->watch_fd : -1,
	    .events = POLLIN};
	p[5] = (struct pollfd){.fd = g->sb->turn != NULL ? g->sb->turn_fd : -1, .events = POLLIN};
	if (in >= 0 && full)
		p[3] = (struct pollfd){.fd = in, .events = POLLOUT};
	else if (in >= 0 && g->in_more)
		p[3] = (struct pollfd){.fd = g->x->stdin_fd, .events = POLLIN};
}

/* Past the deadline: it may be paused, and so late. But it must be there. */
static int
running_late(struct running *g, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};

	if (client_ask(g->sb, CALL_PROCS, NULL, &m, &e) != 0)
		return err_set(
		    err, ERR_UNAVAILABLE, "sandbox: the supervisor does not answer (%s)", e.msg);
	g->deadline = wire_now_ms() + GRACE_MS;
	return 0;
}

/* Until the end has come: 0, and client_has. */
static int
running_turn(struct running *g, struct err *err)
{
	bool full = g->in_left.n != 0;
	struct pollfd p[6];
	int64_t left = g->deadline == 0 ? 60000 : g->deadline - wire_now_ms();
	int n;

	running_polls(g, p);
	if (left <= 0)
		return running_late(g, err);
	left = g->sb->spare != NULL && left > SPARE_MS ? SPARE_MS : left > 60000 ? 60000 : left;
	n = poll(p, ARRAY_LEN(p), (int)left);
	if (n < 0)
		return errno == EINTR ? 0 : err_sys(err, ERR_SYSTEM, errno, "sandbox: poll");
	if (n == 0 && g->sb->spare != NULL)
		g->sb->spare(g->sb);
	/* Before anything that may ask the supervisor itself, and so take what is there. */
	if (p[0].revents != 0 && client_turn(g->sb, err) != 0)
		return err->code;
	if (p[1].revents != 0)
		(void)output_take(g, &g->s.out, 1);
	if (p[2].revents != 0)
		(void)output_take(g, &g->s.errs, 2);
	if (p[3].revents != 0 && !full)
		input_take(g);
	if (p[3].revents != 0)
		input_give(g);
	if (p[4].revents != 0 && g->x->watch(g->x->watch_arg))
		running_kill(g, SANDBOX_KILLED);
	if (p[5].revents != 0 && g->sb->turn != NULL)
		g->sb->turn(g->sb);
	return 0;
}

/* All that the program itself wrote is in the pipes by now, before what a survivor writes: that
 * cannot hold us, and a slow reader or machine loses nothing of the program's. */
static void
running_drain(struct running *g)
{
	for (int k = 0; k < DRAIN_READS && output_take(g, &g->s.out, 1); k++)
		continue;
	for (int k = 0; k < DRAIN_READS && output_take(g, &g->s.errs, 2); k++)
		continue;
}

static int
running_go(struct running *g, struct err *err)
{
	const struct sandbox_exec *x = g->x;
	int rc = client_start(g->sb, x, false, &g->s, err);

	if (rc != 0)
		return rc;
	if (x->terminal != NULL)
		*x->terminal = g->s.out;
	if (x->started != NULL)
		x->started(x->output_arg, g->s.proc);
	g->room = xmalloc(2 * ROOM);
	g->in_left = x->pipe_stdin || x->tty ? x->stdin_bytes : STR_NONE;
	g->in_more = (x->pipe_stdin || x->tty) && x->stdin_fd >= 0;
	if (x->timeout_s != 0)
		g->deadline = wire_now_ms() + (int64_t)x->timeout_s * 1000 + GRACE_MS;
	input_give(g);
	while (!client_has(g->sb, g->s.tag))
		if ((rc = running_turn(g, err)) != 0)
			return rc;
	if ((rc = client_ended(g->sb, &g->s, 0, g->r, err)) != 0)
		return rc;
	running_drain(g);
	if (g->killed != SANDBOX_NONE)
		g->r->cause = g->killed;
	return 0;
}

int
sandbox_exec(
    struct sandbox *sb, const struct sandbox_exec *x, struct sandbox_result *ret, struct err *err)
{
	AUTO_RUNNING struct running g = {.sb = sb, .x = x, .r = ret, .s = CLIENT_STARTED};
	uint64_t begin = now_us();
	struct err e = {0};

	sandbox_result_init(ret, x->head, x->tail);
	if (running_go(&g, &e) != 0) {
		sandbox_result_free(ret);
		return err_set(err, e.code, "%s", e.msg);
	}
	sandbox_result_end(ret, x->tail);
	ret->duration_us = now_us() - begin;
	return 0;
}
