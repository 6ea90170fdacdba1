/* Beside each refusal the nearest thing that is allowed: it must work, or the walls are too high.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/walls/walls.h"

static bool
w_write(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);

	return fd >= 0 && write(fd, "x", 1) == 1 && ftruncate(fd, 0) == 0 && close(fd) == 0;
}

NEAR("F1-workspace", w_work, "files, directories, links and FIFOs can be made in /work")
{
	(void)mkdir("/work/near", 0755);
	return w_write("/work/near/ok") && mkdir("/work/near/dir", 0755) == 0 &&
	       rename("/work/near/ok", "/work/near/dir/ok") == 0 &&
	       symlink("ok", "/work/near/dir/l") == 0 &&
	       link("/work/near/dir/ok", "/work/near/dir/h") == 0 &&
	       chmod("/work/near/dir/ok", 0755) == 0 && mkfifo("/work/near/dir/f", 0600) == 0 &&
	       unlink("/work/near/dir/f") == 0;
}

NEAR("F1-temporary", w_tmp, "/tmp, /var/tmp and /dev/shm can be written")
{
	return w_write("/tmp/ok") && w_write("/dev/shm/ok") && w_write("/var/tmp/ok2");
}

NEAR("F2-programs", w_read, "programs, libraries and certificates of the host can be read")
{
	return access("/usr/bin/env", X_OK) == 0 && access("/etc/passwd", R_OK) == 0 &&
	       slurp("/etc/ssl/certs/ca-certificates.crt", room, sizeof(room));
}

NEAR("F7-modes", w_modes, "every mode but the setuid bits can be given")
{
	struct stat st;

	return w_write("/work/mode") && chmod("/work/mode", 0751) == 0 &&
	       stat("/work/mode", &st) == 0 && (st.st_mode & 07777) == 0751 &&
	       mkdir("/work/sticky", 01777) == 0;
}

NEAR("F7-devices", w_null, "the harmless devices work")
{
	char b[8];

	return open("/dev/null", O_WRONLY) >= 0 &&
	       read(open("/dev/urandom", O_RDONLY), b, 8) == 8 &&
	       read(open("/dev/zero", O_RDONLY), b, 8) == 8 &&
	       write(open("/dev/full", O_WRONLY), b, 1) == -1;
}

NEAR("F7-attributes", w_xattr,
    "an attribute of the user's can be set, where the file system has them")
{
	return w_write("/work/attr2") &&
	       (setxattr("/work/attr2", "user.x", "y", 1, 0) == 0 || errno == EOPNOTSUPP);
}

NEAR("I5-standard-streams", w_stdout, "standard output and error can be opened again by name")
{
	return open("/dev/stdout", O_WRONLY) >= 0 && open("/dev/stderr", O_WRONLY) >= 0;
}

static void *
thread(void *arg)
{
	return arg;
}

NEAR("M1-threads", w_thread, "threads run")
{
	pthread_t t;

	return pthread_create(&t, NULL, thread, NULL) == 0 && pthread_join(t, NULL) == 0;
}

NEAR("M1-fork", w_fork, "processes run, also by vfork")
{
	int st;
	pid_t pid = fork();

	if (pid == 0)
		_exit(3);
	if (waitpid(pid, &st, 0) != pid || WEXITSTATUS(st) != 3)
		return REFUSED;
	pid = vfork();
	if (pid == 0)
		_exit(4);
	return waitpid(pid, &st, 0) == pid && WEXITSTATUS(st) == 4;
}

NEAR("N1-own-loopback", w_loop, "programs inside reach each other by the loopback")
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);

	return bind(s, (const struct sockaddr *)&a, sizeof(a)) == 0 && listen(s, 1) == 0 &&
	       getsockname(s, (struct sockaddr *)&a, &n) == 0 &&
	       connect(c, (const struct sockaddr *)&a, n) == 0;
}

NEAR("N1-own-datagrams", w_udp, "also by datagrams")
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int s = socket(AF_INET, SOCK_DGRAM, 0), c = socket(AF_INET, SOCK_DGRAM, 0);
	char b;

	return bind(s, (const struct sockaddr *)&a, sizeof(a)) == 0 &&
	       getsockname(s, (struct sockaddr *)&a, &n) == 0 &&
	       sendto(c, "x", 1, 0, (const struct sockaddr *)&a, n) == 1 && read(s, &b, 1) == 1;
}

NEAR("K9-families", w_unix, "sockets of unix and of both internet families can be made")
{
	int p[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0 && socket(AF_UNIX, SOCK_DGRAM, 0) >= 0 &&
	       socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) >= 0 &&
	       socket(AF_INET6, SOCK_STREAM, 0) >= 0 &&
	       socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 17) >= 0;
}

NEAR("N7-own-abstract", w_abstract, "an abstract socket of its own works")
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0own"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);
	socklen_t n = (socklen_t)offsetof(struct sockaddr_un, sun_path) + 4;

	return bind(s, (const struct sockaddr *)&a, n) == 0 && listen(s, 1) == 0 &&
	       connect(c, (const struct sockaddr *)&a, n) == 0;
}

NEAR("N7-own-path", w_path, "so does one in /tmp")
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/tmp/own.sock"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)unlink(a.sun_path);
	return bind(s, (const struct sockaddr *)&a, sizeof(a)) == 0 && listen(s, 1) == 0 &&
	       connect(c, (const struct sockaddr *)&a, sizeof(a)) == 0;
}

NEAR("N7-pass-descriptor", w_scm, "a descriptor can be passed between programs inside")
{
	int p[2], one = open("/dev/null", O_RDONLY);
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = {0};
	char b = 'x';
	struct iovec iov = {&b, 1};
	struct msghdr m = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = c.room,
	    .msg_controllen = sizeof(c.room)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &one, sizeof(one));
	return socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0 && sendmsg(p[0], &m, 0) == 1 &&
	       recvmsg(p[1], &m, 0) == 1;
}

NEAR("K8-memory", w_memory,
    "memory can be had, protected, made executable and shared by a descriptor")
{
	void *p = mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return REFUSED;
	memset(p, 1, 32 << 20);
	return mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0 && memfd_create("m", 0) >= 0 &&
	       madvise(p, 4096, MADV_DONTNEED) == 0 && mlock(p, 4096) == 0;
}

NEAR("K13-ioctl", w_ioctl, "the ordinary ioctls work, also on a terminal of its own")
{
	int n, p[2], m = open("/dev/ptmx", O_RDWR | O_NOCTTY), zero = 0;
	struct winsize ws = {.ws_row = 24, .ws_col = 80};

	return pipe(p) == 0 && write(p[1], "abc", 3) == 3 && ioctl(p[0], FIONREAD, &n) == 0 &&
	       n == 3 && m >= 0 && ioctl(m, TIOCSPTLCK, &zero) == 0 &&
	       ioctl(m, TIOCGPTN, &n) == 0 && ioctl(m, TIOCSWINSZ, &ws) == 0;
}

NEAR("K10-prctl", w_prctl, "a name, a death signal and dumpable can be set")
{
	return prctl(PR_SET_NAME, "name") == 0 && prctl(PR_SET_DUMPABLE, 0) == 0 &&
	       prctl(PR_SET_PDEATHSIG, SIGTERM) == 0;
}

NEAR("P8-proc", w_proc, "what programs ask of /proc is there")
{
	return slurp("/proc/cpuinfo", room, sizeof(room)) &&
	       slurp("/proc/meminfo", room, sizeof(room)) &&
	       slurp("/proc/sys/kernel/osrelease", room, sizeof(room)) &&
	       slurp("/proc/stat", room, sizeof(room)) &&
	       slurp("/proc/loadavg", room, sizeof(room)) &&
	       slurp("/proc/self/maps", room, sizeof(room)) && room[0] != '\0';
}

static void *
named(void *arg)
{
	*(pid_t *)arg = (pid_t)syscall(SYS_gettid);
	(void)pause();
	return NULL;
}

static bool
put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	(void)close(fd);
	return ok;
}

NEAR("P7-own", w_proc_own,
    "a process can write what /proc has of it: names of threads, score, slack, dump")
{
	static volatile pid_t tid;
	pthread_t t;
	char path[64];

	if (pthread_create(&t, NULL, named, (void *)(uintptr_t)&tid) != 0)
		return false;
	while (tid == 0)
		(void)sched_yield();
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);
	return put("/proc/self/comm", "named") && put(path, "worker") &&
	       slurp(path, room, sizeof(room)) && strncmp(room, "worker", 6) == 0 &&
	       put("/proc/self/oom_score_adj", "500") && put("/proc/self/timerslack_ns", "60000") &&
	       put("/proc/self/coredump_filter", "0x3") && pthread_setname_np(t, "again") == 0;
}

NEAR("P9-own-signals", w_signal, "a child of its own can be signalled, also by its descriptor")
{
	int st, fd;
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			(void)pause();
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) == 0 &&
	       waitpid(pid, &st, 0) == pid && WTERMSIG(st) == SIGTERM;
}

NEAR("N11-own-shared-memory", w_sysv,
    "System V and POSIX shared memory and semaphores of its own work")
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	void *p = id >= 0 ? shmat(id, NULL, 0) : (void *)-1;
	sem_t *s = sem_open("/near", O_CREAT, 0600, 1);

	return (intptr_t)p != -1 && shmctl(id, IPC_RMID, NULL) == 0 && s != SEM_FAILED &&
	       sem_wait(s) == 0 && shm_open("/nearer", O_CREAT | O_RDWR, 0600) >= 0;
}

NEAR("K8-personality", w_persona, "the personality can be asked for")
{
	return syscall(SYS_personality, 0xffffffff) == 0;
}

NEAR("K8-own-filter", w_seccomp, "a program can ask for filters and set one of its own")
{
	unsigned action = 0x7fff0000;

	return syscall(SYS_seccomp, 2 /* GET_ACTION_AVAIL */, 0, &action) == 0;
}

