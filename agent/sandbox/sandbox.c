/*
 * The caller's side of a sandbox: starts cofferdam-sandbox, asks it for one sandbox and runs
 * programs in it. Runs in cofferdam-agent. It trusts the launcher, not what comes out of the
 * pipes. It must never wait without a deadline on anything that code inside can hold open,
 * and never hand a descriptor of its own into the sandbox.
 */
#include "agent/sandbox/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/proc_paths.h"
#include "common/xalloc.h"
#include "agent/sandbox/sandbox_env.h"
#include "agent/sandbox/sandbox_result.h"
#include "agent/sandbox/wire.h"

#include "common/banned.h"

#define CREATE_MS 15000
#define END_MS 10000
#define GRACE_MS 5000 /* beyond the launcher's own deadline, which comes first */
#define CGROUPS_MAX 8

struct sandbox {
	int wire;
	pid_t launcher;
	char *level;
	char *cgroups[CGROUPS_MAX]; /* removed here only if the launcher could not */
	int listeners[SANDBOX_TARGETS_MAX];
	size_t nlisteners;
	char **env;
	uint64_t output_max;
};

static int
launcher_start(struct sandbox *sb, struct err *err)
{
	AUTO_FREE char *path = proc_program("cofferdam-sandbox");
	char name[] = "cofferdam-sandbox", *argv[] = {name, NULL}, *envp[] = {NULL};
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int pair[2], rc;
	AUTO_FD int theirs = -1;

	if (path == NULL)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: no program cofferdam-sandbox");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: socketpair");
	sb->wire = pair[0];
	theirs = pair[1];
	/* dup2 onto itself would keep close-on-exec: move it away from 3 first. */
	if (theirs <= WIRE_FD) {
		int up = fcntl(theirs, F_DUPFD_CLOEXEC, 10);

		if (up < 0)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: dup");
		(void)close(theirs);
		theirs = up;
	}
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_adddup2(&fa, theirs, WIRE_FD);
	(void)posix_spawnattr_init(&attr);
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setsigdefault(&attr, &all);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawn(&sb->launcher, path, &fa, &attr, argv, envp);
	(void)posix_spawn_file_actions_destroy(&fa);
	(void)posix_spawnattr_destroy(&attr);
	if (rc != 0) {
		sb->launcher = 0;
		return err_sys(err, ERR_UNAVAILABLE, rc, "sandbox: %s", path);
	}
	return 0;
}

static int
created_take(struct sandbox *sb, struct wire_msg *m, const struct sandbox_spec *s, struct err *err)
{
	struct rd r = rd_init(buf_str(&m->body));
	struct str level = rd_lstr(&r);
	uint32_t n = rd_u32(&r);

	if (n > CGROUPS_MAX || m->nfds != s->ntargets)
		return err_set(err, ERR_PROTOCOL, "sandbox: launcher's answer does not fit");
	for (uint32_t i = 0; i < n; i++)
		sb->cgroups[i] = str_dup(rd_lstr(&r));
	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "sandbox: launcher's answer is malformed");
	sb->level = str_dup(level);
	for (size_t i = 0; i < m->nfds; i++)
		sb->listeners[i] = TAKE_FD(m->fds[i]);
	sb->nlisteners = m->nfds;
	return 0;
}

