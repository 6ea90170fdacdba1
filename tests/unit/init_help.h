/*
 * Pid 1 of a sandbox under test: the real cofferdam-init in namespaces of its own, with the rights
 * that the back end would leave it and a filter that allows everything; and the supervisor's end
 * of its wire.
 */
#ifndef TESTS_INIT_HELP_H
#define TESTS_INIT_HELP_H

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/sandbox/inside.h"
#include "common/buf.h"
#include "common/xalloc.h"

enum box_without { /* one thing that the measurement must miss */
	BOX_WHOLE = 0,
	BOX_NO_FILTER,
	BOX_CAP_BOUND,
	BOX_NO_NNP,
	BOX_UID,
	BOX_PID,
};
struct box_want {
	enum box_without without;
	const char *word, *env; /* argv[1]; one variable */
	bool no_helper;
	bool careless;	/* whoever starts it ignores signals, has an odd umask and leaks */
	bool open_proc; /* without hidepid */
	bool scan;	/* the build for kernels without lists of children */
	unsigned files; /* hard limit of open files; 0: this process's */
};
struct box {
	int wire;
	pid_t pid;
};
struct frame {
	struct inside_head h;
	char body[INSIDE_ANSWER_MAX + 1];
	int fds[8];
	size_t nfds;
};

static inline const char *
init_path(const char *name)
{
	static char path[4096];
	const char *build = getenv("BUILD");
	ssize_t n;

	if (build != NULL) {
		(void)snprintf(path, sizeof(path), "%s/%s", build, name);
		return path;
	}
	n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	assert_true(n > 0);
	path[n] = '\0';
	(void)snprintf(strrchr(path, '/'), 32, "/%s", name);
	return path;
}

/* --- in the child, before pid 1 ----------------------------------------------------------- */

static inline void
file_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		(void)dprintf(2, "%s: %s\n", path, strerror(errno));
		_exit(90);
	}
	(void)close(fd);
}

/* The test's own program stays to be seen, in /tmp/bin. */
static inline void
box_mounts(const struct box_want *w, int build)
{
	char dir[64];

	(void)snprintf(dir, sizeof(dir), "/proc/self/fd/%d", build);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0 ||
	    mkdir("/tmp/bin", 0755) != 0 || mount(dir, "/tmp/bin", NULL, MS_BIND, NULL) != 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		w->open_proc ? "" : "hidepid=2") != 0 ||
	    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620") != 0 ||
	    mount("/dev/pts/ptmx", "/dev/ptmx", NULL, MS_BIND, NULL) != 0)
		_exit(91);
}

static inline void
box_rights(const struct box_want *w)
{
	struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog prog = {.len = 1, .filter = allow};
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	for (unsigned long c = 0; c < 64; c++)
		if (w->without != BOX_CAP_BOUND || c != CAP_KILL)
			(void)prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
	if (w->without == BOX_NO_NNP) {
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) != 0)
			_exit(92);
	}
	if (syscall(SYS_capset, &head, none) != 0)
		_exit(93);
	if (w->without != BOX_NO_NNP && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		_exit(94);
	if (w->without != BOX_NO_NNP && w->without != BOX_NO_FILTER &&
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) != 0)
		_exit(95);
}

static inline void
box_careless(void)
{
	for (int s = 1; s <= 64; s++)
		(void)signal(s, SIG_IGN);
	(void)umask(0);
	for (int fd = 5; fd < 40; fd++)
		(void)dup2(2, fd);
}

