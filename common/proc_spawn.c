/*
 * Starts one of our programs. Runs in the parent (and in the command line, for a parser).
 * What the new process inherits is counted here: four descriptors, an empty environment, no
 * signal state; it dies with the process that started it.
 */
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/banned.h"

struct spawn {
	const char *program, *name;
	int null_fd, wire_fd, report_fd;
	pid_t parent;
};

static void
signals_reset(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* dup2() onto itself would keep close-on-exec, so all are moved out of the way first. */
static int
descriptors_set(struct spawn *s)
{
	int null_fd = fcntl(s->null_fd, F_DUPFD_CLOEXEC, 10);
	int wire_fd = fcntl(s->wire_fd, F_DUPFD_CLOEXEC, 10);
	int report_fd = fcntl(s->report_fd, F_DUPFD_CLOEXEC, 10);

	if (null_fd < 0 || wire_fd < 0 || report_fd < 0)
		return -1;
	s->report_fd = report_fd;
	if (dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 || dup2(wire_fd, PROC_PARENT_FD) < 0)
		return -1;
	return (int)syscall(
	    SYS_close_range, PROC_PARENT_FD + 1, ~0U, (unsigned)CLOSE_RANGE_CLOEXEC);
}

/* Between fork and exec: calls that are safe there only. Never returns. */
static void __attribute__((noreturn)) become_program(struct spawn *s)
{
	char name[64] = {0};
	char *argv[] = {name, NULL};
#ifdef MODE_SANITIZED
	/* A confined process cannot be searched for leaks at its end. */
	static char asan[] = "ASAN_OPTIONS=detect_leaks=0";
	char *envp[] = {asan, NULL};
#else
	char *envp[] = {NULL};
#endif
	int e;

	for (size_t i = 0; i + 1 < sizeof(name) && s->name[i] != '\0'; i++)
		name[i] = s->name[i];
	signals_reset();
	(void)setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == s->parent &&
	    descriptors_set(s) == 0)
		(void)execve(s->program, argv, envp);
	e = errno;
	(void)!write(s->report_fd, &e, sizeof(e));
	_exit(127);
}

int
proc_spawn(const char *program, const char *name, int wire_fd, pid_t *ret_pid, struct err *err)
{
	AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	AUTO_FD int rfd = -1;
	AUTO_FD int wfd = -1;
	struct spawn s;
	int p[2], e = 0;
	ssize_t n;
	pid_t pid;

	if (null_fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "/dev/null");
	if (pipe2(p, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	rfd = p[0];
	wfd = p[1];
	s = (struct spawn){program, name, null_fd, wire_fd, wfd, getpid()};
	pid = fork();
	if (pid < 0)
		return err_sys(err, ERR_SYSTEM, errno, "starting %s", program);
	if (pid == 0)
		become_program(&s);
	(void)close(TAKE_FD(wfd));
	do
		n = read(rfd, &e, sizeof(e)); /* ends at exec */
	while (n < 0 && errno == EINTR);
	if (n != 0) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return err_sys(err, ERR_SYSTEM, e, "starting %s", program);
	}
	*ret_pid = pid;
	return 0;
}
