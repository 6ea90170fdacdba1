/*
 * Limits and time (L1, L2, L4, L5): each takes all it can get, in a sandbox of its own. What it got
 * is judged outside as well, by the cause of the end and by what is left.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/walls/walls.h"

#define MIB (1u << 20)
#define MUCH 400 /* MiB; the limit of these sandboxes is 96 */

ALONE("L1-fork-bomb", l1_forks, "limits", "--pids 40", "a fork bomb ends at the limit on processes")
{
	for (int n = 0; n < 500; n++) {
		pid_t pid = fork();

		detail("%d processes", n);
		if (pid < 0)
			return n > 40 || errno != EAGAIN;
		if (pid == 0)
			for (;;)
				(void)pause();
	}
	return REACHED;
}

static void *
sleeper(void *arg)
{
	for (;;)
		(void)pause();
	return arg;
}

ALONE("L1-threads", l1_threads, "limits", "--pids 40", "so do threads")
{
	for (int n = 0; n < 500; n++) {
		pthread_t t;

		detail("%d threads", n);
		if (pthread_create(&t, NULL, sleeper, NULL) != 0)
			return n > 40;
	}
	return REACHED;
}

ALONE("L1-open-files", l1_files, "reset", "", "open files end at the limit of one process")
{
	for (int n = 0; n < 100000; n++)
		if (dup(0) < 0) {
			detail("%d files", n);
			return n > 10000 || errno != EMFILE;
		}
	return REACHED;
}

static int
fill(char *p, size_t n)
{
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	return REACHED;
}

ALONE("L2-anonymous", l2_anon, "limits", "--memory 96",
    "memory ends at its limit, and is said to be the cause")
{
	void *p = mmap(
	    NULL, (size_t)MUCH * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? REFUSED : fill(p, (size_t)MUCH * MIB);
}

static int
write_much(int fd)
{
	for (int i = 0; i < MUCH; i++)
		if (write(fd, room, sizeof(room)) != (ssize_t)sizeof(room))
			return errno != ENOSPC && errno != ENOMEM && errno != EDQUOT;
	return REACHED;
}

ALONE("L2-tmpfs", l2_tmpfs, "limits", "--memory 96 --disk 1000", "so does what is written to /tmp")
{
	return write_much(open("/tmp/x", O_WRONLY | O_CREAT, 0600));
}

ALONE("L2-memory-file", l2_memfd, "limits", "--memory 96", "so does a memory file")
{
	return write_much(memfd_create("x", 0));
}

ALONE("L2-shared-memory", l2_shm, "limits", "--memory 96 --disk 1000", "so does /dev/shm")
{
	return write_much(open("/dev/shm/x", O_WRONLY | O_CREAT, 0600));
}

ALONE("L2-system-v", l2_sysv, "limits", "--memory 96", "so does System V shared memory")
{
	int id = shmget(IPC_PRIVATE, (size_t)MUCH * MIB, IPC_CREAT | 0600);
	void *p = id >= 0 ? shmat(id, NULL, 0) : (void *)-1;

	return (intptr_t)p == -1 ? REFUSED : fill(p, (size_t)MUCH * MIB);
}

ALONE("L2-many-processes", l2_procs, "limits", "--memory 96", "so do many processes together")
{
	int st, killed = 0;

	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			void *p = mmap(NULL, 40 * MIB, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			(void)fill(p, 40 * MIB);
			(void)sleep(2);
			_exit(0);
		}
	for (int i = 0; i < 8; i++)
		killed += wait(&st) > 0 && WIFSIGNALED(st);
	return killed == 0;
}

/* 8192 descriptors of a process, each with a full pipe of 1 MiB. */
ALONE("L2-pipes", l2_pipes, "limits", "--memory 96", "so does what stands in pipes")
{
	size_t sum = 0;
	int p[2];

	while (pipe2(p, O_NONBLOCK) == 0) {
		ssize_t n;

		(void)fcntl(p[1], F_SETPIPE_SZ, MIB);
		while ((n = write(p[1], room, sizeof(room))) > 0)
			sum += (size_t)n;
	}
	detail("%zu MiB", sum / MIB);
	return sum > 96ull * MIB;
}

ALONE("L2-sockets", l2_sockets, "limits", "--memory 96", "so does what stands in sockets")
{
	size_t sum = 0;
	int p[2];

	while (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) == 0) {
		ssize_t n;

		while ((n = write(p[0], room, 65536)) > 0)
			sum += (size_t)n;
	}
	detail("%zu MiB", sum / MIB);
	return sum > 96ull * MIB;
}