static inline _Noreturn void
box_child(const struct box_want *w, int wire, int go, const char *path)
{
	char argv0[] = "cofferdam-init", word[64] = "", env0[128] = "", dir[4096];
	char *argv[] = {argv0, w->word != NULL ? word : NULL, NULL};
	char *env[] = {w->env != NULL ? env0 : NULL, NULL};
	int helper = w->no_helper ? -1 : open("/bin/true", O_RDONLY | O_CLOEXEC);
	int init = open(path, O_RDONLY | O_CLOEXEC);
	uid_t uid = w->without == BOX_UID ? 1001 : 1000;

	(void)snprintf(word, sizeof(word), "%s", w->word != NULL ? w->word : "");
	(void)snprintf(env0, sizeof(env0), "%s", w->env != NULL ? w->env : "");
	(void)snprintf(dir, sizeof(dir), "%s", path);
	*strrchr(dir, '/') = '\0';
	if (read(go, &(char){0}, 1) != 1)
		_exit(89);
	if (setresgid(1000, 1000, 1000) != 0 || setresuid(uid, uid, uid) != 0)
		_exit(90);
	if (w->without != BOX_PID)
		box_mounts(w, open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
	init = fcntl(init, F_DUPFD_CLOEXEC, 100);
	helper = helper >= 0 ? fcntl(helper, F_DUPFD_CLOEXEC, 100) : -1;
	wire = fcntl(wire, F_DUPFD_CLOEXEC, 100);
	(void)close_range(3, 99, 0);
	if (dup2(wire, 3) != 3 || (helper >= 0 && dup2(helper, 4) != 4))
		_exit(96);
	if (w->careless)
		box_careless();
	if (w->files != 0 && setrlimit(RLIMIT_NOFILE, &(struct rlimit){w->files, w->files}) != 0)
		_exit(98);
	box_rights(w);
	(void)syscall(SYS_execveat, init, "", argv, env, AT_EMPTY_PATH);
	_exit(97);
}

/* As root the code inside is a spare user outside, so that limits hold for it. */
static inline void
box_map(pid_t pid, const struct box_want *w)
{
	unsigned uid = getuid() == 0 ? 63999 : (unsigned)getuid();
	unsigned gid = getuid() == 0 ? 63999 : (unsigned)getgid();
	char path[64], map[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/setgroups", (int)pid);
	file_put(path, "deny");
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	(void)snprintf(map, sizeof(map), "%d %u 1", w->without == BOX_UID ? 1001 : 1000, uid);
	file_put(path, map);
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
	(void)snprintf(map, sizeof(map), "1000 %u 1", gid);
	file_put(path, map);
}

static inline struct box
box_start(const struct box_want *w)
{
	unsigned long ns = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
			   CLONE_NEWNET | (w->without == BOX_PID ? 0 : CLONE_NEWPID);
	const char *path = init_path(w->scan ? "test_init_scan" : "cofferdam-init");
	struct box b;
	int pair[2], go[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	b.pid = (pid_t)syscall(SYS_clone, ns | SIGCHLD, NULL, NULL, NULL, NULL);
	assert_true(b.pid >= 0);
	if (b.pid == 0)
		box_child(w, pair[1], go[0], path);
	box_map(b.pid, w);
	assert_int_equal(write(go[1], "", 1), 1);
	(void)close(pair[1]);
	(void)close(go[0]);
	(void)close(go[1]);
	b.wire = pair[0];
	return b;
}

/* --- the wire ----------------------------------------------------------------------------- */

static inline void
frame_close(struct frame *f)
{
	for (size_t i = 0; i < f->nfds; i++)
		if (f->fds[i] >= 0)
			(void)close(f->fds[i]);
	f->nfds = 0;
}

/* False: the wire ended, or nothing came in time. */
static inline bool
frame_read(struct box *b, struct frame *f, int ms)
{
	size_t done = 0, all = sizeof(f->h);

	f->nfds = 0;
	while (done < all) {
		struct pollfd p = {.fd = b->wire, .events = POLLIN};
		union {
			struct cmsghdr h;
			char room[CMSG_SPACE(sizeof(int) * 8)];
		} c;
		bool head = done < sizeof(f->h);
		struct iovec iov = {head ? (char *)&f->h + done : f->body + done - sizeof(f->h),
		    head ? sizeof(f->h) - done : all - done};
		struct msghdr m = {.msg_iov = &iov,
		    .msg_iovlen = 1,
		    .msg_control = &c,
		    .msg_controllen = sizeof(c)};
		ssize_t n;

		if (poll(&p, 1, ms) <= 0)
			return false;
		n = recvmsg(b->wire, &m, MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return false;
		for (struct cmsghdr *q = CMSG_FIRSTHDR(&m); q != NULL; q = CMSG_NXTHDR(&m, q)) {
			size_t k = (q->cmsg_len - CMSG_LEN(0)) / sizeof(int);

			memcpy(f->fds + f->nfds, CMSG_DATA(q), k * sizeof(int));
			f->nfds += k;
		}
		done += (size_t)n;
		if (head && done == sizeof(f->h)) {
			assert_true(f->h.size <= INSIDE_ANSWER_MAX);
			all += f->h.size;
		}
	}
	f->body[f->h.size] = '\0';
	assert_int_equal(f->nfds, f->h.nfds);
	return true;
}

static inline void
frame_want(struct box *b, struct frame *f, unsigned type, uint32_t proc)
{
	if (!frame_read(b, f, 20000))
		fail_msg("no frame came, wanted type %u of %u", type, proc);
	if (f->h.type != type || (proc != 0 && f->h.proc != proc))
		fail_msg("frame %u of %u (%s), wanted %u of %u", (unsigned)f->h.type, f->h.proc,
		    f->h.type == INSIDE_FAILED || f->h.type == INSIDE_FATAL ? f->body : "", type,
		    proc);
}

static inline void
frame_send(
    struct box *b, struct inside_head h, const void *body, size_t n, const int *fds, size_t nfds)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * 16)];
	} c = {0};
	struct iovec iov[2] = {{&h, sizeof(h)}, {(char *)(uintptr_t)body, n}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	size_t done;
	ssize_t k;

	if (nfds != 0) {
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		c.h.cmsg_level = SOL_SOCKET;
		c.h.cmsg_type = SCM_RIGHTS;
		c.h.cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(&c.h), fds, sizeof(int) * nfds);
	}
	k = sendmsg(b->wire, &m, MSG_NOSIGNAL);
	assert_true(k > 0);
	for (done = (size_t)k; done < sizeof(h) + n; done += (size_t)k) {
		k = send(b->wire, (const char *)body + done - sizeof(h), n + sizeof(h) - done,
		    MSG_NOSIGNAL);
		assert_true(k > 0);
	}
}

