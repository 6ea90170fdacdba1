/*
 * Pid 1 of a sandbox. Executed fresh, with an empty environment, after everything was given
 * up: it has no more rights than the code it starts, and is only harder to reach (not
 * dumpable, unkillable from inside). It starts programs, reaps, keeps each one's time and
 * kills everything but itself. It holds one secret-free socket to the launcher.
 */
#include "agent/sandbox/native.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/xalloc.h"
#include "agent/sandbox/wire.h"

#include "common/banned.h"

struct order {
	unsigned flags;
	uint32_t timeout_ms;
	char *cwd;
	char **argv, **env;
	char *code_path; /* unlinked at the end */
};
enum { ORDER_MERGE = 1, ORDER_BACKGROUND = 2, ORDER_STDIN = 4 };

static void
list_free(char **list)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		free(list[i]);
	free(list);
}

static void
order_free(struct order *o)
{
	list_free(o->argv);
	list_free(o->env);
	free(o->cwd);
	free(o->code_path);
}
#define AUTO_ORDER __attribute__((cleanup(order_free)))

static char **
list_take(struct rd *r, uint32_t max)
{
	uint32_t n = rd_u32(r);
	char **list;

	if (n > max) {
		r->bad = true;
		return NULL;
	}
	list = xcalloc(n + 2, sizeof(*list)); /* room for the file of the code */
	for (uint32_t i = 0; i < n; i++)
		list[i] = str_dup(rd_lstr(r));
	return list;
}

/* The code as a file of its own: messages name it, and standard input stays the program's. */
static int
code_write(struct order *o, struct str ext, struct str code, struct err *err)
{
	static unsigned counter;
	size_t n = 0;

	(void)mkdir("/tmp/.code", 0700);
	o->code_path = xasprintf("/tmp/.code/%u.%.*s", ++counter, STR_ARG(ext));
	(void)unlink(o->code_path);
	if (native_file_write(o->code_path, code, 0600, err) != 0)
		return err->code;
	while (o->argv[n] != NULL)
		n++;
	o->argv[n] = xstrdup(o->code_path);
	return 0;
}

static int
order_take(struct wire_msg *m, struct order *o, struct err *err)
{
	struct rd r = rd_init(buf_str(&m->body));
	struct str ext, code;

	o->flags = rd_u8(&r);
	o->timeout_ms = rd_u32(&r);
	o->cwd = str_dup(rd_lstr(&r));
	ext = rd_lstr(&r);
	code = rd_lstr(&r);
	o->argv = list_take(&r, SANDBOX_ARGS_MAX);
	o->env = list_take(&r, SANDBOX_ENV_MAX + 64);
	if (!rd_end(&r) || o->argv == NULL || o->env == NULL || o->argv[0] == NULL)
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed order");
	return ext.n != 0 ? code_write(o, ext, code, err) : 0;
}

/* --- the program ------------------------------------------------------------------------ */

struct pipes {
	int out[2], errp[2], in[2], fail[2]; /* [0] read end, [1] write end */
};

static void
pair_close(int p[2])
{
	for (int i = 0; i < 2; i++)
		if (p[i] >= 0)
			(void)close(p[i]);
}

static void
pipes_close(struct pipes *p)
{
	pair_close(p->out);
	pair_close(p->errp);
	pair_close(p->in);
	pair_close(p->fail);
}
#define AUTO_PIPES __attribute__((cleanup(pipes_close)))

/* Made in here, so that they belong to the sandbox's user and /dev/stdout can be opened again. */
static int
pipes_make(const struct order *o, struct pipes *p, struct err *err)
{
	if (pipe2(p->out, O_CLOEXEC) != 0 || pipe2(p->fail, O_CLOEXEC) != 0 ||
	    ((o->flags & ORDER_MERGE) == 0 && pipe2(p->errp, O_CLOEXEC) != 0) ||
	    ((o->flags & ORDER_STDIN) != 0 && pipe2(p->in, O_CLOEXEC) != 0))
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: pipe");
	return 0;
}