/* One page in each 2 MiB: what grows is the tables. */
ALONE("L2-page-tables", l2_tables, "limits", "--memory 96", "so do page tables")
{
	const size_t far = 1ull << 40;
	char *p = mmap(NULL, far, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	volatile char sum = 0;

	if (p == MAP_FAILED)
		return REFUSED;
	/* the zero page is shared, so this costs a table for each and nothing else */
	for (size_t i = 0; i < 400u * 256; i++)
		sum = (char)(sum + p[i * 2 * MIB]);
	return REACHED;
}

ALONE("L3-processor", l3_cpu, "limits", "--cpu 40",
    "busy processes get their share of a processor and no more")
{
	struct timespec a, b;
	struct rusage u;
	double wall, cpu;
	const double share = 0.4;

	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			do
				(void)clock_gettime(CLOCK_MONOTONIC, &b);
			while (b.tv_sec - a.tv_sec < 3);
			_exit(0);
		}
	for (int i = 0; i < 4; i++)
		(void)wait(NULL);
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	(void)getrusage(RUSAGE_CHILDREN, &u);
	wall = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	      (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
	detail("%.2f s of processor in %.2f s", cpu, wall);
	return cpu > wall * (share + 0.25);
}

static void
flood(int fd, bool lines)
{
	if (lines)
		for (size_t i = 0; i < sizeof(room); i++)
			room[i] = i % 2 == 0 ? 'y' : '\n';
	else
		(void)memset(room, 'y', sizeof(room));
	while (write(fd, room, sizeof(room)) > 0)
		;
}

ALONE("L4-output", l4_out, "supervisor", "--output 4",
    "endless output is cut at its limit, and said to be the cause")
{
	flood(1, true);
	return REACHED;
}

ALONE("L4-output-no-line", l4_line, "supervisor", "--output 4", "also without any end of line")
{
	flood(1, false);
	return REACHED;
}

ALONE("L4-error-output", l4_err, "supervisor", "--output 4", "also on standard error")
{
	flood(2, true);
	return REACHED;
}

ALONE("L4-refused-calls", l4_calls, "supervisor", "",
    "a flood of refused calls fills no log and stops nothing")
{
	for (int i = 0; i < 100000; i++) {
		if (filtered(syscall(SYS_ptrace, 0, 0, 0, 0)) ||
		    filtered(syscall(SYS_mount, BAD, BAD, BAD, 0, 0)))
			return REACHED;
	}
	return REFUSED;
}

ALONE("L4-refused-threads", l4_threads, "supervisor", "--timeout 20",
    "nor from many threads at once, whose process is then killed")
{
	for (int i = 0; i < 16; i++)
		if (fork() == 0)
			for (;;)
				(void)syscall(SYS_ptrace, 0, 0, 0, 0);
	(void)sleep(1);
	return REFUSED;
}

/* --- time: the sandbox has 1 s; nothing of these may be there after it. mark= names them. -------
 */

static void
rename_self(void)
{
	const char *m = canary("mark", 0);

	if (m != NULL)
		(void)prctl(PR_SET_NAME, m);
}

static int
hold(void)
{
	rename_self();
	for (;;)
		(void)sleep(1000);
	return REACHED;
}

#define TIMED "--timeout 1"
ALONE("L5-sleeper", l5_sleeper, "supervisor pidns", TIMED, "the time limit ends a sleeper")
{
	return hold();
}

ALONE("L5-double-fork", l5_daemon, "supervisor pidns", TIMED,
    "also what forked twice into a session of its own")
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			(void)setsid();
			if (fork() == 0)
				_exit(hold());
			_exit(0);
		}
	return hold();
}

ALONE("L5-late", l5_late, "pidns supervisor", "--timeout 30",
    "what was left running when the command ended")
{
	if (fork() == 0) {
		(void)setsid();
		if (fork() == 0)
			_exit(hold());
		_exit(0);
	}
	(void)usleep(100000);
	return REFUSED;
}

ALONE("L5-signals-ignored", l5_ignore, "supervisor pidns", TIMED,
    "also what ignores and blocks every signal")
{
	sigset_t all;

	for (int s = 1; s < 65; s++)
		(void)signal(s, SIG_IGN);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	return hold();
}

ALONE("L5-stopped", l5_stopped, "supervisor pidns", TIMED, "also a tree that has stopped itself")
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			rename_self();
			for (;;)
				(void)raise(SIGSTOP);
		}
	rename_self();
	while (kill(0, SIGSTOP) == 0)
		;
	return hold();
}

ALONE("L5-init-stopped", l5_init, "supervisor pidns", TIMED,
    "also when it does what it can to stop pid 1")
{
	for (int s = 1; s < 65; s++)
		(void)kill(1, s);
	(void)syscall(SYS_ptrace, 16, 1, 0, 0);
	return hold();
}

ALONE("L5-busy", l5_busy, "supervisor pidns", TIMED, "also busy loops on every processor")
{
	for (int i = 0; i < 8; i++)
		if (fork() == 0)
			break;
	rename_self();
	for (volatile bool on = true; on;)
		;
	return REACHED;
}

ALONE("L5-forking", l5_forking, "supervisor pidns limits", TIMED,
    "also one that forks faster than it is killed")
{
	rename_self();
	(void)signal(SIGCHLD, SIG_IGN);
	for (volatile bool on = true; on;)
		if (fork() < 0)
			(void)sched_yield();
	return REACHED;
}

ALONE("L5-hundred", l5_hundred, "supervisor pidns", TIMED, "also a hundred children")
{
	for (int i = 0; i < 100; i++)
		if (fork() == 0)
			_exit(hold());
	return hold();
}

ALONE("L5-vfork", l5_vfork, "supervisor pidns", TIMED,
    "also a parent that waits in vfork, which takes no signal")
{
	if (fork() == 0) {
		rename_self();
		/* the child never lets go, so that the parent sleeps without taking signals */
		if (syscall(SYS_clone, 0x4100 /* VFORK | VM */, 0, 0, 0, 0) == 0)
			for (;;)
				(void)syscall(SYS_pause);
	}
	return hold();
}

ALONE("L13-clock", l13_clock, "seccomp supervisor", TIMED,
    "and no change of clocks or timers puts the limit off")
{
	struct timespec zero = {0, 0};
	struct itimerval none = {0};

	if (failed(clock_settime(CLOCK_REALTIME, &zero)))
		return REACHED;
	(void)clock_settime(CLOCK_BOOTTIME, &zero);
	(void)setitimer(ITIMER_REAL, &none, NULL);
	(void)signal(SIGALRM, SIG_IGN);
	return hold();
}
