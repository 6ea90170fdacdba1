/*
 * Memory, process and processor limits, and the freezer. Runs in the supervisor, outside the
 * sandbox; the sandbox itself has no cgroup file system. Works with version 1 controllers, with
 * version 2, in a delegated subtree, and with both mounted side by side; where it can have none it
 * says so and refuses. A fresh group for each sandbox: since cgroup.kill a used one kills whatever
 * joins it later. Never moves a whole process, which takes a lock over all of the machine and waits
 * for all its processors: into version 2 the child is born, version 1 it joins as one thread.
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
#define SWEEP_EACH 32
#define FIX                                              \
	"start it as root, or in a cgroup of your own: " \
	"systemd-run --user --scope -p Delegate=yes cofferdam ..."

/* The caller's own groups, found once; and why there is no group of version 2 for what. */
struct native_cgroup_own {
	struct buf mountinfo, self;
	char *v2; /* NULL: not mounted */
	struct err limits, freezer;
};

static void
own_free(struct native_cgroup_own *o)
{
	if (o == NULL)
		return;
	buf_free(&o->mountinfo);
	buf_free(&o->self);
	free(o->v2);
	free(o);
}

/* All mounts, when they are first needed. */
static int
own_mounts(struct native_cgroup_own *o, struct err *err)
{
	if (o->mountinfo.n == 0 && native_slurp("/proc/self/mountinfo", &o->mountinfo, err) != 0)
		return err_wrap(err, "sandbox: limits");
	return 0;
}

static char *
own_find(const struct native_cgroup_own *o, const char *controller)
{
	return native_cgroup_own((char *)o->mountinfo.p, (char *)o->self.p, controller);
}

static int
put_at(int dir, const char *file, const char *text)
{
	AUTO_FD int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n)
		return -errno;
	return 0;
}

int
native_group_put(const struct native_group *g, const char *file, const char *text)
{
	return put_at(g->fd, file, text);
}

static int
put(const struct native_group *g, const char *file, const char *text, struct err *err)
{
	int rc = put_at(g->fd, file, text);

	return rc == 0 ? 0 : err_sys(err, ERR_SYSTEM, -rc, "%s/%s", g->path, file);
}

static int
put_num(const struct native_group *g, const char *file, uint64_t v, struct err *err)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return put(g, file, text, err);
}

