/*
 * The first instructions of pid 1 of a sandbox, the one that makes processes, and the functions
 * that a compiler may call without being asked. There is no C library behind this program.
 */
#include "agent/sandbox/init/init_sys.h"
#include "agent/sandbox/init/init_text.h"

#include "common/banned.h"

#if defined(__x86_64__)
__asm__(".text\n"
	".globl _start\n"
	".type _start,@function\n"
	"_start:\n"
	"	xorl %ebp, %ebp\n"
	"	movq %rsp, %rdi\n"
	"	andq $-16, %rsp\n"
	"	call init_run\n"
	"	hlt\n"
	/* rdi flags, rsi stack, rdx ret_pid, rcx fn, r8 arg */
	".globl sys_clone_run\n"
	".hidden sys_clone_run\n"
	".type sys_clone_run,@function\n"
	"sys_clone_run:\n"
	"	subq $16, %rsi\n"
	"	movq %rcx, (%rsi)\n"
	"	movq %r8, 8(%rsi)\n"
	"	xorl %r10d, %r10d\n"
	"	xorl %r8d, %r8d\n"
	"	movl $56, %eax\n"
	"	syscall\n"
	"	testq %rax, %rax\n"
	"	jnz 1f\n"
	"	xorl %ebp, %ebp\n"
	"	popq %rax\n"
	"	popq %rdi\n"
	"	call *%rax\n"
	"	hlt\n"
	"1:	ret\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl _start\n"
	".type _start,%function\n"
	"_start:\n"
	"	mov x29, #0\n"
	"	mov x0, sp\n"
	"	bl init_run\n"
	"	brk #1\n"
	/* x0 flags, x1 stack, x2 ret_pid, x3 fn, x4 arg */
	".globl sys_clone_run\n"
	".hidden sys_clone_run\n"
	".type sys_clone_run,%function\n"
	"sys_clone_run:\n"
	"	stp x3, x4, [x1, #-16]!\n"
	"	mov x3, #0\n"
	"	mov x4, #0\n"
	"	mov x8, #220\n"
	"	svc #0\n"
	"	cbnz x0, 1f\n"
	"	mov x29, #0\n"
	"	ldp x1, x0, [sp], #16\n"
	"	blr x1\n"
	"	brk #1\n"
	"1:	ret\n");
#endif

void *
memcpy(void *restrict to, const void *restrict from, size_t n)
{
	char *t = to;
	const char *f = from;

	while (n-- != 0)
		*t++ = *f++;
	return to;
}

void *
memset(void *to, int byte, size_t n)
{
	char *t = to;

	while (n-- != 0)
		*t++ = (char)byte;
	return to;
}

int
memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	for (; n != 0; n--, x++, y++)
		if (*x != *y)
			return *x < *y ? -1 : 1;
	return 0;
}

size_t
strlen(const char *s)
{
	size_t n = 0;

	while (s[n] != '\0')
		n++;
	return n;
}
