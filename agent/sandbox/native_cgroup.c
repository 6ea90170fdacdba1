/*
 * Memory, process and processor limits. Runs in the launcher, outside the sandbox; the
 * sandbox itself has no cgroup file system. Works with version 1 controllers, with version
 * 2, and in a delegated subtree; where it can have none of them it says so and refuses. A
 * fresh group for each sandbox: since cgroup.kill a used one kills whatever joins it later.
 */
#include "agent/sandbox/native.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define GROUP_PREFIX "cofferdam-"
#define FIX                                              \
	"start it as root, or in a cgroup of your own: " \
	"systemd-run --user --scope -p Delegate=yes cofferdam ..."

static int
put(const char *dir, const char *file, const char *text, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", dir, file);
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return err_sys(err, ERR_SYSTEM, errno, "%s", path);
	return 0;
}

static int
put_num(const char *dir, const char *file, uint64_t v, struct err *err)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return put(dir, file, text, err);
}

static bool
has_word(struct str list, const char *word, char sep)
{
	struct str one;

	while (str_cut(&list, sep, &one))
		if (str_eqz(one, word))
			return true;
	return str_eqz(str_trim(list), word);
}

/* The path of this process in the hierarchy of a controller, from /proc/self/cgroup. */
static bool
self_path(const char *self, const char *controller, struct str *ret)
{
	struct str text = str_z(self), line;

	while (str_cut(&text, '\n', &line)) {
		struct str id, names;

		if (!str_cut(&line, ':', &id) || !str_cut(&line, ':', &names))
			continue;
		if (controller == NULL ? names.n == 0 && str_eqz(id, "0")
				       : has_word(names, controller, ',')) {
			*ret = line;
			return true;
		}
	}
	return false;
}

char *
native_cgroup_own(const char *mountinfo, const char *self, const char *controller)
{
	struct str text = str_z(mountinfo), line, path;

	if (!self_path(self, controller, &path))
		return NULL;
	while (str_cut(&text, '\n', &line)) {
		/* id parent major:minor root mountpoint options ... - type source superoptions */
		struct str f[6], tail = line, kind;
		bool ok = true, dash = false;

		for (size_t i = 0; ok && i < ARRAY_LEN(f); i++)
			ok = str_cut(&tail, ' ', &f[i]);
		while (ok && !dash && str_cut(&tail, ' ', &kind))
			dash = str_eqz(kind, "-");
		if (!dash || !str_cut(&tail, ' ', &kind) ||
		    !str_eqz(kind, controller != NULL ? "cgroup" : "cgroup2"))
			continue;
		(void)str_cut(&tail, ' ', &kind);
		if (controller != NULL && !has_word(tail, controller, ','))
			continue;
		/* A container sees a part of the tree mounted: take that prefix off. */
		if (!str_eqz(f[3], "/")) {
			if (path.n < f[3].n || memcmp(path.p, f[3].p, f[3].n) != 0)
				continue;
			path.p += f[3].n;
			path.n -= f[3].n;
		}
		return xasprintf("%.*s%.*s", STR_ARG(f[4]), str_eqz(path, "/") ? 0 : (int)path.n,
		    path.n != 0 ? path.p : "");
	}
	return NULL;
}

/*
 * Groups whose launcher was killed together with its caller. Only an empty group can be
 * removed, and only one that is old: a new one may be about to get its first process.
 */