NEAR("K12-events", w_events, "epoll, eventfd, timerfd, signalfd and inotify work")
{
	sigset_t s;

	(void)sigemptyset(&s);
	return epoll_create1(0) >= 0 && eventfd(0, 0) >= 0 &&
	       timerfd_create(CLOCK_MONOTONIC, 0) >= 0 && signalfd(-1, &s, 0) >= 0 &&
	       inotify_add_watch(inotify_init1(0), "/work", IN_ALL_EVENTS) >= 0;
}

NEAR("K11-lower-priority", w_nice, "the priority can be lowered, and limits too")
{
	struct rlimit r = {.rlim_cur = 64, .rlim_max = 64};

	return setpriority(PRIO_PROCESS, 0, 5) == 0 && setrlimit(RLIMIT_NOFILE, &r) == 0;
}

NEAR("P5-memory-file", w_memfd, "a program out of a memory file does run")
{
	int in = open("/usr/bin/true", O_RDONLY), out = memfd_create("x", 0), st;
	char name[] = "true", *argv[] = {name, NULL}, *envp[] = {NULL};
	ssize_t n;
	pid_t pid;

	while ((n = read(in, room, sizeof(room))) > 0)
		(void)!write(out, room, (size_t)n);
	pid = fork();
	if (pid == 0) {
		(void)syscall(SYS_execveat, out, "", argv, envp, AT_EMPTY_PATH);
		_exit(9);
	}
	return waitpid(pid, &st, 0) == pid && st == 0;
}
