/*
 * What a sandbox takes from the process that builds it: whose it is, where it stands, what it may
 * use, and which programs make it. Runs in any caller's process. A caller with fewer rights or
 * tighter limits must not be given a sandbox that another built with more: so what cannot be
 * compared (filters of system calls) is no match. Not among these: what each sandbox sets itself
 * (native_lock.c), and what comes with each program (environment, directory, terminal).
 */
#include "agent/sandbox/sandbox_self.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/proc_paths.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define GROUPS_MAX 1024
#define CPUS_BYTES 128
#define IOPRIO_WHO_PROCESS 1

static void
number(struct buf *out, long v)
{
	buf_u64(out, (uint64_t)v);
}

static bool
ids_put(struct buf *out)
{
	gid_t groups[GROUPS_MAX];
	int n = getgroups(GROUPS_MAX, groups);

	number(out, getuid());
	number(out, geteuid());
	number(out, getgid());
	number(out, getegid());
	number(out, n);
	for (int i = 0; i < n; i++)
		number(out, groups[i]);
	return n >= 0;
}

static bool
rights_put(struct buf *out)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};

	if (syscall(SYS_capget, &h, caps) != 0)
		return false;
	buf_put(out, caps, sizeof(caps));
	number(out, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
}

static bool
limits_put(struct buf *out)
{
	uint64_t cpus[CPUS_BYTES / 8] = {0};
	struct sched_param p = {0};

	for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
		struct rlimit r = {0};

		/* Of open files pid 1 sets the lower one itself. */
		if (getrlimit((__rlimit_resource_t)i, &r) != 0)
			return false;
		buf_u64(out, i == RLIMIT_NOFILE ? 0 : r.rlim_cur);
		buf_u64(out, r.rlim_max);
	}
	errno = 0;
	number(out, getpriority(PRIO_PROCESS, 0));
	number(out, syscall(SYS_sched_getscheduler, 0));
	number(out, syscall(SYS_sched_getparam, 0, &p));
	number(out, p.sched_priority);
	number(out, syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0));
	number(out, syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus));
	buf_put(out, cpus, sizeof(cpus));
	number(out, personality(0xffffffff));
	return errno == 0;
}

/* A text of the kernel's; not there: nothing. */
static bool
text_put(struct buf *out, const char *path, bool must)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char room[8192];
	ssize_t k = fd >= 0 ? read(fd, room, sizeof(room)) : -1;

	buf_lstr(out, str_mem(room, k > 0 ? (size_t)k : 0));
	return (k >= 0 || !must) && k < (ssize_t)sizeof(room);
}

static bool
file_put(struct buf *out, const char *path, bool version)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	buf_u64(out, st.st_dev);
	buf_u64(out, st.st_ino);
	if (version) {
		buf_u64(out, (uint64_t)st.st_size);
		buf_u64(out, (uint64_t)st.st_mtim.tv_sec);
		buf_u64(out, (uint64_t)st.st_mtim.tv_nsec);
	}
	return true;
}

/* Root directory and namespaces. Not the boot: nothing listens that is of another. */
static bool
place_put(struct buf *out)
{
	static const char *const rows[] = {"/", "/proc/self/ns/user", "/proc/self/ns/mnt",
	    "/proc/self/ns/cgroup", "/proc/self/ns/pid_for_children", "/proc/self/ns/pid"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!file_put(out, rows[i], false))
			return false;
	return text_put(out, "/proc/self/cgroup", true) &&
	       text_put(out, "/proc/self/oom_score_adj", true) &&
	       /* The label of a security module, if there is one. */
	       text_put(out, "/proc/self/attr/current", false);
}

static bool
programs_put(struct buf *out)
{
	static const char *const rows[] = {
	    "cofferdam-sandbox", "cofferdam-init", "cofferdam-inside"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO_FREE char *path = proc_program(rows[i]);

		if (!file_put(out, path, true))
			return false;
	}
	return true;
}

bool
sandbox_self_put(struct buf *out)
{
	return ids_put(out) && rights_put(out) && limits_put(out) && place_put(out) &&
	       programs_put(out);
}
