/*
 * One cell of a context from its code to its end. Runs in the caller, between a person's watch, a
 * clock and an interpreter that may lie, flood, hang or die: each of these ends the cell, and the
 * worst that is lost is the interpreter.
 */
#include "agent/sandbox/sandbox_context.h"

#include <poll.h>
#include <signal.h>

#include "common/xalloc.h"
#include "agent/sandbox/sandbox_helper.h"
#include "agent/sandbox/sandbox_result.h"

#include "common/banned.h"

struct cell_run {
	struct sandbox_context *c;
	const struct sandbox_cell *cell;
	struct sandbox_cell_result *r;
	struct buf send;
	int64_t deadline;	/* of the cell; 0: none */
	int64_t again, kill_at; /* after the interrupt */
	enum sandbox_cause why; /* it was interrupted for; NONE: not */
	bool ended;		/* the interpreter said so */
	bool lost;		/* it is gone, or not to be believed any more */
	size_t matched;		/* of the driver's name of a cell's file, on stream 2 */
	bool mid;		/* of a line there */
	bool gone;		/* by itself: its own end says why */
};

static uint64_t
now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void
run_bundle(void *arg, bool result, struct str json)
{
	struct cell_run *g = ((struct sandbox_context *)arg)->reader_arg;

	if (g != NULL && g->cell->display != NULL)
		g->cell->display(g->cell->arg, result, json);
}

static void
run_end(void *arg, enum cell_status status, struct str name, struct str value, struct str traceback)
{
	struct cell_run *g = ((struct sandbox_context *)arg)->reader_arg;

	if (g == NULL)
		return;
	g->ended = true;
	g->r->end = g->why != SANDBOX_NONE ? SANDBOX_CELL_INTERRUPTED
		    : status == CELL_OK	   ? SANDBOX_CELL_OK
					   : SANDBOX_CELL_ERROR;
	if (status == CELL_OK)
		return;
	g->r->error_name = str_dup(name);
	g->r->error_value = str_dup(value);
	g->r->traceback = str_dup(traceback);
}

const struct cell_ops context_cell_ops = {.bundle = run_bundle, .end = run_end};

static void
interrupt(struct cell_run *g, enum sandbox_cause why)
{
	int64_t now = wire_now_ms();
	struct err ignored;

	if (g->why == SANDBOX_NONE) {
		g->why = why;
		g->kill_at = now + CONTEXT_GRACE_MS;
	}
	g->again = now + CONTEXT_AGAIN_MS;
	(void)sandbox_proc_signal(g->c->sb, g->c->st.proc, SIGINT, &ignored);
}

static void
output_give(struct cell_run *g, int stream, struct str s)
{
	if (g->cell->output != NULL && s.n != 0)
		g->cell->output(g->cell->arg, stream, s);
	sandbox_result_add(&g->r->out, s, g->cell->head, g->cell->tail);
}

/* An interpreter that must read its cells from a file names that in its messages: there it becomes
 * "cell". What could be the begin of the name waits for more. */
static void
errors_give(struct cell_run *g, struct str s, bool last)
{
	const char *file = g->c->driver->file;
	AUTO_BUF struct buf out = BUF(CONTEXT_ROOM + 64);

	if (file == NULL) {
		output_give(g, 2, s);
		return;
	}
	for (size_t i = 0; i < s.n; i++) {
		if (!g->mid && s.p[i] == file[g->matched]) {
			if (file[++g->matched] != '\0')
				continue;
			buf_put_z(&out, "cell:");
			g->matched = 0;
			g->mid = true;
			continue;
		}
		buf_put(&out, file, g->matched);
		g->matched = 0;
		buf_put_c(&out, s.p[i]);
		g->mid = s.p[i] != '\n';
	}
	if (last)
		buf_put(&out, file, g->matched);
	output_give(g, 2, buf_str(&out));
}

