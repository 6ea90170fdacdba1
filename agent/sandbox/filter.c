/*
 * The system call filter of this machine, as filter_gen made it. filter_load runs in the child
 * that becomes pid 1, which may share memory with the supervisor: only raw calls there, no errno.
 */
#include "agent/sandbox/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "agent/sandbox/filter_bpf.h"

#include "common/banned.h"

#if defined(__x86_64__)
#define MACHINE(what) filter_x86_64_##what
#define NAMES FILTER_x86_64_NAMES
#define ALLOWED FILTER_x86_64_ALLOWED
#elif defined(__aarch64__)
#define MACHINE(what) filter_aarch64_##what
#define NAMES FILTER_aarch64_NAMES
#define ALLOWED FILTER_aarch64_ALLOWED
#else
/* cppcheck-suppress preprocessorErrorDirective */
#error "agent/sandbox/filter.tbl has no program for this machine"
#endif

/* Of <linux/seccomp.h> since 5.19; kernels before answer EINVAL. */
#define WAIT_KILLABLE_RECV (1u << 5)

/* The kernel only reads it; its header says so nowhere. */
#define PROGRAM(p) ((struct sock_fprog){ARRAY_LEN(p), (struct sock_filter *)(uintptr_t)(p)})

struct sock_fprog
filter_program(bool notify)
{
	return notify ? PROGRAM(MACHINE(notify)) : PROGRAM(MACHINE(errors));
}

unsigned
filter_allowed(void)
{
	return ALLOWED;
}

const char *
filter_call_name(unsigned nr)
{
	const char *p = MACHINE(names);

	if (nr >= NAMES)
		return NULL;
	while (nr-- > 0)
		p += strlen(p) + 1;
	return *p != '\0' ? p : NULL;
}

const char *
filter_oci(void)
{
	return MACHINE(oci);
}

/* seccomp(2) without the C library: its errno may be another thread's. */
static long
filter_set(unsigned flags, const struct sock_fprog *prog)
{
#if defined(__x86_64__)
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"((long)SYS_seccomp), "D"((long)SECCOMP_SET_MODE_FILTER),
			 "S"((long)flags), "d"(prog)
			 : "rcx", "r11", "memory");
	return r;
#elif defined(__aarch64__)
	register long nr __asm__("x8") = SYS_seccomp;
	register long a0 __asm__("x0") = SECCOMP_SET_MODE_FILTER;
	register long a1 __asm__("x1") = (long)flags;
	register const struct sock_fprog *a2 __asm__("x2") = prog;

	__asm__ volatile("svc 0" : "+r"(a0) : "r"(nr), "r"(a1), "r"(a2) : "memory");
	return a0;
#endif
}

int
filter_load(bool notify, int *ret_notify)
{
	struct sock_fprog prog = filter_program(notify);
	unsigned flags = notify ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
	long r = filter_set(notify ? flags | WAIT_KILLABLE_RECV : 0, &prog);

	/* Without it a signal interrupts the waiting thread, and its call begins anew. */
	if (notify && r == -EINVAL)
		r = filter_set(flags, &prog);
	if (r < 0)
		return (int)r;
	*ret_notify = notify ? (int)r : -1;
	return 0;
}