static inline void
order(struct box *b, unsigned type, uint32_t proc, uint32_t a)
{
	frame_send(b, (struct inside_head){.type = (uint16_t)type, .proc = proc, .a = a}, NULL, 0,
	    NULL, 0);
}

struct spawn {
	unsigned flags;
	const char *cwd, *argv[8], *env[8], *code_path, *code;
	uint16_t rows, cols;
	int fds[8];
	size_t nfds;
};

static inline void
spawn_body(const struct spawn *s, struct buf *b)
{
	struct inside_spawn h = {.flags = s->flags,
	    .rows = s->rows,
	    .cols = s->cols,
	    .code_size = s->code != NULL ? (uint32_t)strlen(s->code) : 0};

	while (s->argv[h.argc] != NULL)
		h.argc++;
	while (s->env[h.envc] != NULL)
		h.envc++;
	buf_put(b, &h, sizeof(h));
	buf_put(b, s->cwd != NULL ? s->cwd : "/", strlen(s->cwd != NULL ? s->cwd : "/") + 1);
	for (size_t i = 0; i < h.argc; i++)
		buf_put(b, s->argv[i], strlen(s->argv[i]) + 1);
	for (size_t i = 0; i < h.envc; i++)
		buf_put(b, s->env[i], strlen(s->env[i]) + 1);
	if (s->code != NULL) {
		buf_put(b, s->code_path, strlen(s->code_path) + 1);
		buf_put(b, s->code, strlen(s->code));
	}
}

static inline void
spawn_send(struct box *b, uint32_t proc, const struct spawn *s)
{
	AUTO_BUF struct buf body = BUF(INSIDE_ORDER_MAX);

	spawn_body(s, &body);
	frame_send(b,
	    (struct inside_head){.size = (uint32_t)body.n,
		.type = INSIDE_SPAWN,
		.nfds = (uint16_t)s->nfds,
		.proc = proc},
	    body.p, body.n, s->fds, s->nfds);
}

/* Reads to the end of file, at most size - 1 bytes; closes. */
static inline char *
text_of(int *fd, char *out, size_t size)
{
	size_t n = 0;

	for (;;) {
		struct pollfd p = {.fd = *fd, .events = POLLIN};
		ssize_t k;

		if (n + 1 == size || poll(&p, 1, 20000) <= 0)
			break;
		k = read(*fd, out + n, size - 1 - n);
		if (k <= 0)
			break; /* a terminal ends with EIO */
		n += (size_t)k;
	}
	out[n] = '\0';
	(void)close(*fd);
	*fd = -1;
	return out;
}

static inline struct box
box_ready(const struct box_want *w)
{
	struct box b = box_start(w);
	struct frame f;

	frame_want(&b, &f, INSIDE_READY, 0);
	return b;
}

/* Closes the wire: pid 1 must end, and everything with it. Its wait status. */
static inline int
box_end(struct box *b)
{
	int status = -1;

	(void)close(b->wire);
	assert_int_equal(waitpid(b->pid, &status, 0), b->pid);
	return status;
}

/* Runs it to its end: output in out, wait status. */
static inline int
run(struct box *b, uint32_t proc, const struct spawn *s, char *out, size_t size)
{
	struct frame f, g;
	struct inside_exited e;

	spawn_send(b, proc, s);
	frame_want(b, &f, INSIDE_SPAWNED, proc);
	(void)text_of(&f.fds[0], out, size);
	frame_close(&f);
	frame_want(b, &g, INSIDE_EXITED, proc);
	assert_int_equal(g.h.size, sizeof(e));
	memcpy(&e, g.body, sizeof(e));
	return (int)e.status;
}

/* KiB of pid 1's memory: that is really there, or all that is mapped. */
static inline long
box_kib(const struct box *b, bool resident)
{
	char path[64];
	long size = 0, rss = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)b->pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &size, &rss), 2);
	(void)fclose(f);
	return (resident ? rss : size) * 4;
}

/* A line of the shell. */
#define SH(line) ((struct spawn){.flags = INSIDE_MERGE, .argv = {"/bin/sh", "-c", line}})

#endif