static _Noreturn void
program_exec(const struct order *o, struct pipes *p)
{
	int in = p->in[0] >= 0 ? p->in[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
	int errfd = p->errp[1] >= 0 ? p->errp[1] : p->out[1], e;
	sigset_t none;

	(void)setsid();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	/* The pipes are numbered above 3 (0 to 3 are taken), so no dup2 hits another's source. */
	if (in >= 0 && dup2(in, 0) == 0 && dup2(errfd, 2) == 2 && dup2(p->out[1], 1) == 1 &&
	    chdir(o->cwd) == 0) {
		(void)close(WIRE_FD);
		(void)execvpe(o->argv[0], o->argv, o->env);
	}
	e = errno;
	(void)!write(p->fail[1], &e, sizeof(e));
	_exit(127);
}

/* Search happens in the program's own PATH, so set it before execvpe looks at ours. */
static void
path_set(const struct order *o)
{
	for (size_t i = 0; o->env[i] != NULL; i++)
		if (strncmp(o->env[i], "PATH=", 5) == 0)
			(void)setenv("PATH", o->env[i] + 5, 1);
}

static int
program_start(const struct order *o, pid_t *ret, struct err *err)
{
	AUTO_PIPES struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	int fds[3], e = 0;
	size_t n = 0;
	ssize_t k;
	pid_t pid;

	if (pipes_make(o, &p, err) != 0)
		return err->code;
	path_set(o);
	pid = fork();
	if (pid < 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: new process");
	if (pid == 0)
		program_exec(o, &p);
	(void)close(p.fail[1]);
	p.fail[1] = -1;
	while ((k = read(p.fail[0], &e, sizeof(e))) < 0 && errno == EINTR)
		continue;
	if (k > 0) {
		(void)waitpid(pid, NULL, 0);
		return err_sys(err, e == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, e,
		    "sandbox: %s (in %s)", o->argv[0], o->cwd);
	}
	fds[n++] = p.out[0];
	if (p.errp[0] >= 0)
		fds[n++] = p.errp[0];
	if (p.in[1] >= 0)
		fds[n++] = p.in[1];
	*ret = pid;
	return wire_send(WIRE_FD, WIRE_STARTED, NULL, fds, n, err);
}

/* Everything but pid 1. Returns when nothing is left to reap; *status is kept if `pid` was seen. */
static bool
everything_end(pid_t pid, int *status)
{
	bool seen = false;
	int st;

	for (;;) {
		pid_t got;

		(void)kill(-1, SIGKILL);
		got = waitpid(-1, &st, __WALL);
		if (got < 0 && errno == ECHILD)
			return seen;
		if (got == pid) {
			*status = st;
			seen = true;
		}
	}
}

/* Reaps what is dead; true when `pid` was among it. */
static bool
reap(pid_t pid, int *status)
{
	bool seen = false;
	pid_t got;
	int st;

	while ((got = waitpid(-1, &st, WNOHANG | __WALL)) > 0)
		if (got == pid) {
			*status = st;
			seen = true;
		}
	return seen;
}

static void
exited_send(enum sandbox_cause cause, int status)
{
	AUTO_BUF struct buf b = BUF(16);
	struct err ignored;

	if (cause == SANDBOX_EXITED && WIFSIGNALED(status))
		cause = SANDBOX_SIGNALLED;
	buf_u8(&b, (uint8_t)cause);
	buf_u32(&b, (uint32_t)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
	(void)wire_send(WIRE_FD, WIRE_EXITED, &b, NULL, 0, &ignored);
}

/* The launcher speaks while a program runs: only to end it, or by going away. */
static bool
told_to_kill(void)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err ignored;

	if (wire_recv(WIRE_FD, WIRE_SEND_MS, 64, &m, &ignored) != 0 || m.type != WIRE_KILL)
		_exit(0);
	return true;
}

static void
program_watch(const struct order *o, pid_t pid, int sigfd)
{
	int64_t deadline = o->timeout_ms != 0 ? wire_now_ms() + o->timeout_ms : INT64_MAX;
	enum sandbox_cause cause = SANDBOX_EXITED;
	bool over = false, kill_all = false;
	int status = 0;

	while (!over && !kill_all) {
		struct pollfd p[2] = {
		    {.fd = WIRE_FD, .events = POLLIN}, {.fd = sigfd, .events = POLLIN}};
		int64_t left = deadline - wire_now_ms();
		struct signalfd_siginfo drop;

		if (left <= 0) {
			cause = SANDBOX_TIMEOUT;
			break;
		}
		(void)poll(p, 2, left > 60000 ? 60000 : (int)left);
		if (p[1].revents != 0)
			(void)!read(sigfd, &drop, sizeof(drop));
		over = reap(pid, &status);
		if (!over && p[0].revents != 0)
			kill_all = told_to_kill();
	}
	if (!over || (o->flags & ORDER_BACKGROUND) == 0)
		(void)everything_end(over ? 0 : pid, &status);
	exited_send(cause, status);
}

/* --- start ------------------------------------------------------------------------------ */

static bool
status_line(const char *status, const char *name, char *out, size_t size)
{
	const char *p = strstr(status, name);
	size_t n;

	if (p == NULL)
		return false;
	p += strlen(name);
	p += strspn(p, " \t");
	n = strcspn(p, "\n");
	if (n >= size)
		return false;
	memcpy(out, p, n);
	out[n] = '\0';
	return true;
}

/* What really holds, read back from the kernel: a layer that did not take ends the start. */
static int
facts_measure(struct buf *out, struct err *err)
{
	static const struct {
		const char *name, *want;
	} rows[] = {{"\nCapInh:", "0000000000000000"}, {"\nCapPrm:", "0000000000000000"},
	    {"\nCapEff:", "0000000000000000"}, {"\nCapBnd:", "0000000000000000"},
	    {"\nCapAmb:", "0000000000000000"}, {"\nNoNewPrivs:", "1"}, {"\nSeccomp:", "2"},
	    {"\nUid:", "1000\t1000\t1000\t1000"}};
	AUTO_BUF struct buf b = BUF(16384);
	AUTO_FREE char *text = NULL;
	char got[64];
	uint64_t filters = 0;

	if (native_slurp("/proc/self/status", &b, err) != 0)
		return err->code;
	text = buf_dup_z(&b);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!status_line(text, rows[i].name, got, sizeof(got)))
			(void)snprintf(got, sizeof(got), "absent");
		if (strcmp(got, rows[i].want) != 0)
			return err_set(err, ERR_UNAVAILABLE,
			    "sandbox: %s is \"%s\", must be \"%s\"", rows[i].name + 1, got,
			    rows[i].want);
	}
	/* Ours, and those that the caller itself was under (a container's). */
	if (!status_line(text, "\nSeccomp_filters:", got, sizeof(got)) ||
	    !str_to_u64(str_z(got), 1000, &filters) || filters < NATIVE_FILTERS)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: fewer than %d system call filters",
		    NATIVE_FILTERS);
	if (getpid() != 1)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: init has pid %d", (int)getpid());
	buf_printf(out,
	    "\"seccomp\":\"filter\",\"seccomp_filters\":%llu,\"no_new_privs\":true,"
	    "\"capabilities\":\"none\",\"landlock_abi\":%ld",
	    (unsigned long long)filters, syscall(SYS_landlock_create_ruleset, NULL, 0, 1u));
	return 0;
}