int
sandbox_create(const struct sandbox_spec *s, struct sandbox **ret, struct err *err)
{
	AUTO(sandbox) struct sandbox *sb = xcalloc(1, sizeof(*sb));
	struct sandbox_limits def = sandbox_limits_default();
	uint32_t mib = s->limits.output_mib != 0 ? s->limits.output_mib : def.output_mib;
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	struct err e = {0};

	sb->wire = -1;
	if (sandbox_spec_check(s, err) != 0)
		return err != NULL ? err->code : ERR_INVALID;
	sb->output_max = (uint64_t)mib << 20;
	sb->env = sandbox_env_make(s);
	sandbox_spec_encode(s, &b);
	if (launcher_start(sb, &e) != 0 || wire_send(sb->wire, WIRE_CREATE, &b, NULL, 0, &e) != 0 ||
	    wire_recv(sb->wire, CREATE_MS, WIRE_BODY_MAX, &m, &e) != 0)
		return err_set(err, ERR_UNAVAILABLE, "%s", e.msg);
	if (m.type == WIRE_ERROR)
		return wire_take_error(&m, err);
	if (m.type != WIRE_CREATED)
		return err_set(err, ERR_PROTOCOL, "sandbox: unexpected message %u", m.type);
	if (created_take(sb, &m, s, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	*ret = TAKE_PTR(sb);
	return 0;
}

const char *
sandbox_level(const struct sandbox *sb)
{
	return sb->level;
}

int
sandbox_listener_take(struct sandbox *sb, size_t i)
{
	return i < sb->nlisteners ? TAKE_FD(sb->listeners[i]) : -1;
}

/* Closing the wire is the order to end; the launcher answers by ending itself. */
static void
launcher_end(struct sandbox *sb)
{
	int64_t deadline = wire_now_ms() + END_MS;
	int st;

	if (sb->wire >= 0)
		(void)shutdown(sb->wire, SHUT_WR);
	while (sb->launcher > 0 && wire_now_ms() < deadline) {
		struct pollfd p = {.fd = sb->wire, .events = POLLIN};
		char drop[4096];
		pid_t got = waitpid(sb->launcher, &st, WNOHANG);

		if (got == sb->launcher || (got < 0 && errno == ECHILD)) {
			sb->launcher = 0;
			break;
		}
		/* End of file means that it is about to be gone: then the wait is short. */
		(void)poll(&p, 1, 20);
		if (recv(sb->wire, drop, sizeof(drop), MSG_DONTWAIT) == 0) {
			if (waitpid(sb->launcher, &st, 0) == sb->launcher)
				sb->launcher = 0;
			break;
		}
	}
	if (sb->launcher > 0) {
		(void)kill(sb->launcher, SIGKILL);
		(void)waitpid(sb->launcher, &st, 0);
		sb->launcher = 0;
	}
	if (sb->wire >= 0)
		(void)close(sb->wire);
	sb->wire = -1;
}

void
sandbox_destroy(struct sandbox *sb)
{
	if (sb == NULL)
		return;
	for (size_t i = 0; i < sb->nlisteners; i++)
		if (sb->listeners[i] >= 0)
			(void)close(sb->listeners[i]);
	launcher_end(sb);
	for (size_t i = 0; i < CGROUPS_MAX; i++) {
		/* Only a launcher killed from outside leaves one; its processes die with it. */
		for (int k = 0; sb->cgroups[i] != NULL && k < 100 && rmdir(sb->cgroups[i]) != 0 &&
				errno == EBUSY;
		     k++)
			(void)usleep(10000);
		free(sb->cgroups[i]);
	}
	for (size_t i = 0; sb->env != NULL && sb->env[i] != NULL; i++)
		free(sb->env[i]);
	free(sb->env);
	free(sb->level);
	free(sb);
}

/* --- one exec ------------------------------------------------------------------------ */

struct running {
	struct sandbox *sb;
	const struct sandbox_exec *x;
	struct sandbox_result *r;
	int out[2]; /* read ends of stdout and stderr */
	int in;	    /* write end of stdin */
	struct str in_left;
	uint8_t in_room[16384];
	bool in_more; /* x->stdin_fd has not ended */
	enum sandbox_cause killed;
	bool over;
};

static void
running_close(struct running *g)
{
	for (size_t i = 0; i < 2; i++)
		if (g->out[i] >= 0)
			(void)close(g->out[i]);
	if (g->in >= 0)
		(void)close(g->in);
}

static void
exec_kill(struct running *g, enum sandbox_cause why)
{
	AUTO_BUF struct buf b = BUF(8);
	struct err e;

	if (g->killed != SANDBOX_NONE)
		return;
	g->killed = why;
	buf_u8(&b, (uint8_t)why);
	(void)wire_send(g->sb->wire, WIRE_KILL, &b, NULL, 0, &e);
}

/* Returns false when the stream has nothing now. */
static bool
output_take(struct running *g, int i)
{
	char room[49152];
	ssize_t k;
	uint64_t left;

	if (g->out[i] < 0)
		return false;
	k = read(g->out[i], room, sizeof(room));
	if (k < 0)
		return errno == EINTR;
	if (k == 0) {
		(void)close(g->out[i]);
		g->out[i] = -1;
		return false;
	}
	left = g->r->total < g->sb->output_max ? g->sb->output_max - g->r->total : 0;
	if ((uint64_t)k > left) {
		exec_kill(g, SANDBOX_OUTPUT);
		k = (ssize_t)left;
	}
	if (g->x->output != NULL && k > 0)
		g->x->output(g->x->output_arg, i + 1, str_mem(room, (size_t)k));
	sandbox_result_add(g->r, str_mem(room, (size_t)k), g->x->head, g->x->tail);
	return g->killed != SANDBOX_OUTPUT;
}

static void
input_give(struct running *g)
{
	ssize_t k;

	if (g->in < 0)
		return;
	if (g->in_left.n != 0) {
		k = write(g->in, g->in_left.p, g->in_left.n);
		if (k > 0) {
			g->in_left.p += k;
			g->in_left.n -= (size_t)k;
		} else if (k < 0 && errno != EAGAIN && errno != EINTR) {
			g->in_left.n = 0; /* nobody reads any more */
			g->in_more = false;
		}
	}
	if (g->in_left.n == 0 && !g->in_more) {
		(void)close(g->in);
		g->in = -1;
	}
}

static void
input_take(struct running *g)
{
	ssize_t k = read(g->x->stdin_fd, g->in_room, sizeof(g->in_room));

	if (k > 0)
		g->in_left = str_mem(g->in_room, (size_t)k);
	else if (k == 0 || (errno != EAGAIN && errno != EINTR))
		g->in_more = false;
}

static int
exited_take(struct running *g, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct rd r;

	if (wire_recv(g->sb->wire, WIRE_SEND_MS, WIRE_BODY_MAX, &m, err) != 0)
		return err->code;
	if (m.type == WIRE_ERROR)
		return wire_take_error(&m, err);
	r = rd_init(buf_str(&m.body));
	g->r->cause = (enum sandbox_cause)rd_u8(&r);
	g->r->value = (int)rd_u32(&r);
	if (m.type != WIRE_EXITED || !rd_end(&r) || g->r->cause == SANDBOX_NONE ||
	    g->r->cause > SANDBOX_UNAVAILABLE)
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed end of exec");
	g->over = true;
	return 0;
}

static void
running_polls(struct running *g, struct pollfd p[5])
{
	p[0] = (struct pollfd){.fd = g->sb->wire, .events = POLLIN};
	p[1] = (struct pollfd){.fd = g->out[0], .events = POLLIN};
	p[2] = (struct pollfd){.fd = g->out[1], .events = POLLIN};
	p[3] = (struct pollfd){.fd = -1, .events = POLLIN};
	p[4] = (struct pollfd){
	    .fd = g->x->watch_fd != NULL && g->killed == SANDBOX_NONE ? *g->x->watch_fd : -1,
	    .events = POLLIN};
	if (g->in >= 0 && g->in_left.n != 0) {
		p[3].fd = g->in;
		p[3].events = POLLOUT;
	} else if (g->in >= 0 && g->in_more) {
		p[3].fd = g->x->stdin_fd;
	}
}

static int
running_turn(struct running *g, int64_t deadline, struct err *err)
{
	struct pollfd p[5];
	int64_t left = deadline - wire_now_ms();

	running_polls(g, p);
	if (deadline > 0 && left <= 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: the launcher does not answer");
	if (poll(p, ARRAY_LEN(p), deadline <= 0 || left > 60000 ? 60000 : (int)left) < 0)
		return errno == EINTR ? 0 : err_sys(err, ERR_SYSTEM, errno, "sandbox: poll");
	for (int i = 0; i < 2; i++)
		if (p[1 + i].revents != 0)
			(void)output_take(g, i);
	if (p[3].revents != 0 && p[3].fd == g->x->stdin_fd)
		input_take(g);
	if (p[3].revents != 0)
		input_give(g);
	if (p[4].revents != 0 && g->x->watch(g->x->watch_arg))
		exec_kill(g, SANDBOX_KILLED);
	if (p[0].revents != 0)
		return exited_take(g, err);
	return 0;
}

/* Sends the order and takes the pipes. */
static int
exec_start(struct running *g, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	size_t want = (g->x->merge ? 1u : 2u) + (g->x->pipe_stdin ? 1u : 0u);
	size_t n = 0;

	sandbox_exec_encode(g->x, (const char *const *)g->sb->env, &b);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "sandbox: program and arguments are too large");
	if (wire_send(g->sb->wire, WIRE_EXEC, &b, NULL, 0, err) != 0 ||
	    wire_recv(g->sb->wire, WIRE_SEND_MS, WIRE_BODY_MAX, &m, err) != 0)
		return err->code;
	if (m.type == WIRE_ERROR)
		return wire_take_error(&m, err);
	if (m.type != WIRE_STARTED || m.nfds != want)
		return err_set(err, ERR_PROTOCOL, "sandbox: unexpected start of exec");
	for (size_t i = 0; i < want; i++)
		(void)fcntl(m.fds[i], F_SETFL, O_NONBLOCK);
	g->out[0] = TAKE_FD(m.fds[0]);
	if (!g->x->merge)
		g->out[1] = TAKE_FD(m.fds[1]);
	n = g->x->merge ? 1 : 2;
	if (n < want)
		g->in = TAKE_FD(m.fds[n]);
	return 0;
}

static int
exec_check(const struct sandbox *sb, const struct sandbox_exec *x, struct err *err)
{
	size_t n = 0;

	if (sb->wire < 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: already ended");
	if (x->language != NULL && sandbox_interpreter(x->language, NULL) == NULL)
		return err_set(err, ERR_NOT_FOUND,
		    "sandbox: language \"%s\" is not known (bash sh python javascript perl)",
		    x->language);
	if (x->language != NULL && x->code.n > SANDBOX_CODE_MAX)
		return err_set(err, ERR_TOO_LARGE, "sandbox: code of %zu bytes, limit %zu",
		    x->code.n, SANDBOX_CODE_MAX);
	while (x->language == NULL && x->argv != NULL && x->argv[n] != NULL)
		n++;
	if (x->language == NULL && (n == 0 || n > SANDBOX_ARGS_MAX))
		return err_set(err, ERR_INVALID, "sandbox: from 1 to %d arguments, not %zu",
		    SANDBOX_ARGS_MAX, n);
	if (x->cwd != NULL && x->cwd[0] != '/')
		return err_set(
		    err, ERR_INVALID, "sandbox: directory \"%s\" is not absolute", x->cwd);
	return 0;
}

int
sandbox_exec(
    struct sandbox *sb, const struct sandbox_exec *x, struct sandbox_result *ret, struct err *err)
{
	struct running g = {.sb = sb, .x = x, .r = ret, .out = {-1, -1}, .in = -1};
	struct err e = {0};
	int64_t begin = wire_now_ms(), deadline = 0;
	int rc;

	sandbox_result_init(ret, x->head, x->tail);
	if (exec_check(sb, x, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	g.in_left = x->pipe_stdin ? x->stdin_bytes : STR_NONE;
	g.in_more = x->pipe_stdin && x->stdin_fd >= 0;
	rc = exec_start(&g, &e);
	if (rc == 0)
		input_give(&g);
	if (x->timeout_s != 0)
		deadline = begin + (int64_t)x->timeout_s * 1000 + GRACE_MS;
	while (rc == 0 && !g.over)
		rc = running_turn(&g, deadline, &e);
	/* All that the program itself wrote is in the pipes by now; a survivor cannot hold us. */
	for (int i = 0; rc == 0 && i < 2; i++)
		for (int64_t until = wire_now_ms() + 1000;
		     output_take(&g, i) && wire_now_ms() < until;)
			continue;
	running_close(&g);
	sandbox_result_end(ret, x->tail);
	ret->duration_us = (uint64_t)(wire_now_ms() - begin) * 1000;
	if (g.killed != SANDBOX_NONE && rc == 0)
		ret->cause = g.killed;
	if (rc == 0)
		return 0;
	sandbox_result_free(ret);
	return err_set(err, e.code, "%s", e.msg);
}
