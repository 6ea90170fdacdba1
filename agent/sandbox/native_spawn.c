/*
 * Children of the supervisor that share its memory: the sandbox's first process until it executes
 * pid 1, the janitor, and short helpers in the sandbox's namespaces. A fork instead would copy page
 * tables and take a fault for each page that is touched after it, which costs more than a whole
 * sandbox. The price: such a child must not run while the thread that made it runs (CLONE_VFORK),
 * or must keep to native_raw.h.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

/* Sanitizers keep their own books about stacks and memory: there each child has its own. */
#ifdef MODE_SANITIZED
#define SHARE 0ull
#define MAP_KIND MAP_SHARED
#else
#define SHARE ((uint64_t)CLONE_VM)
#define MAP_KIND MAP_PRIVATE
#endif

#define READY ((size_t)16 << 10)
#define POPULATE_WRITE 23

int
native_region_make(size_t size, size_t shared, struct native_region *ret, struct err *err)
{
	void *p = mmap(
	    NULL, size, PROT_READ | PROT_WRITE, MAP_KIND | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: stack for a child");
	/* What will be touched, at once instead of fault by fault; since 5.14. */
	(void)madvise((char *)p + (size - READY), READY, POPULATE_WRITE);
	*ret = (struct native_region){.base = p, .size = size, .shared = (shared + 63) & ~63ul};
	return 0;
}

void *
native_region_shared(const struct native_region *r)
{
	return (char *)r->base + r->size - r->shared;
}

void
native_region_free(struct native_region *r)
{
	if (r->base != NULL)
		(void)munmap(r->base, r->size);
	*r = (struct native_region){0};
}

pid_t
native_spawn(const struct native_region *r, struct clone_args *a, int (*fn)(void *), void *arg)
{
	uint64_t all = ~0ull, before = 0;
	long pid;

	a->flags |= SHARE;
	/* A handler of ours must not run in a child on our memory. */
	(void)RAW(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof(all));
#ifdef MODE_SANITIZED
	(void)r;
	pid = RAW(SYS_clone3, a, sizeof(*a));
	if (pid == 0)
		(void)RAW(SYS_exit_group, fn(arg));
#else
	a->stack = (uintptr_t)r->base;
	a->stack_size = r->size - r->shared;
	pid = raw_clone3(a, fn, arg);
#endif
	(void)RAW(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return (pid_t)pid;
}

int
native_call(const struct native_region *r, int (*fn)(void *), void *arg)
{
	/* No signal at its end: it is nobody else's business. */
	struct clone_args a = {.flags = CLONE_VFORK | CLONE_FILES};
	pid_t pid = native_spawn(r, &a, fn, arg);
	int status = 0;

	if (pid < 0)
		return (int)pid;
	while (waitpid(pid, &status, (int)__WCLONE) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}