static void
sweep(const char *parent)
{
	DIR *d = opendir(parent);
	struct dirent *e;
	struct stat st;

	while (d != NULL && (e = readdir(d)) != NULL)
		if (str_has_prefix(str_z(e->d_name), GROUP_PREFIX) &&
		    fstatat(dirfd(d), e->d_name, &st, 0) == 0 && st.st_mtime < time(NULL) - 60)
			(void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	if (d != NULL)
		(void)closedir(d);
}

static int
group_make(const char *parent, struct native_cgroup *c, struct err *err)
{
	struct timespec ts;
	char *dir;

	sweep(parent);
	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	dir = xasprintf("%s/%s%d-%lld%09ld", parent, GROUP_PREFIX, (int)getpid(),
	    (long long)ts.tv_sec, ts.tv_nsec);
	if (mkdir(dir, 0755) != 0) {
		int e = errno;

		(void)err_sys(err, ERR_SYSTEM, e, "%s", dir);
		free(dir);
		return ERR_SYSTEM;
	}
	c->dirs[c->ndirs++] = dir;
	return 0;
}

static int
v1_create(const char *mi, const char *self, const struct sandbox_limits *l, struct native_cgroup *c,
    struct err *err)
{
	static const char *const names[NATIVE_CGROUP_DIRS] = {"memory", "pids", "cpu"};
	char *made[NATIVE_CGROUP_DIRS] = {0};
	uint64_t bytes = (uint64_t)l->memory_mib << 20;
	struct err ignored;
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FREE char *own = native_cgroup_own(mi, self, names[i]);

		if (own == NULL)
			return err_set(err, ERR_SYSTEM, "no cgroup controller \"%s\"", names[i]);
		if ((rc = group_make(own, c, err)) != 0)
			return rc;
		made[i] = c->dirs[c->ndirs - 1];
	}
	c->version = 1;
	c->memory = made[0];
	if ((rc = put_num(made[0], "memory.limit_in_bytes", bytes, err)) != 0 ||
	    (rc = put_num(made[1], "pids.max", l->pids, err)) != 0 ||
	    (rc = put_num(made[2], "cpu.cfs_period_us", 100000, err)) != 0 ||
	    (rc = put_num(made[2], "cpu.cfs_quota_us", l->cpu_percent * 1000ull, err)) != 0)
		return rc;
	/* Only where the kernel counts swap; else memory.swappiness keeps the group out of it. */
	c->swap_counted = put_num(made[0], "memory.memsw.limit_in_bytes", bytes, &ignored) == 0;
	if (!c->swap_counted)
		(void)put_num(made[0], "memory.swappiness", 0, &ignored);
	return 0;
}

/* May groups below `dir` have the three controllers? Switches them on where it can. */
static bool
v2_parent_fits(const char *dir)
{
	AUTO_FREE char *path = xasprintf("%s/cgroup.subtree_control", dir);
	AUTO_BUF struct buf b = BUF(4096);
	struct err ignored;

	for (int try = 0; try < 2; try++) {
		buf_reset(&b);
		if (access(dir, W_OK) != 0 || native_slurp(path, &b, &ignored) != 0)
			return false;
		if (has_word(buf_str(&b), "memory", ' ') && has_word(buf_str(&b), "pids", ' ') &&
		    has_word(buf_str(&b), "cpu", ' '))
			return true;
		(void)put(dir, "cgroup.subtree_control", "+memory +pids +cpu", &ignored);
	}
	return false;
}

static int
v2_create(const char *mi, const char *self, const struct sandbox_limits *l, struct native_cgroup *c,
    struct err *err)
{
	AUTO_FREE char *dir = native_cgroup_own(mi, self, NULL);
	char cpu[48];
	int rc;

	/* A group with processes in it cannot hold limited children: look upwards, while it is
	 * ours. */
	while (dir != NULL && !v2_parent_fits(dir)) {
		char *slash = strrchr(dir, '/');

		if (slash == NULL || slash == dir)
			return err_set(
			    err, ERR_SYSTEM, "no cgroup of version 2 that is ours to divide");
		*slash = '\0';
	}
	if (dir == NULL)
		return err_set(err, ERR_SYSTEM, "no cgroup file system of version 2");
	if ((rc = group_make(dir, c, err)) != 0)
		return rc;
	c->version = 2;
	c->memory = c->dirs[0];
	c->swap_counted = true;
	(void)snprintf(cpu, sizeof(cpu), "%llu 100000", l->cpu_percent * 1000ull);
	if ((rc = put_num(c->dirs[0], "memory.max", (uint64_t)l->memory_mib << 20, err)) != 0 ||
	    (rc = put_num(c->dirs[0], "pids.max", l->pids, err)) != 0 ||
	    (rc = put(c->dirs[0], "cpu.max", cpu, err)) != 0)
		return rc;
	if (put_num(c->dirs[0], "memory.swap.max", 0, err) != 0)
		c->swap_counted = false; /* a kernel without swap accounting has no such file */
	return 0;
}

