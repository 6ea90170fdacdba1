/*
 * A pid 1 for tests of the supervisor: the test's own program, executed anew with a wire of
 * inside.h at descriptor 3. Runs real programs, without any wall, and on request says what no pid 1
 * may.
 */
#ifndef TESTS_UNIT_SUPER_PID1_H
#define TESTS_UNIT_SUPER_PID1_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/sandbox/inside.h"
#include "common/xalloc.h"

#define PID1_PROCS 600

static struct {
	pid_t pid;
	uint32_t proc;
	bool deaf, keep;
	pid_t left; /* its group, after its end */
	char code[128];
} pid1_procs[PID1_PROCS];

/* n bytes behind the head, whatever that says of its body. */
static void
pid1_send_all(struct inside_head h, const void *body, size_t n, const int *fds, size_t nfds)
{
	union {
		char room[CMSG_SPACE(sizeof(int) * 16)];
		struct cmsghdr align;
	} c = {0};
	struct iovec iov[2] = {{&h, sizeof(h)}, {(void *)(uintptr_t)body, n}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = n != 0 && body != NULL ? 2 : 1};

	if (nfds != 0) {
		struct cmsghdr *q;

		m.msg_control = c.room;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		q = CMSG_FIRSTHDR(&m);
		q->cmsg_level = SOL_SOCKET;
		q->cmsg_type = SCM_RIGHTS;
		q->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(q), fds, sizeof(int) * nfds);
	}
	if (sendmsg(INSIDE_WIRE_FD, &m, MSG_NOSIGNAL) < 0)
		_exit(0);
}

static void
pid1_send(struct inside_head h, const void *body, const int *fds, size_t nfds)
{
	pid1_send_all(h, body, h.size, fds, nfds);
}

static void
pid1_text(uint16_t type, uint32_t proc, uint32_t a, const char *text)
{
	pid1_send((struct inside_head){(uint32_t)strlen(text), type, 0, proc, a}, text, NULL, 0);
}

static void
pid1_exited(uint32_t proc, int status, const struct rusage *u, size_t cut)
{
	struct inside_exited e = {.status = (uint32_t)status,
	    .user_us = (uint64_t)u->ru_utime.tv_usec,
	    .peak_kib = (uint64_t)u->ru_maxrss};

	pid1_send((struct inside_head){(uint32_t)(sizeof(e) - cut), INSIDE_EXITED, 0, proc, 0}, &e,
	    NULL, 0);
}

/* As bytes of several that the kernel gives as one: the failure of the one before, and the start
 * and the end of this one. */
static void
pid1_burst(uint32_t proc, const int *fds)
{
	struct {
		char text[8];
		struct inside_head spawned, exited;
		struct inside_exited e;
	} rest = {"gone now", {0, INSIDE_SPAWNED, 2, proc, 77},
	    {sizeof(rest.e), INSIDE_EXITED, 0, proc, 0}, {.status = 3 << 8}};

	pid1_send_all((struct inside_head){8, INSIDE_FAILED, 0, proc - 1, ENOENT}, &rest,
	    sizeof(rest), fds, 2);
}

/* Start and end of a program as one. */
static void
pid1_both(uint32_t proc, uint32_t proc_of_end, const int *fds)
{
	struct {
		struct inside_head h;
		struct inside_exited e;
	} end = {{sizeof(end.e), INSIDE_EXITED, 0, proc_of_end, 0}, {.status = 3 << 8}};

	pid1_send_all(
	    (struct inside_head){0, INSIDE_SPAWNED, 2, proc, 77}, &end, sizeof(end), fds, 2);
}