/* Returns false when the stream has nothing now. */
static bool
output_take(struct cell_run *g, int *fd, int stream)
{
	struct sandbox_context *c = g->c;
	uint64_t max = c->sb->output_max, total = g->r->out.total;
	uint64_t left = total < max ? max - total : 0;
	ssize_t k;

	if (*fd < 0)
		return false;
	k = read(*fd, c->room, sizeof(c->room));
	if (k < 0)
		return errno == EINTR;
	if (k == 0) {
		cleanup_close_fd(fd);
		return false;
	}
	if ((uint64_t)k > left) {
		k = (ssize_t)left;
		if (g->why == SANDBOX_NONE && !g->ended)
			interrupt(g, SANDBOX_OUTPUT);
	}
	if (stream == 2)
		errors_give(g, str_mem(c->room, (size_t)k), false);
	else
		output_give(g, stream, str_mem(c->room, (size_t)k));
	return true;
}

static void
lost(struct cell_run *g, const char *why)
{
	if (!g->lost)
		g->r->error_value = xstrdup(why);
	g->lost = true;
}

static void
gone(struct cell_run *g)
{
	lost(g, "the interpreter ended");
	g->gone = true;
}

static void
wire_take_frames(struct cell_run *g)
{
	struct sandbox_context *c = g->c;
	struct err e = {0};
	ssize_t k = recv(c->wire, c->room, sizeof(c->room), 0);

	if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
		gone(g);
	else if (k > 0 && cell_feed(&c->reader, str_mem(c->room, (size_t)k), &e) != 0)
		lost(g, e.msg);
}

static void
code_send(struct cell_run *g)
{
	ssize_t k = send(g->c->wire, g->send.p, g->send.n, MSG_NOSIGNAL);

	if (k > 0)
		buf_drop(&g->send, (size_t)k);
	else if (k < 0 && errno != EAGAIN && errno != EINTR)
		gone(g);
}

/* How long until the clock has something to say; it says what is due. */
static int
clock_turn(struct cell_run *g)
{
	int64_t now = wire_now_ms(), next = now + 60000;

	if (g->why == SANDBOX_NONE && g->deadline != 0 && now >= g->deadline)
		interrupt(g, SANDBOX_TIMEOUT);
	if (g->why != SANDBOX_NONE) {
		if (now >= g->kill_at)
			lost(g, "it did not end when interrupted");
		else if (now >= g->again)
			interrupt(g, g->why);
		next = g->again < g->kill_at ? g->again : g->kill_at;
	} else if (g->deadline != 0) {
		next = g->deadline;
	}
	return next > now ? (int)(next - now) : 0;
}

static int
cell_turn(struct cell_run *g, struct err *err)
{
	struct sandbox_context *c = g->c;
	bool watched = g->cell->watch_fd != NULL && g->why == SANDBOX_NONE;
	struct pollfd p[] = {
	    {.fd = c->wire, .events = (short)(g->send.n != 0 ? POLLIN | POLLOUT : POLLIN)},
	    {.fd = c->st.out, .events = POLLIN}, {.fd = c->st.errs, .events = POLLIN},
	    {.fd = c->sb->wire, .events = POLLIN},
	    {.fd = watched ? *g->cell->watch_fd : -1, .events = POLLIN}};

	if (poll(p, ARRAY_LEN(p), clock_turn(g)) < 0)
		return errno == EINTR ? 0 : err_sys(err, ERR_SYSTEM, errno, "sandbox: poll");
	if (p[3].revents != 0 && client_turn(c->sb, err) != 0)
		return err->code;
	if (p[1].revents != 0)
		(void)output_take(g, &c->st.out, 1);
	if (p[2].revents != 0)
		(void)output_take(g, &c->st.errs, 2);
	if ((p[0].revents & POLLOUT) != 0)
		code_send(g);
	if ((p[0].revents & ~POLLOUT) != 0)
		wire_take_frames(g);
	if (!g->ended && client_has(c->sb, c->st.tag))
		gone(g);
	if (p[4].revents != 0 && !g->ended && g->cell->watch(g->cell->watch_arg))
		interrupt(g, SANDBOX_KILLED);
	return 0;
}

/* All that the cell itself wrote is in the pipes by now; what goes on writing cannot hold us. */
static void
drain(struct cell_run *g)
{
	int *fds[] = {&g->c->st.out, &g->c->st.errs};

	for (int i = 0; i < 2; i++)
		for (int k = 0; k < CONTEXT_DRAIN_READS && output_take(g, fds[i], i + 1) &&
				g->r->out.total < g->c->sb->output_max;
		     k++)
			continue;
	errors_give(g, STR_NONE, true);
}

/* An interrupt that came too late for its cell is delivered before the next: pid 1 inside starts
 * nothing before the signals that were ordered earlier are sent. */
