/*
 * Where a start runs. The supervisor and its child hand over to each other a dozen times; on one
 * processor that takes a few microseconds each, while waking another may take longer than all of
 * the work in between, above all in a virtual machine. So both keep to one, but for what they do
 * side by side, until the program is executed; that, and each of them from then on, may run
 * wherever the caller may. Runs in the supervisor and, by raw calls alone, in the child beside it.
 * Nothing depends on it but time.
 */
#include "agent/sandbox/native.h"

#include <sys/syscall.h>

#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

static void
put(const uint64_t *mask)
{
	(void)RAW(SYS_sched_setaffinity, 0, NATIVE_CPUS_BYTES, mask);
}

void
native_cpus_find(struct native_cpus *c)
{
	unsigned cpu = 0, n = 0;

	*c = (struct native_cpus){0};
	/* A kernel for more than it has room for says so. */
	if (RAW(SYS_sched_getaffinity, 0, NATIVE_CPUS_BYTES, c->all) < 0 ||
	    RAW(SYS_getcpu, &cpu, NULL, NULL) != 0 || cpu / 64 >= ARRAY_LEN(c->one))
		return;
	for (size_t i = 0; i < ARRAY_LEN(c->all); i++)
		n += (unsigned)__builtin_popcountll(c->all[i]);
	c->one[cpu / 64] = UINT64_C(1) << cpu % 64;
	c->known = n > 1;
}

void
native_cpus_hold(const struct native_cpus *c)
{
	if (c->known)
		put(c->one);
}

void
native_cpus_free(const struct native_cpus *c)
{
	if (c->known)
		put(c->all);
}
