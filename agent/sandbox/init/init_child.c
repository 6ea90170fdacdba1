/*
 * What stands around a program, and its start. Streams are made in pid 1, the rest in the minder,
 * and between clone and execve in a process that shares pid 1's memory while its parent waits: it
 * writes nothing there but what went wrong. It trusts no path that code inside can write to.
 */
#include "agent/sandbox/init/init_cpus.h"
#include "agent/sandbox/init/init_proc.h"
#include "agent/sandbox/init/init_text.h"
#include "agent/sandbox/init/init_wire.h"

#include <asm/ioctls.h>

#include "common/banned.h"

struct size { /* struct winsize */
	uint16_t rows, cols, x, y;
};

static bool
fail(struct proc *p, enum proc_step step, int rc)
{
	p->step = step;
	p->error = -rc;
	return false;
}

/* --- around it ---------------------------------------------------------------------------- */

/* A new file of ours, never one that was there. */
static int
code_open(const char *path)
{
	int fd = -ENOENT;

	for (int i = 0; i < 3; i++) {
		fd = sys_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
		if (fd == -ENOENT)
			(void)sys_mkdir(ORDER_CODE_DIR, 0700);
		else if (fd == -EEXIST)
			(void)sys_unlink(path);
		else
			break;
	}
	return fd;
}

static bool
code_write(struct proc *p)
{
	struct text t = TEXT(p->code_path);
	size_t done = 0;
	int fd;

	text_put(&t, p->order.code_path);
	fd = code_open(p->code_path);
	if (fd < 0)
		return fail(p, STEP_CODE, fd);
	while (done < p->order.code_size) {
		long n = sys_write(fd, p->order.code + done, p->order.code_size - done);

		if (n <= 0) {
			(void)sys_close(fd);
			return fail(p, STEP_CODE, n == 0 ? -ENOSPC : (int)n);
		}
		done += (size_t)n;
	}
	(void)sys_close(fd);
	p->order.argv[p->order.argc] = p->code_path;
	return true;
}