/* What no pid 1 may say, and what it seldom says. True: it was that. */
static bool
pid1_lie(const char *what, uint32_t proc)
{
	int p[2], out[10];
	struct inside_head spawned = {0, INSIDE_SPAWNED, 2, proc, 77};
	struct rusage none = {0};

	if (what[0] != '@')
		return false;
	if (pipe(p) != 0)
		_exit(1);
	for (size_t i = 0; i < ARRAY_LEN(out); i++)
		out[i] = p[0];
	if (strcmp(what, "@die") == 0) {
		_exit(0);
	} else if (strcmp(what, "@deaf") == 0) {
		for (size_t i = 0; i < PID1_PROCS; i++)
			if (pid1_procs[i].proc == 0) {
				pid1_procs[i].proc = proc;
				pid1_procs[i].deaf = true;
				break;
			}
		pid1_send(spawned, NULL, out, 2);
	} else if (strcmp(what, "@twice") == 0) {
		pid1_send(spawned, NULL, out, 2);
		pid1_send(spawned, NULL, out, 2);
	} else if (strcmp(what, "@nofds") == 0) {
		spawned.nfds = 0;
		pid1_send(spawned, NULL, NULL, 0);
	} else if (strcmp(what, "@count") == 0) {
		pid1_send(spawned, NULL, out, 1);
	} else if (strcmp(what, "@many") == 0) {
		pid1_send(spawned, NULL, out, 10);
	} else if (strcmp(what, "@file") == 0) {
		out[1] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		pid1_send(spawned, NULL, out, 2);
	} else if (strcmp(what, "@writer") == 0) {
		out[0] = p[1];
		pid1_send(spawned, NULL, out, 2);
	} else if (strcmp(what, "@early") == 0) {
		pid1_exited(proc, 0, &none, 0);
	} else if (strcmp(what, "@short") == 0) {
		pid1_send(spawned, NULL, out, 2);
		pid1_exited(proc, 0, &none, 4);
	} else if (strcmp(what, "@other") == 0) {
		pid1_send(spawned, NULL, out, 2);
		pid1_exited(proc + 1000, 0, &none, 0);
	} else if (strcmp(what, "@both") == 0) {
		pid1_both(proc, proc, out);
	} else if (strcmp(what, "@both-other") == 0) {
		pid1_both(proc, proc + 1000, out);
	} else if (strcmp(what, "@burst") == 0) {
		pid1_burst(proc, out);
	} else if (strcmp(what, "@stray") == 0) {
		pid1_send((struct inside_head){1, INSIDE_FAILED, 0, proc, ENOENT}, "x", out, 1);
	} else if (strcmp(what, "@type") == 0) {
		pid1_send((struct inside_head){0, 99, 0, proc, 0}, NULL, NULL, 0);
	} else if (strcmp(what, "@size") == 0) {
		pid1_send((struct inside_head){INSIDE_ANSWER_MAX + 1, INSIDE_FAILED, 0, proc, 2},
		    NULL, NULL, 0);
	} else if (strcmp(what, "@ready") == 0) {
		pid1_text(INSIDE_READY, 0, 0, "");
	} else if (strcmp(what, "@emptied") == 0) {
		pid1_send(spawned, NULL, out, 2);
		pid1_text(INSIDE_EMPTIED, proc, 0, "");
	} else if (strcmp(what, "@again") == 0) {
		pid1_text(INSIDE_FAILED, proc, EAGAIN, "a new process for x");
	} else if (strcmp(what, "@ugly") == 0) {
		pid1_text(INSIDE_FAILED, proc, ENOENT, "a\033[2J\xff");
	}
	(void)close(p[0]);
	(void)close(p[1]);
	return true; /* "@mute" says nothing */
}

struct pid1_pipes {
	int mine[3], theirs[3]; /* in, out, errors; -1: none */
};

static void
pid1_pipe(struct pid1_pipes *p, int i)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) != 0)
		_exit(1);
	p->mine[i] = pair[i == 0 ? 1 : 0];
	p->theirs[i] = pair[i == 0 ? 0 : 1];
}

static _Noreturn void
pid1_child(
    struct pid1_pipes *p, const char *cwd, char **argv, const int *fds, size_t nfds, int fail)
{
	sigset_t none;
	int e;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* as with a real pid 1 */
	(void)setsid();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < 3; i++)
		(void)dup2(p->theirs[i] >= 0 ? p->theirs[i] : p->theirs[1], i);
	if (p->theirs[0] < 0)
		(void)dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
	for (size_t i = 0; i < nfds; i++)
		(void)dup2(fds[i], 10 + (int)i);
	if (chdir(cwd) == 0)
		(void)execvp(argv[0], argv);
	e = errno;
	(void)!write(fail, &e, sizeof(e));
	_exit(127);
}

