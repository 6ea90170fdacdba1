/*
 * The kernel's calls without a C library, for x86-64 and aarch64. All return a value or -errno.
 * Types and constants come from the system's headers; nothing of them is linked. Only calls that
 * the sandbox's own filter lets pass, and none that aarch64 lacks.
 */
#ifndef INIT_SYS_H
#define INIT_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* A sixth argument (of mmap) is 0. */
static inline long
sys_call(long nr, long a, long b, long c, long d, long e)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = 0;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = 0;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
/* cppcheck-suppress preprocessorErrorDirective */
#error "cofferdam-init knows x86-64 and aarch64"
#endif
}

/* fn(arg) in a new process on a stack of its own; fn never returns. ret_pid is written before it
 * runs. (init_start.c) */
int sys_clone_run(unsigned long flags, void *stack_top, int *ret_pid, void (*fn)(void *), void *arg)
    __attribute__((visibility("hidden")));

#define P(p) ((long)(intptr_t)(p))

static inline int
sys_open(const char *path, int flags, unsigned mode)
{
	return (int)sys_call(SYS_openat, AT_FDCWD, P(path), flags | O_CLOEXEC, (long)mode, 0);
}
static inline int
sys_close(int fd)
{
	return (int)sys_call(SYS_close, fd, 0, 0, 0, 0);
}
static inline int
sys_close_from(unsigned first)
{
	int rc = (int)sys_call(SYS_close_range, (long)first, (long)~0u, 0, 0, 0);

	/* gVisor takes the last for a negative number. */
	return rc != -EINVAL ? rc : (int)sys_call(SYS_close_range, (long)first, INT32_MAX, 0, 0, 0);
}
static inline long
sys_read(int fd, void *p, size_t n)
{
	return sys_call(SYS_read, fd, P(p), (long)n, 0, 0);
}
static inline long
sys_write(int fd, const void *p, size_t n)
{
	return sys_call(SYS_write, fd, P(p), (long)n, 0, 0);
}
static inline int
sys_pipe(int *ret)
{
	return (int)sys_call(SYS_pipe2, P(ret), O_CLOEXEC, 0, 0, 0);
}
/* The copy is not closed at exec. */
static inline int
sys_dup(int from, int to)
{
	return (int)sys_call(SYS_dup3, from, to, 0, 0, 0);
}
static inline int
sys_fcntl(int fd, int what, long arg)
{
	return (int)sys_call(SYS_fcntl, fd, what, arg, 0, 0);
}
static inline int
sys_ioctl(int fd, unsigned long what, long arg)
{
	return (int)sys_call(SYS_ioctl, fd, (long)what, arg, 0, 0);
}
static inline int
sys_mkdir(const char *path, unsigned mode)
{
	return (int)sys_call(SYS_mkdirat, AT_FDCWD, P(path), (long)mode, 0, 0);
}
static inline int
sys_unlink(const char *path)
{
	return (int)sys_call(SYS_unlinkat, AT_FDCWD, P(path), 0, 0, 0);
}
static inline long
sys_entries(int fd, void *p, size_t n)
{
	return sys_call(SYS_getdents64, fd, P(p), (long)n, 0, 0);
}
static inline int
sys_prctl(int what, unsigned long arg)
{
	return (int)sys_call(SYS_prctl, what, (long)arg, 0, 0, 0);
}
/* SCHED_OTHER or SCHED_BATCH; pid 0: of the calling process. */
static inline void
sys_policy(int pid, int policy)
{
	int priority = 0;

	(void)sys_call(SYS_sched_setscheduler, pid, policy, P(&priority), 0, 0);
}
static inline int
sys_kill(int pid, int sig)
{
	return (int)sys_call(SYS_kill, pid, sig, 0, 0, 0);
}
static inline int
sys_wait(int options, int *ret_status, struct rusage *ret_usage)
{
	return (int)sys_call(SYS_wait4, -1, P(ret_status), options | __WALL, P(ret_usage), 0);
}
static inline void
sys_mask(uint64_t mask)
{
	(void)sys_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, P(&mask), 0, sizeof(mask), 0);
}
/* One of the (blocked) signals of mask, or -EAGAIN after ms; ms < 0: for ever. */
static inline int
sys_signal_wait(uint64_t mask, int ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	return (int)sys_call(
	    SYS_rt_sigtimedwait, P(&mask), 0, ms < 0 ? 0 : P(&ts), sizeof(mask), 0);
}
static inline int
sys_poll(struct pollfd *p, size_t n, int ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	return (int)sys_call(SYS_ppoll, P(p), (long)n, ms < 0 ? 0 : P(&ts), 0, 8);
}
static inline long
sys_now_ms(void)
{
	struct timespec ts = {0};

	(void)sys_call(SYS_clock_gettime, CLOCK_MONOTONIC, P(&ts), 0, 0, 0);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
static inline void *
sys_map(size_t n)
{
	long r =
	    sys_call(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	return r < 0 && r > -4096 ? NULL : (void *)(intptr_t)r;
}
static inline void
sys_unmap(void *p, size_t n)
{
	(void)sys_call(SYS_munmap, P(p), (long)n, 0, 0, 0);
}
static inline int
sys_exec(const char *path, char **argv, char **env)
{
	return (int)sys_call(SYS_execve, P(path), P(argv), P(env), 0, 0);
}
static inline int
sys_exec_fd(int fd, char **argv, char **env)
{
	return (int)sys_call(SYS_execveat, fd, P(""), P(argv), P(env), AT_EMPTY_PATH);
}
static _Noreturn inline void
sys_exit(int status)
{
	for (;;)
		(void)sys_call(SYS_exit_group, status, 0, 0, 0, 0);
}

#endif