/*
 * Groups whose supervisor was killed together with its janitor. Only an empty group can be
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

/* On success the group is c's last. */
static int
group_make(
    const char *parent, int version, unsigned roles, struct native_cgroup *c, struct err *err)
{
	struct native_group *g = &c->g[c->n];
	bool thaw = version == 1 && (roles & NATIVE_FREEZE) != 0;
	struct timespec ts;
	int rc = 0;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	if (ts.tv_nsec / 1024 % SWEEP_EACH == 0)
		sweep(parent);
	*g = (struct native_group){
	    .version = version, .roles = roles, .fd = -1, .tasks = -1, .ooms = -1};
	g->path = xasprintf("%s/" GROUP_PREFIX "%d-%lld%09ld", parent, (int)getpid(),
	    (long long)ts.tv_sec, ts.tv_nsec);
	if (c->janitor != NULL)
		rc = native_janitor_tell(c->janitor, g->path, thaw, err);
	if (rc == 0 && mkdir(g->path, 0755) != 0)
		rc = err_sys(err, ERR_SYSTEM, errno, "%s", g->path);
	if (rc != 0) {
		free(TAKE_PTR(g->path));
		return rc;
	}
	c->n++;
	g->fd = open(g->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (g->fd >= 0 && version == 1)
		g->tasks = openat(g->fd, "tasks", O_WRONLY | O_CLOEXEC);
	if (g->fd < 0 || (version == 1 && g->tasks < 0))
		return err_sys(err, ERR_SYSTEM, errno, "%s/tasks", g->path);
	return 0;
}

struct native_group *
native_cgroup_role(struct native_cgroup *c, unsigned role)
{
	for (size_t i = 0; i < c->n; i++)
		if ((c->g[i].roles & role) != 0)
			return &c->g[i];
	return NULL;
}

/* --- version 1 ------------------------------------------------------------------------- */

static int
v1_limit(const struct sandbox_limits *l, struct native_cgroup *c, struct err *err)
{
	struct native_group *m = native_cgroup_role(c, NATIVE_MEMORY);
	struct native_group *cpu = native_cgroup_role(c, NATIVE_CPU);
	uint64_t bytes = (uint64_t)l->memory_mib << 20;
	struct err ignored;
	int rc;

	if ((rc = put_num(m, "memory.limit_in_bytes", bytes, err)) != 0 ||
	    (rc = put_num(native_cgroup_role(c, NATIVE_PIDS), "pids.max", l->pids, err)) != 0 ||
	    (rc = put_num(cpu, "cpu.cfs_quota_us", l->cpu_percent * 1000ull, err)) != 0)
		return rc;
	/* Only where the kernel counts swap; else memory.swappiness keeps the group out of it. */
	c->swap_counted = put_num(m, "memory.memsw.limit_in_bytes", bytes, &ignored) == 0;
	if (!c->swap_counted)
		(void)put_num(m, "memory.swappiness", 0, &ignored);
	return 0;
}

static int
v1_create(const struct native_cgroup_own *o, const struct sandbox_limits *l,
    struct native_cgroup *c, struct err *err)
{
	static const struct {
		const char *name;
		unsigned roles;
	} rows[] = {{"memory", NATIVE_MEMORY}, {"pids", NATIVE_PIDS}, {"cpu", NATIVE_CPU}};
	char *parents[ARRAY_LEN(rows)] = {0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(rows); i++) {
		size_t same = 0;

		parents[i] = own_find(o, rows[i].name);
		while (same < i && parents[i] != NULL && parents[same] != NULL &&
		       strcmp(parents[same], parents[i]) != 0)
			same++;
		if (parents[i] == NULL)
			rc = err_set(err, ERR_SYSTEM, "no cgroup controller \"%s\"", rows[i].name);
		else if (same < i) /* mounted together */
			native_cgroup_role(c, rows[same].roles)->roles |= rows[i].roles;
		else
			rc = group_make(parents[i], 1, rows[i].roles, c, err);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		free(parents[i]);
	if (rc == 0 && (rc = v1_limit(l, c, err)) == 0)
		c->version = 1;
	return rc;
}

/* --- version 2 ------------------------------------------------------------------------- */

static bool
word_in(struct str rest, const char *word)
{
	struct str one;

	for (;;) {
		bool more = str_cut(&rest, ' ', &one);

		if (str_eqz(str_trim(more ? one : rest), word))
			return true;
		if (!more)
			return false;
	}
}

/* All three controllers in one file of a group. */
static bool
v2_has(const char *dir, const char *file)
{
	char text[4096];
	AUTO_FD int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int fd = at >= 0 ? openat(at, file, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
	struct str all = str_mem(text, n > 0 ? (size_t)n : 0);

	return word_in(all, "memory") && word_in(all, "pids") && word_in(all, "cpu");
}

/* May groups below `dir` have them? Switches them on where it can. */
static bool
v2_parent_fits(const char *dir)
{
	AUTO_FREE char *path = NULL;

	/* Where version 1 has them, version 2 does not, and asking would wait for a lock. */
	if (!v2_has(dir, "cgroup.controllers"))
		return false;
	path = xasprintf("%s/cgroup.subtree_control", dir);
	if (!v2_has(dir, "cgroup.subtree_control") &&
	    (put_at(AT_FDCWD, path, "+memory +pids +cpu") != 0 ||
		!v2_has(dir, "cgroup.subtree_control")))
		return false;
	return access(dir, W_OK) == 0;
}

static int
v2_limit(struct native_group *g, const struct sandbox_limits *l, struct native_cgroup *c,
    struct err *err)
{
	char cpu[48];
	int rc;

	(void)snprintf(cpu, sizeof(cpu), "%llu 100000", l->cpu_percent * 1000ull);
	if ((rc = put_num(g, "memory.max", (uint64_t)l->memory_mib << 20, err)) != 0 ||
	    (rc = put_num(g, "pids.max", l->pids, err)) != 0 ||
	    (rc = put(g, "cpu.max", cpu, err)) != 0)
		return rc;
	/* A kernel without swap accounting has no such file. */
	c->swap_counted = put_at(g->fd, "memory.swap.max", "0") == 0;
	c->version = 2;
	return 0;
}

static int
v2_create(const struct native_cgroup_own *o, const struct sandbox_limits *l,
    struct native_cgroup *c, struct err *err)
{
	AUTO_FREE char *dir = o->v2 != NULL ? xstrdup(o->v2) : NULL;
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
	if ((rc = group_make(dir, 2,
		 NATIVE_MEMORY | NATIVE_PIDS | NATIVE_CPU | NATIVE_TIME | NATIVE_FREEZE, c, err)) !=
	    0)
		return rc;
	return v2_limit(&c->g[c->n - 1], l, c, err);
}

/* --- both ------------------------------------------------------------------------------ */

static void
groups_drop(struct native_cgroup *c, size_t from)
{
	for (; c->n > from; c->n--) {
		struct native_group *g = &c->g[c->n - 1];

		/* The last process may still be on its way out. */
		for (int k = 0; rmdir(g->path) != 0 && errno == EBUSY && k < 1000; k++)
			(void)usleep(k < 20 ? 100 : 5000);
		if (g->tasks >= 0)
			(void)close(g->tasks);
		if (g->fd >= 0)
			(void)close(g->fd);
		if (g->ooms >= 0)
			(void)close(g->ooms);
		free(g->path);
		*g = (struct native_group){0};
	}
}

static int
own_make(struct native_cgroup *c, struct err *err)
{
	struct native_cgroup_own *o = c->own = xcalloc(1, sizeof(*o));

	o->mountinfo = BUF(1 << 20);
	o->self = BUF(65536);
	if (native_slurp("/proc/self/cgroup", &o->self, err) != 0)
		return err_wrap(err, "sandbox: limits");
	if ((o->v2 = native_cgroup_usual((char *)o->self.p)) != NULL)
		return 0;
	if (own_mounts(o, err) != 0)
		return err->code;
	o->v2 = own_find(o, NULL);
	return 0;
}

/* Where version 2 limits nothing, it may still be mounted, and then freezes and counts time. */
int
native_cgroup_begin(const struct sandbox_limits *l, struct native_cgroup *c, struct err *err)
{
	struct native_cgroup_own *o;
	int rc;

	if ((rc = own_make(c, err)) != 0)
		return rc;
	o = c->own;
	if (v2_create(o, l, c, &o->limits) == 0)
		return 0;
	groups_drop(c, 0);
	if (o->v2 == NULL)
		return 0;
	if (group_make(o->v2, 2, NATIVE_FREEZE | NATIVE_TIME, c, &o->freezer) != 0)
		return 0;
	if (faccessat(c->g[c->n - 1].fd, "cgroup.freeze", W_OK, 0) == 0)
		return 0;
	(void)err_sys(&o->freezer, ERR_SYSTEM, errno, "cgroup.freeze");
	c->g[c->n - 1].roles &= ~(unsigned)NATIVE_FREEZE;
	return 0;
}

static int
freezer_create(struct native_cgroup *c, struct err *err)
{
	const struct native_cgroup_own *o = c->own;
	AUTO_FREE char *v1 = own_find(o, "freezer");
	struct err e = {0};

	if (v1 != NULL && group_make(v1, 1, NATIVE_FREEZE, c, &e) == 0)
		return 0;
	return err_set(err, ERR_UNAVAILABLE,
	    "sandbox: a freezer for pause cannot be had (version 2: %s; version 1: %s): " FIX,
	    o->v2 != NULL ? o->freezer.msg : "not mounted", v1 != NULL ? e.msg : "not mounted");
}

static int
limits_create(const struct sandbox_limits *l, struct native_cgroup *c, struct err *err)
{
	const struct native_cgroup_own *o = c->own;
	size_t before = c->n;
	struct err e = {0};

	if (v1_create(o, l, c, &e) == 0)
		return 0;
	groups_drop(c, before);
	return err_set(err, ERR_UNAVAILABLE,
	    "sandbox: limits on memory, processes and processor time cannot be had "
	    "(version 2: %s; version 1: %s): " FIX,
	    o->limits.msg, e.msg);
}

int
native_cgroup_create(const struct sandbox_limits *l, unsigned may_lack, struct native_cgroup *c,
    unsigned *ret_lacks, struct err *err)
{
	int rc = c->own == NULL ? native_cgroup_begin(l, c, err) : 0;

	if (rc != 0 || ((c->version == 0 || native_cgroup_role(c, NATIVE_FREEZE) == NULL) &&
			   (rc = own_mounts(c->own, err)) != 0))
		return rc;
	if (c->version == 0 && (rc = limits_create(l, c, err)) != 0) {
		if ((may_lack & SANDBOX_LAYER_LIMITS) == 0)
			return rc;
		*ret_lacks |= SANDBOX_LAYER_LIMITS;
	}
	if (native_cgroup_role(c, NATIVE_FREEZE) == NULL && (rc = freezer_create(c, err)) != 0) {
		if ((may_lack & SANDBOX_LAYER_FREEZER) == 0)
			return rc;
		*ret_lacks |= SANDBOX_LAYER_FREEZER;
	}
	own_free(TAKE_PTR(c->own));
	if (c->n == 0 && c->janitor != NULL && !c->janitor->named)
		native_janitor_end(TAKE_PTR(c->janitor));
	return 0;
}

struct native_group *
native_cgroup_extra(const char *controller, struct native_cgroup *c)
{
	AUTO_BUF struct buf mi = BUF(1 << 20), self = BUF(65536);
	AUTO_FREE char *parent = NULL;
	struct err ignored;

	if (c->n == NATIVE_GROUPS_MAX || native_slurp("/proc/self/mountinfo", &mi, &ignored) != 0 ||
	    native_slurp("/proc/self/cgroup", &self, &ignored) != 0)
		return NULL;
	parent = native_cgroup_own((char *)mi.p, (char *)self.p, controller);
	if (parent == NULL || group_make(parent, 1, 0, c, &ignored) != 0)
		return NULL;
	return &c->g[c->n - 1];
}

int
native_cgroup_into(const struct native_cgroup *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->g[i].version == 2)
			return c->g[i].fd;
	return -1;
}

int
native_cgroup_join(const struct native_cgroup *c, struct err *err)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->g[i].version == 1 && write(c->g[i].tasks, "0", 1) != 1)
			return err_sys(err, ERR_UNAVAILABLE, errno,
			    "sandbox: limits: joining a group of version 1 (kinds %#x)",
			    c->g[i].roles);
	return 0;
}

void
native_cgroup_joined(struct native_cgroup *c)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->g[i].tasks >= 0)
			(void)close(c->g[i].tasks);
		c->g[i].tasks = -1;
	}
}

void
native_cgroup_remove(struct native_cgroup *c)
{
	groups_drop(c, 0);
	own_free(c->own);
	*c = (struct native_cgroup){.janitor = c->janitor};
}

void
native_cgroup_level(struct native_cgroup *c, struct buf *out)
{
	const struct native_group *f = native_cgroup_role(c, NATIVE_FREEZE);

	if (c->version != 0)
		buf_printf(out,
		    "\"cgroup\":{\"version\":%d,\"controllers\":[\"memory\",\"pids\",\"cpu\"],"
		    "\"swap\":%s,\"freezer_version\":%d}",
		    c->version, c->swap_counted ? "true" : "false", f != NULL ? f->version : 0);
	else
		buf_put_z(out, "\"cgroup\":\"none\"");
}