static void
pid1_tty(struct pid1_pipes *p)
{
	p->mine[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	(void)grantpt(p->mine[1]);
	(void)unlockpt(p->mine[1]);
	p->theirs[0] = p->theirs[1] = p->theirs[2] =
	    open(ptsname(p->mine[1]), O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static void
pid1_run(uint32_t proc, const struct inside_spawn *s, const char *cwd, char **argv, const int *fds,
    size_t nfds)
{
	struct pid1_pipes p = {{-1, -1, -1}, {-1, -1, -1}};
	int fail[2], e = 0, send[3];
	size_t n = 0, at = 0;
	pid_t pid;

	if (pipe2(fail, O_CLOEXEC) != 0)
		_exit(1);
	if ((s->flags & INSIDE_TTY) != 0) {
		pid1_tty(&p);
	} else {
		pid1_pipe(&p, 1);
		if ((s->flags & INSIDE_MERGE) == 0)
			pid1_pipe(&p, 2);
		if ((s->flags & INSIDE_STDIN) != 0)
			pid1_pipe(&p, 0);
	}
	pid = fork();
	if (pid == 0)
		pid1_child(&p, cwd, argv, fds, nfds, fail[1]);
	(void)close(fail[1]);
	for (int i = 0; i < 3; i++)
		if (p.theirs[i] >= 0)
			(void)close(p.theirs[i]);
	if (read(fail[0], &e, sizeof(e)) == (ssize_t)sizeof(e)) {
		(void)waitpid(pid, NULL, 0);
		pid1_text(INSIDE_FAILED, proc, (uint32_t)e, argv[0]);
	} else {
		while (pid1_procs[at].proc != 0)
			at++;
		pid1_procs[at].pid = pid;
		pid1_procs[at].code[0] = '\0';
		if (s->code_size != 0)
			memcpy(pid1_procs[at].code, argv[s->argc], strlen(argv[s->argc]) + 1);
		pid1_procs[at].keep = (s->flags & INSIDE_KEEP) != 0;
		pid1_procs[at].proc = proc;
		for (int i = 1; i < 4; i++)
			if (p.mine[i % 3] >= 0)
				send[n++] = p.mine[i % 3];
		pid1_send((struct inside_head){0, INSIDE_SPAWNED, (uint16_t)n, proc, (uint32_t)pid},
		    NULL, send, n);
	}
	(void)close(fail[0]);
	for (int i = 0; i < 3; i++)
		if (p.mine[i] >= 0)
			(void)close(p.mine[i]);
}

static void
pid1_spawn(uint32_t proc, char *body, const int *fds, size_t nfds)
{
	struct inside_spawn s;
	char *at = body + sizeof(s), *cwd = at, **argv, path[128];

	memcpy(&s, body, sizeof(s));
	at += strlen(at) + 1;
	argv = xcalloc(s.argc + 2, sizeof(*argv));
	for (uint32_t i = 0; i < s.argc; i++, at += strlen(at) + 1)
		argv[i] = at;
	for (uint32_t i = 0; i < s.envc; i++, at += strlen(at) + 1)
		(void)putenv(at);
	if (s.code_size != 0) {
		int fd;

		(void)snprintf(
		    path, sizeof(path), "/tmp/t-super-%d-%s", (int)getpid(), strrchr(at, '/') + 1);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		(void)!write(fd, at + strlen(at) + 1, s.code_size);
		(void)close(fd);
		argv[s.argc] = path;
	}
	if (!pid1_lie(argv[0], proc))
		pid1_run(proc, &s, strcmp(cwd, "/work") == 0 ? "/" : cwd, argv, fds, nfds);
	free(argv);
}

static void
pid1_reap(void)
{
	struct rusage u;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &u)) > 0)
		for (size_t i = 0; i < PID1_PROCS; i++)
			if (pid1_procs[i].pid == pid) {
				if (!pid1_procs[i].keep)
					(void)kill(-pid, SIGKILL);
				pid1_exited(pid1_procs[i].proc, status, &u, 0);
				if (pid1_procs[i].code[0] != '\0')
					(void)unlink(pid1_procs[i].code);
				pid1_procs[i].pid = 0;
				if (pid1_procs[i].keep && kill(-pid, 0) == 0) {
					pid1_procs[i].left = pid;
					continue;
				}
				if (pid1_procs[i].keep)
					pid1_text(INSIDE_EMPTIED, pid1_procs[i].proc, 0, "");
				pid1_procs[i].proc = 0;
			}
}