/* The other side by the terminal itself where the kernel can, so that no name is looked up. */
static int
tty_other(int tty)
{
	struct text t;
	char path[32];
	int n = 0, fd = sys_ioctl(tty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if ((fd = sys_ioctl(tty, TIOCGPTN, P(&n))) < 0)
		return fd;
	t = TEXT(path);
	text_put(&t, "/dev/pts/");
	text_num(&t, n);
	return sys_open(path, O_RDWR | O_NOCTTY, 0);
}

static bool
tty_make(struct proc *p)
{
	struct size size = {.rows = p->order.rows, .cols = p->order.cols};
	int no = 0, rc;

	rc = p->tty[0] = sys_open("/dev/ptmx", O_RDWR | O_NOCTTY, 0);
	if (rc >= 0)
		rc = sys_ioctl(p->tty[0], TIOCSPTLCK, P(&no));
	if (rc >= 0)
		rc = sys_ioctl(p->tty[0], TIOCSWINSZ, P(&size));
	if (rc >= 0)
		rc = p->tty[1] = tty_other(p->tty[0]);
	return rc >= 0 || fail(p, STEP_TTY, rc);
}

/* For the next program, made while one runs that nobody waits for here. */
static struct {
	int fds[2];
	bool made;
} ahead[2];

void
child_streams_ahead(void)
{
	for (int i = 0; i < 2; i++)
		if (!ahead[i].made)
			ahead[i].made = sys_pipe(ahead[i].fds) == 0;
}

static int
pipe_take(int i, int *ret)
{
	if (!ahead[i].made)
		return sys_pipe(ret);
	ahead[i].made = false;
	ret[0] = ahead[i].fds[0];
	ret[1] = ahead[i].fds[1];
	return 0;
}

/* Made in here, so that they belong to the user of the sandbox and /dev/stdout opens again. */
static bool
pipes_make(struct proc *p)
{
	int rc = pipe_take(0, p->out);

	if (rc == 0 && (p->order.flags & INSIDE_MERGE) == 0)
		rc = pipe_take(1, p->err);
	if (rc == 0 && (p->order.flags & INSIDE_STDIN) != 0)
		rc = sys_pipe(p->in);
	return rc == 0 || fail(p, STEP_PIPE, rc);
}

static int
given_take(struct proc *p)
{
	int fd = p->fds[0];

	p->nfds--;
	for (int i = 0; i < p->nfds; i++)
		p->fds[i] = p->fds[i + 1];
	return fd;
}

bool
child_given(struct proc *p)
{
	bool merge = (p->order.flags & INSIDE_MERGE) != 0;
	bool in = (p->order.flags & INSIDE_STDIN) != 0;
	bool given = (p->order.flags & INSIDE_GIVEN) != 0;
	int n = given ? 1 + (merge ? 0 : 1) + (in ? 1 : 0) : 0;

	if (p->nfds < n || p->nfds > n + PROC_FDS_MAX ||
	    (given && (p->order.flags & INSIDE_TTY) != 0))
		return false;
	if (!given)
		return true;
	p->out[1] = given_take(p);
	if (!merge)
		p->err[1] = given_take(p);
	if (in)
		p->in[0] = given_take(p);
	return true;
}

bool
child_streams(struct proc *p)
{
	if ((p->order.flags & INSIDE_GIVEN) != 0)
		return true;
	return (p->order.flags & INSIDE_TTY) != 0 ? tty_make(p) : pipes_make(p);
}

static struct rlimit files; /* of each program; 0: as pid 1's */

static int
limit_call(const struct rlimit *put, struct rlimit *get)
{
	return (int)sys_call(SYS_prlimit64, 0, RLIMIT_NOFILE, P(put), P(get), 0);
}

unsigned
child_files_limit(unsigned asked)
{
	struct rlimit own = {0};

	if (limit_call(NULL, &own) < 0)
		wire_fatal("pid 1 cannot ask for its limit of open files");
	own.rlim_cur = own.rlim_max;
	if (limit_call(&own, NULL) < 0)
		wire_fatal("pid 1 cannot raise its limit of open files");
	files.rlim_cur = asked < own.rlim_max / 2 ? asked : own.rlim_max / 2;
	files.rlim_max = files.rlim_cur;
	return (unsigned)files.rlim_cur;
}

/* The helper is our own program, and walks deep trees. */
static int
limit_set(const struct proc *p)
{
	if (files.rlim_max == 0 || (p->order.flags & INSIDE_HELPER) != 0)
		return 0;
	return limit_call(&files, NULL);
}

/* --- the program -------------------------------------------------------------------------- */

/* Descriptors of pid 1 are numbered above 3, so no copy to 0, 1 or 2 hits another's source. */
static int
stdio_set(struct proc *p)
{
	int in = p->in[0], out = p->out[1], err = p->err[1] >= 0 ? p->err[1] : p->out[1], rc;

	if ((p->order.flags & INSIDE_TTY) != 0) {
		in = out = err = p->tty[1];
		if ((rc = sys_ioctl(in, TIOCSCTTY, 0)) < 0)
			return rc;
	}
	if (in >= 0 && (rc = sys_dup(in, 0)) < 0)
		return rc;
	if ((rc = sys_dup(out, 1)) < 0)
		return rc;
	return sys_dup(err, 2);
}

/* First out of the way of each other's places, then into them. */
static int
extra_set(struct proc *p)
{
	int from[PROC_FDS_MAX], end = PROC_FIRST_FD + p->nfds, rc;

	for (int i = 0; i < p->nfds; i++) {
		from[i] = p->fds[i];
		if (from[i] >= PROC_FIRST_FD && from[i] < end &&
		    (from[i] = sys_fcntl(from[i], F_DUPFD_CLOEXEC, end)) < 0)
			return from[i];
	}
	for (int i = 0; i < p->nfds; i++)
		if ((rc = sys_dup(from[i], PROC_FIRST_FD + i)) < 0)
			return rc;
	return 0;
}

/* As execvpe(3): what the kernel does not know is a script of the shell. */
static int
exec_path(struct proc *p, const char *path)
{
	char **argv = p->order.argv;
	char *was = argv[0];
	int rc = sys_exec(path, argv, p->order.env);

	if (rc != -ENOEXEC)
		return rc;
	argv[-1] = (char *)(uintptr_t) "/bin/sh";
	argv[0] = (char *)(uintptr_t)path;
	rc = sys_exec(argv[-1], argv - 1, p->order.env);
	argv[0] = was;
	return rc;
}

static const char *
exec_dirs(char **env)
{
	for (; *env != NULL; env++)
		if (memcmp(*env, "PATH=", strlen(*env) < 5 ? strlen(*env) + 1 : 5) == 0)
			return *env + 5;
	return "/bin:/usr/bin";
}

/* Goes on to the next directory after this error. */
static bool
exec_next(int rc)
{
	return rc == -EACCES || rc == -ENOENT || rc == -ESTALE || rc == -ENOTDIR || rc == -ENODEV ||
	       rc == -ETIMEDOUT || rc == -ENAMETOOLONG;
}

/* Searches in the program's own PATH, from its own directory on. */
static int
exec_search(struct proc *p, const char *name)
{
	const char *dirs = exec_dirs(p->order.env);
	int rc, seen = -ENOENT;

	for (bool more = true; more;) {
		struct text t = TEXT(p->scratch);
		size_t n = 0;

		while (dirs[n] != '\0' && dirs[n] != ':')
			n++;
		more = dirs[n] == ':';
		text_mem(&t, dirs, n);
		if (n != 0)
			text_put(&t, "/");
		text_put(&t, name);
		dirs += n + (more ? 1 : 0);
		/* Cut would be another program. */
		rc = t.n + 1 == t.room ? -ENAMETOOLONG : exec_path(p, p->scratch);
		if (!exec_next(rc))
			return rc;
		if (rc == -EACCES)
			seen = rc;
	}
	return seen;
}

static int
exec_program(struct proc *p)
{
	const char *name = p->order.argv[0];

	if ((p->order.flags & INSIDE_HELPER) != 0)
		return sys_exec_fd(INSIDE_HELPER_FD, p->order.argv, p->order.env);
	if (name[0] == '\0')
		return -ENOENT;
	for (const char *c = name; *c != '\0'; c++)
		if (*c == '/')
			return exec_path(p, name);
	return exec_search(p, name);
}

static void
child_run(void *arg)
{
	struct proc *p = arg;
	enum proc_step step = STEP_STDIO;
	bool roams = p->roams; /* the minder's own stays as it is */
	int rc;

	(void)sys_call(SYS_setsid, 0, 0, 0, 0, 0);
	if ((rc = stdio_set(p)) >= 0 && (rc = extra_set(p)) >= 0 && (rc = limit_set(p)) >= 0) {
		step = STEP_CHDIR;
		rc = (int)sys_call(SYS_chdir, P(p->order.cwd), 0, 0, 0, 0);
	}
	if (rc >= 0) {
		step = STEP_EXEC;
		cpus_give(&roams);
		/* Execution wakes the minder, on the program's own processor more often than not:
		 * under this policy it lets the program go on first, and a short one end. */
		if (minder_may_yield)
			sys_policy(p->minder, SCHED_BATCH);
		sys_mask(0);
		rc = exec_program(p);
	}
	(void)fail(p, step, rc);
	sys_exit(127);
}

bool
child_start(struct proc *p)
{
	int pid;

	if (p->order.code_path != NULL && !code_write(p))
		return false;
	/* The minder stands still meanwhile, in the upper half of the same stack. */
	pid = sys_clone_run(CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | SIGCHLD,
	    p->stack + PROC_STACK / 2, &p->main, child_run, p);
	if (minder_may_yield)
		sys_policy(0, SCHED_OTHER);
	if (pid < 0)
		return fail(p, STEP_PROCESS, pid);
	if (LOOK(p->error) == 0)
		return true;
	while (sys_wait(0, &p->status, &p->usage) == -EINTR)
		continue;
	return false;
}