static void
settle(struct sandbox *sb)
{
	static const struct frame_ops ops = {0};
	static const char *const argv[] = {"nothing", NULL};
	struct helper h = {
	    .argv = argv, .about = "interrupt", .ops = &ops, .feed_fd = -1, .stop_fd = -1};
	struct err ignored;

	(void)helper_run(sb, &h, &ignored);
}

static void
cell_lost(struct cell_run *g)
{
	struct sandbox_result end = {0};
	struct sandbox_result *out = &g->r->out;
	struct err ignored;

	if (g->r->error_name == NULL)
		g->r->error_name = xstrdup("lost");
	context_end(g->c, g->why != SANDBOX_NONE ? g->why : SANDBOX_KILLED,
	    g->gone ? CONTEXT_GRACE_MS : 0, &end);
	g->r->end = SANDBOX_CELL_LOST;
	g->r->cause = end.cause != SANDBOX_NONE ? end.cause : SANDBOX_UNAVAILABLE;
	g->r->value = end.value;
	out->user_us = end.user_us;
	out->system_us = end.system_us;
	out->peak_kib = end.peak_kib;
	out->refused = end.refused;
	/* If none can begin now, the next cell tries again and says why. */
	(void)context_begin(g->c, &ignored);
}

static int
cell_check(const struct sandbox_context *c, const struct sandbox_cell *cell, struct err *err)
{
	if (cell->code.n > SANDBOX_CODE_MAX)
		return err_set(err, ERR_TOO_LARGE, "sandbox: code of %zu bytes, limit %zu",
		    cell->code.n, SANDBOX_CODE_MAX);
	if (!str_is_utf8(cell->code) ||
	    (cell->code.n != 0 && memchr(cell->code.p, '\0', cell->code.n) != NULL))
		return err_set(err, ERR_INVALID, "sandbox: code must be UTF-8 without NUL");
	if (c->sb->wire < 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: already ended");
	return 0;
}

static void
cell_finish(struct cell_run *g)
{
	struct sandbox_cell_result *r = g->r;

	if (g->why != SANDBOX_NONE && !g->lost) {
		r->cause = g->why;
		settle(g->c->sb);
	}
	g->c->reader_arg = NULL;
	if (g->lost)
		cell_lost(g);
	sandbox_result_end(&r->out, g->cell->tail);
	r->out.cause = r->cause;
	r->out.value = r->value;
}

int
sandbox_context_run(struct sandbox_context *c, const struct sandbox_cell *cell,
    struct sandbox_cell_result *ret, struct err *err)
{
	struct cell_run g = {
	    .c = c, .cell = cell, .r = ret, .send = BUF(SANDBOX_CODE_MAX + CELL_HEAD)};
	uint64_t begin = now_us();
	struct err e = {0};
	int rc;

	*ret = (struct sandbox_cell_result){0};
	sandbox_result_init(&ret->out, cell->head, cell->tail);
	context_begin_limit(c, cell->timeout_ms);
	rc = cell_check(c, cell, &e);
	if (rc == 0 && !c->alive)
		rc = context_begin(c, &e);
	if (rc == 0) {
		if (cell->timeout_ms != 0)
			g.deadline = wire_now_ms() + cell->timeout_ms;
		cell_begin(&c->reader, cell->code, &g.send);
		/* cppcheck-suppress autoVariables; taken back below */
		c->reader_arg = &g;
		code_send(&g);
		while (rc == 0 && !g.ended && !g.lost)
			rc = cell_turn(&g, &e);
		drain(&g);
		cell_finish(&g);
	}
	c->reader_arg = NULL;
	buf_free(&g.send);
	ret->out.duration_us = now_us() - begin;
	if (rc == 0)
		return 0;
	/* The sandbox went away, or does not start one: nothing of it is to be used again. */
	context_end(c, SANDBOX_KILLED, 0, &ret->out);
	sandbox_cell_free(ret);
	return err_set(err, e.code, "%s", e.msg);
}

void
sandbox_cell_free(struct sandbox_cell_result *r)
{
	cleanup_free_ptr(&r->error_name);
	cleanup_free_ptr(&r->error_value);
	cleanup_free_ptr(&r->traceback);
	sandbox_result_free(&r->out);
}