static void
pid1_signal(uint32_t proc, int sig)
{
	for (size_t i = 0; i < PID1_PROCS; i++)
		if (pid1_procs[i].pid > 0 && (proc == 0 || pid1_procs[i].proc == proc))
			(void)kill(-pid1_procs[i].pid, sig);
}

/* What one of INSIDE_KEEP left in its group. */
static void
pid1_left_kill(uint32_t proc)
{
	for (size_t i = 0; i < PID1_PROCS; i++)
		if (pid1_procs[i].left > 0 && pid1_procs[i].proc == proc) {
			(void)kill(-pid1_procs[i].left, SIGKILL);
			pid1_text(INSIDE_EMPTIED, proc, 0, "");
			pid1_procs[i].left = 0;
			pid1_procs[i].proc = 0;
		}
}

static void
pid1_order(void)
{
	union {
		char room[CMSG_SPACE(sizeof(int) * 8)];
		struct cmsghdr align;
	} c;
	struct inside_head h;
	struct iovec iov = {&h, sizeof(h)};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.room, .msg_controllen = sizeof(c)};
	char *body;
	int fds[8];
	size_t off = 0;

	if (recvmsg(INSIDE_WIRE_FD, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL) != (ssize_t)sizeof(h))
		_exit(0);
	if (h.nfds != 0)
		memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), h.nfds * sizeof(int));
	body = xcalloc(1, h.size + 1);
	while (off < h.size) {
		ssize_t k = read(INSIDE_WIRE_FD, body + off, h.size - off);

		if (k <= 0)
			_exit(0);
		off += (size_t)k;
	}
	switch (h.type) {
	case INSIDE_SPAWN: pid1_spawn(h.proc, body, fds, h.nfds); break;
	case INSIDE_SIGNAL: pid1_signal(h.proc, (int)h.a); break;
	case INSIDE_KILL:
		pid1_signal(h.proc, SIGKILL);
		pid1_left_kill(h.proc);
		break;
	case INSIDE_HOLD: pid1_signal(0, h.a != 0 ? SIGSTOP : SIGCONT); break;
	default: _exit(9);
	}
	for (size_t i = 0; i < h.nfds; i++)
		(void)close(fds[i]);
	free(body);
}

/* `how` it starts: "" as it should. */
static int
pid1_main(const char *how)
{
	sigset_t chld;
	int sigfd;

	(void)fcntl(INSIDE_WIRE_FD, F_SETFD, FD_CLOEXEC);
	(void)sigemptyset(&chld);
	(void)sigaddset(&chld, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &chld, NULL);
	sigfd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (strcmp(how, "fatal") == 0)
		return pid1_text(INSIDE_FATAL, 0, 0, "no\tfilter"), 1;
	if (strcmp(how, "gone") == 0)
		return 1;
	if (strcmp(how, "forger") == 0)
		pid1_text(INSIDE_READY, 0, 0, "\"a\":1},\"level\":{\"b\":2");
	else if (strcmp(how, "mute") != 0)
		pid1_text(INSIDE_READY, 0, 0, "\"seccomp\":\"filter\",\"list\":[1,2]");
	for (;;) {
		struct pollfd p[2] = {
		    {.fd = INSIDE_WIRE_FD, .events = POLLIN}, {.fd = sigfd, .events = POLLIN}};
		struct signalfd_siginfo drop;

		(void)poll(p, 2, -1);
		while (read(sigfd, &drop, sizeof(drop)) > 0)
			continue;
		pid1_reap();
		if (p[0].revents != 0)
			pid1_order();
	}
}

#endif
