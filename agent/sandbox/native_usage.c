/*
 * What a sandbox uses now, and its freezer. Runs in the supervisor. All numbers are the kernel's,
 * from outside; nothing that code inside could write is read.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/vfs.h>

#include "common/banned.h"

#define FREEZE_TURNS 2000 /* of a millisecond */

/* Reads a small file of a group into `out`; NUL-terminated; length 0 when it is not there. */
static struct str
get(const struct native_group *g, const char *file, char *out, size_t size)
{
	AUTO_FD int fd = g != NULL ? openat(g->fd, file, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd >= 0 ? read(fd, out, size - 1) : 0;

	out[n > 0 ? n : 0] = '\0';
	return str_mem(out, n > 0 ? (size_t)n : 0);
}

static uint64_t
number(const struct native_group *g, const char *file)
{
	char room[32];
	uint64_t v = 0;

	(void)str_to_u64(str_trim(get(g, file, room, sizeof(room))), UINT64_MAX, &v);
	return v;
}

/* "name value" among lines. */
static uint64_t
name_find(struct str text, const char *name)
{
	struct str line, key;
	uint64_t v = 0;

	while (str_cut(&text, '\n', &line))
		if (str_cut(&line, ' ', &key) && str_eqz(key, name))
			(void)str_to_u64(line, UINT64_MAX, &v);
	return v;
}

static uint64_t
named(const struct native_group *g, const char *file, const char *name)
{
	char room[4096];

	return name_find(get(g, file, room, sizeof(room)), name);
}

/* Asked at each program's end: the file stays open. */
uint64_t
native_cgroup_ooms(struct native_cgroup *c)
{
	struct native_group *m = native_cgroup_role(c, NATIVE_MEMORY);
	char room[1024];
	ssize_t n;

	if (m == NULL)
		return 0;
	if (m->ooms < 0)
		m->ooms = openat(m->fd, m->version == 1 ? "memory.oom_control" : "memory.events",
		    O_RDONLY | O_CLOEXEC);
	n = m->ooms >= 0 ? pread(m->ooms, room, sizeof(room), 0) : 0;
	return name_find(str_mem(room, n > 0 ? (size_t)n : 0), "oom_kill");
}

void
native_cgroup_usage(struct native_cgroup *c, struct backend_usage *ret)
{
	const struct native_group *m = native_cgroup_role(c, NATIVE_MEMORY);
	const struct native_group *time = native_cgroup_role(c, NATIVE_TIME);
	const struct native_group *cpu = native_cgroup_role(c, NATIVE_CPU);
	bool v1 = m != NULL && m->version == 1;

	ret->memory_bytes = number(m, v1 ? "memory.usage_in_bytes" : "memory.current");
	ret->memory_peak_bytes = number(m, v1 ? "memory.max_usage_in_bytes" : "memory.peak");
	ret->oom_kills = native_cgroup_ooms(c);
	ret->pids = number(native_cgroup_role(c, NATIVE_PIDS), "pids.current");
	ret->cpu_us = time != NULL ? named(time, "cpu.stat", "usage_usec")
				   : number(cpu, "cpuacct.usage") / 1000;
}

static bool
frozen(const struct native_group *g, bool on)
{
	char room[32];

	if (g->version == 2)
		return named(g, "cgroup.events", "frozen") == (on ? 1 : 0);
	return str_eqz(
	    str_trim(get(g, "freezer.state", room, sizeof(room))), on ? "FROZEN" : "THAWED");
}

int
native_cgroup_freeze(struct native_cgroup *c, bool on, struct err *err)
{
	const struct native_group *g = native_cgroup_role(c, NATIVE_FREEZE);
	int rc;

	if (g == NULL)
		return err_set(err, ERR_UNAVAILABLE,
		    "sandbox: it has no freezer (its spec let it lack one), so it cannot pause");
	rc = g->version == 2 ? native_group_put(g, "cgroup.freeze", on ? "1" : "0")
			     : native_group_put(g, "freezer.state", on ? "FROZEN" : "THAWED");
	if (rc != 0)
		return err_sys(err, ERR_SYSTEM, -rc, "sandbox: freezer %s", g->path);
	for (int i = 0; i < FREEZE_TURNS; i++) {
		if (frozen(g, on))
			return 0;
		(void)poll(NULL, 0, 1);
		/* Version 1 misses processes that were being made meanwhile: asked again, it takes
		 * them. */
		if (g->version == 1 && i % 16 == 15)
			(void)native_group_put(g, "freezer.state", on ? "FROZEN" : "THAWED");
	}
	if (on)
		(void)native_cgroup_freeze(c, false, NULL);
	return err_set(err, ERR_TIMEOUT, "sandbox: %s is not %s after %d ms", g->path,
	    on ? "frozen" : "thawed", FREEZE_TURNS);
}