int
native_cgroup_create(const struct sandbox_limits *l, struct native_cgroup *c, struct err *err)
{
	AUTO_BUF struct buf mi = BUF(1 << 20), self = BUF(65536);
	AUTO_FREE char *mi_z = NULL, *self_z = NULL;
	struct err e1 = {0}, e2 = {0};

	*c = (struct native_cgroup){0};
	if (native_slurp("/proc/self/mountinfo", &mi, &e1) != 0 ||
	    native_slurp("/proc/self/cgroup", &self, &e1) != 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: %s", e1.msg);
	mi_z = buf_dup_z(&mi);
	self_z = buf_dup_z(&self);
	if (v2_create(mi_z, self_z, l, c, &e2) == 0)
		return 0;
	native_cgroup_remove(c);
	if (v1_create(mi_z, self_z, l, c, &e1) == 0)
		return 0;
	native_cgroup_remove(c);
	return err_set(err, ERR_UNAVAILABLE,
	    "sandbox: limits on memory, processes and processor time cannot be had "
	    "(version 2: %s; version 1: %s): " FIX,
	    e2.msg, e1.msg);
}

/*
 * Version 1: the child puts itself in, through files opened here with our rights. Writing "0"
 * to `tasks` moves the calling thread alone and so needs no machine-wide lock, whose
 * grace period would cost more than everything else at the start.
 */
int
native_cgroup_open(struct native_cgroup *c, struct err *err)
{
	for (size_t i = 0; c->version == 1 && i < c->ndirs; i++) {
		AUTO_FREE char *path = xasprintf("%s/tasks", c->dirs[i]);

		c->tasks[i] = open(path, O_WRONLY | O_CLOEXEC);
		if (c->tasks[i] < 0)
			return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: limits: %s", path);
	}
	return 0;
}

int
native_cgroup_join(const struct native_cgroup *c, struct err *err)
{
	for (size_t i = 0; c->version == 1 && i < c->ndirs; i++)
		if (write(c->tasks[i], "0", 1) != 1)
			return err_sys(
			    err, ERR_UNAVAILABLE, errno, "sandbox: limits: joining %s", c->dirs[i]);
	return 0;
}

int
native_cgroup_add(const struct native_cgroup *c, pid_t pid, struct err *err)
{
	if (c->version == 2 && put_num(c->dirs[0], "cgroup.procs", (uint64_t)pid, err) != 0)
		return err_wrap(err, "sandbox: limits: " FIX);
	return 0;
}

uint64_t
native_cgroup_ooms(const struct native_cgroup *c)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF struct buf b = BUF(8192);
	struct err ignored;
	struct str text, line;
	uint64_t n = 0;

	if (c->memory == NULL)
		return 0;
	path =
	    xasprintf("%s/%s", c->memory, c->version == 1 ? "memory.oom_control" : "memory.events");
	if (native_slurp(path, &b, &ignored) != 0)
		return 0;
	for (text = buf_str(&b); str_cut(&text, '\n', &line);)
		if (str_has_prefix(line, "oom_kill ")) {
			line.p += strlen("oom_kill ");
			line.n -= strlen("oom_kill ");
			(void)str_to_u64(line, UINT64_MAX, &n);
		}
	return n;
}

void
native_cgroup_close(struct native_cgroup *c)
{
	for (size_t i = 0; i < NATIVE_CGROUP_DIRS; i++) {
		if (c->tasks[i] > 0)
			(void)close(c->tasks[i]);
		c->tasks[i] = -1;
	}
}

void
native_cgroup_remove(struct native_cgroup *c)
{
	for (size_t i = 0; i < c->ndirs; i++) {
		/* The last process may still be on its way out. */
		for (int k = 0; rmdir(c->dirs[i]) != 0 && errno == EBUSY && k < 1000; k++)
			(void)usleep(k < 20 ? 500 : 5000);
		free(c->dirs[i]);
	}
	native_cgroup_close(c);
	*c = (struct native_cgroup){0};
}