static int
init_start(int *ret_sigfd, struct err *err)
{
	AUTO_BUF struct buf facts = BUF(4096), b = BUF(8192);
	sigset_t all;
	int rc;

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: hardening of pid 1");
	(void)fcntl(WIRE_FD, F_SETFD, FD_CLOEXEC);
	(void)close_range(WIRE_FD + 1, ~0u, 0);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)sigemptyset(&all);
	(void)sigaddset(&all, SIGCHLD);
	*ret_sigfd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (*ret_sigfd < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: signalfd");
	if ((rc = facts_measure(&facts, err)) != 0)
		return rc;
	buf_lstr(&b, buf_str(&facts));
	return wire_send(WIRE_FD, WIRE_READY, &b, NULL, 0, err);
}

/* Between programs: reap what background programs leave, and wait for orders. */
static void
order_wait(int sigfd)
{
	struct signalfd_siginfo drop;
	int ignored;

	for (;;) {
		struct pollfd p[2] = {
		    {.fd = WIRE_FD, .events = POLLIN}, {.fd = sigfd, .events = POLLIN}};

		(void)poll(p, 2, -1);
		if (p[1].revents != 0)
			(void)!read(sigfd, &drop, sizeof(drop));
		(void)reap(0, &ignored);
		if (p[0].revents != 0)
			return;
	}
}

int
native_init_main(void)
{
	struct err e = {0};
	int sigfd = -1;

	if (init_start(&sigfd, &e) != 0) {
		wire_send_error(WIRE_FD, &e);
		return 1;
	}
	for (;;) {
		AUTO_WIRE struct wire_msg m = WIRE_MSG;
		AUTO_ORDER struct order o = {0};
		pid_t pid = 0;

		order_wait(sigfd);
		if (wire_recv(WIRE_FD, WIRE_SEND_MS, WIRE_BODY_MAX, &m, &e) != 0)
			_exit(0); /* the launcher is gone: with us goes everything */
		if (m.type == WIRE_KILL)
			continue; /* crossed with the end of the program it meant */
		if (m.type != WIRE_EXEC || order_take(&m, &o, &e) != 0 ||
		    program_start(&o, &pid, &e) != 0)
			wire_send_error(WIRE_FD, &e);
		else
			program_watch(&o, pid, sigfd);
		if (o.code_path != NULL)
			(void)unlink(o.code_path);
	}
}
