/*
 * System calls without the C library. A child made here shares the memory of a supervisor, and with
 * it the thread's own storage (errno, the allocator's cache): whoever runs beside the supervisor
 * calls the kernel by these and touches nothing but its own stack.
 */
#ifndef AGENT_SANDBOX_NATIVE_RAW_H
#define AGENT_SANDBOX_NATIVE_RAW_H

#include <linux/sched.h>
#include <stdint.h>
#include <sys/syscall.h>

#define RAW(nr, ...) RAW_(nr, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RAW_(nr, a, b, c, d, e, f, ...) \
	raw_call(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#if defined(__x86_64__)

/* What the kernel returns: below 0 an error's number. */
static inline long
raw_call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return rc;
}

/* In the child fn(arg) runs on the stack that `a` names, and its value is the exit status. */
static inline long
raw_clone3(struct clone_args *a, int (*fn)(void *), void *arg)
{
	register int (*f)(void *) __asm__("r12") = fn;
	register void *x __asm__("r13") = arg;
	long rc;

	__asm__ volatile(
	    "syscall\n\t"
	    "test %%rax, %%rax\n\t"
	    "jnz 1f\n\t"
	    "xor %%ebp, %%ebp\n\t"
	    "mov %%r13, %%rdi\n\t"
	    "call *%%r12\n\t"
	    "mov %%eax, %%edi\n\t"
	    "mov %[leave], %%eax\n\t"
	    "syscall\n\t"
	    "hlt\n"
	    "1:"
	    : "=a"(rc)
	    : "a"((long)SYS_clone3), "D"(a), "S"(sizeof(*a)), "r"(f), "r"(x), [leave] "i"(SYS_exit)
	    : "rcx", "r11", "memory");
	return rc;
}

#elif defined(__aarch64__)

static inline long
raw_call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

static inline long
raw_clone3(struct clone_args *a, int (*fn)(void *), void *arg)
{
	register long x8 __asm__("x8") = SYS_clone3;
	register long x0 __asm__("x0") = (long)(uintptr_t)a;
	register long x1 __asm__("x1") = sizeof(*a);
	register int (*f)(void *) __asm__("x19") = fn;
	register void *x __asm__("x20") = arg;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x20\n\t"
			 "blr x19\n\t"
			 "mov x8, %[leave]\n\t"
			 "svc 0\n\t"
			 "brk 0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(f), "r"(x), [leave] "i"(SYS_exit)
			 : "memory", "x30");
	return x0;
}

#else
/* cppcheck-suppress preprocessorErrorDirective */
#error "the sandbox knows x86-64 and aarch64"
#endif

#endif
