/*
 * The OCI back ends as the supervisor sees them: one sandbox from its start to its end. Runs
 * outside with root's rights; it trusts the spec, the run time as far as its measured result goes,
 * and nothing inside. Whatever was begun is undone by oci_end, in any state.
 */
#include "agent/sandbox/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/proc_paths.h"
#include "common/xalloc.h"
#include "agent/sandbox/filter.h"

#include "common/banned.h"

#define STACK ((size_t)256 << 10)
#define START_MS 60000

struct shared {
	struct oci oci;
	struct oci_start start;
};

/* Its own places, as nobody's PATH may choose what root executes. */
static char *
runtime_find(const struct oci_runtime *rt, struct err *err)
{
	static const char *const dirs[] = {
	    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		AUTO_FREE char *path = xasprintf("%s/%s", dirs[i], rt->name);

		if (access(path, X_OK) == 0)
			return TAKE_PTR(path);
	}
	(void)err_set(err, ERR_UNAVAILABLE,
	    "sandbox: back end %s: there is no program %s in /usr/local/bin, /usr/sbin, /usr/bin "
	    "(...): install the package %s, or take the back end native",
	    rt->name, rt->name, rt->name);
	return NULL;
}

/* --- start ----------------------------------------------------------------------------- */

/* The run time lives among those whom the limits are for. */
static int
limits_make(const struct super_spec *spec, struct backend_box *b, struct err *err)
{
	struct oci *o = b->own;
	struct sandbox_limits l = spec->limits;
	const struct native_group *g;
	int rc;

	/* Each process inside has one outside, and each thread. */
	l.pids += o->rt->pids + (o->rt->kernel ? l.pids : 0);
	l.memory_mib += o->rt->memory_mib;
	o->cgroup.janitor = &o->janitor;
	if ((rc = native_janitor_start(&o->janitor, b->name, err)) != 0 ||
	    (rc = native_cgroup_create(&l, spec->may_lack, &o->cgroup, &b->lacks, err)) != 0)
		return rc;
	if (!o->rt->devices || access(OCI_DEVICES, F_OK) != 0)
		return 0;
	g = native_cgroup_extra("devices", &o->cgroup);
	if (g == NULL || !str_has_prefix(str_z(g->path), OCI_DEVICES "/"))
		return native_missing(err, 0, "a control group \"devices\"",
		    "start it as root, with cgroup version 1 at /sys/fs/cgroup");
	o->devices = xstrdup(g->path + strlen(OCI_DEVICES));
	return 0;
}

static int
users_make(const struct oci *o, int *ret, struct err *err)
{
	char map[128];

	if (!o->rt->kernel)
		return 0;
	(void)snprintf(
	    map, sizeof(map), "0 %u 1\n%d %u 1\n", o->spare.root, NATIVE_UID_INSIDE, o->spare.uid);
	return native_userns_make(map, map, ret, err);
}

static void
level_put(const struct super_spec *spec, struct backend_box *b)
{
	struct oci *o = b->own;

	buf_printf(&b->level,
	    "\"namespaces\":[\"user\",\"mount\",\"pid\",\"net\",\"ipc\",\"uts\",\"cgroup\"],"
	    "\"user\":{\"inside\":%d,\"outside\":%u,\"groups\":\"none\"},"
	    "\"network\":\"loopback\",\"root\":\"%s\",\"filter_calls\":%u,\"kernel\":\"%s\",",
	    NATIVE_UID_INSIDE, o->spare.uid, spec->image != NULL ? "image" : "host",
	    filter_allowed(), o->rt->kernel ? "own" : "host");
	native_cgroup_level(&o->cgroup, &b->level);
}

static int
child_start(struct oci_start *s, struct backend_box *b, struct err *err)
{
	struct oci *o = b->own;
	int into = native_cgroup_into(&o->cgroup);
	struct clone_args a = {.exit_signal = SIGCHLD,
	    .flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_VFORK |
		     CLONE_FILES | CLONE_PIDFD | CLONE_CLEAR_SIGHAND |
		     (into >= 0 ? CLONE_INTO_CGROUP : 0),
	    .pidfd = (uintptr_t)&b->pidfd,
	    .cgroup = into >= 0 ? (unsigned)into : 0};
	pid_t pid = native_spawn(&o->region, &a, oci_child_main, s);

	if (pid < 0)
		return native_missing(err, -pid, "mount, net, ipc and uts namespaces",
		    "the kernel needs CONFIG_NAMESPACES");
	b->child = pid;
	b->nlisteners = s->nlisteners;
	memcpy(b->listeners, s->listeners, s->nlisteners * sizeof(*b->listeners));
	if (s->executing)
		return 0;
	if (s->err.code != 0)
		return err_set(err, s->err.code, "%s", s->err.msg);
	return err_set(err, ERR_UNAVAILABLE, "sandbox: its first process was killed at the start");
}

/* The last line that it said, in printable characters. */
static int
runtime_failed(const struct oci *o, struct err *err)
{
	char room[2048];
	struct stat st;
	off_t from = 0;
	ssize_t n;
	char *line;

	if (fstat(o->log, &st) == 0 && st.st_size > (off_t)sizeof(room) - 1)
		from = st.st_size - ((off_t)sizeof(room) - 1);
	n = pread(o->log, room, sizeof(room) - 1, from);
	while (n > 0 && (room[n - 1] == '\n' || room[n - 1] == ' '))
		n--;
	room[n > 0 ? n : 0] = '\0';
	line = strrchr(room, '\n');
	line = line != NULL ? line + 1 : room;
	for (char *c = line; *c != '\0'; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
	return err_set(err, ERR_UNAVAILABLE, "sandbox: back end %s could not start it: %s",
	    o->rt->name, line[0] != '\0' ? line : "it ended without a word");
}

/* Pid 1 speaks first; until then only the run time knows what goes wrong. */
static int
answer_wait(const struct backend_box *b, struct err *err)
{
	const struct oci *o = b->own;
	struct pollfd p[2] = {
	    {.fd = b->inside, .events = POLLIN}, {.fd = b->pidfd, .events = POLLIN}};
	char c;
	int rc;

	do
		rc = poll(p, 2, START_MS);
	while (rc < 0 && errno == EINTR);
	if (rc == 0)
		return err_set(err, ERR_TIMEOUT,
		    "sandbox: back end %s has not started it in %d seconds", o->rt->name,
		    START_MS / 1000);
	if (recv(b->inside, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
		return 0;
	/* Its last words come before its end. */
	while (poll(&p[1], 1, START_MS) < 0 && errno == EINTR)
		continue;
	return runtime_failed(o, err);
}

/*
 * Once it waits for pid 1, and that is the only one inside, it is known how many it has itself; few
 * more are left to it, for it ends when it cannot have a thread.
 */
static void
pids_tighten(const struct super_spec *spec, struct oci *o)
{
	const struct native_group *g = native_cgroup_role(&o->cgroup, NATIVE_PIDS);
	struct backend_usage u = {0};
	char text[32];

	if (o->rt->kernel || g == NULL)
		return;
	native_cgroup_usage(&o->cgroup, &u);
	(void)snprintf(text, sizeof(text), "%llu",
	    (unsigned long long)u.pids - 1 + spec->limits.pids + o->rt->spare);
	/* It stays as it was, wider, if that fails. */
	(void)native_group_put(g, "pids.max", text);
}

static int
child_prepare(const struct super_spec *spec, struct backend_box *b, struct oci_start *s,
    const char *path, struct err *err)
{
	struct oci *o = b->own;
	AUTO_BUF struct buf config = BUF(1 << 20);
	AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC), wire = -1, users = -1;
	int pair[2], rc;

	oci_config(spec, o, &config);
	o->log = memfd_create("cofferdam-oci", MFD_CLOEXEC);
	if (null < 0 || o->log < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: /dev/null, memfd or socketpair");
	b->inside = pair[0];
	wire = pair[1];
	if ((rc = users_make(o, &users, err)) != 0)
		return rc;
	s->spec = spec;
	s->o = o;
	s->path = path;
	s->config = buf_str(&config);
	s->wire = wire;
	s->null = null;
	s->users = users;
	for (size_t i = 0; i < o->cgroup.n; i++)
		b->cgroups[i] = o->cgroup.g[i].path;
	return child_start(s, b, err);
}

static int
box_build(const struct super_spec *spec, struct backend_box *b, struct err *err)
{
	struct oci *o = b->own;
	struct oci_start *s = &((struct shared *)native_region_shared(&o->region))->start;
	AUTO_FREE char *path = runtime_find(o->rt, err);
	AUTO_FREE char *init_path = proc_program("cofferdam-init");
	AUTO_FREE char *inside_path = proc_program("cofferdam-inside");
	AUTO_FD int init = open(init_path, O_RDONLY | O_CLOEXEC);
	AUTO_FD int inside = open(inside_path, O_RDONLY | O_CLOEXEC);
	AUTO_FD int helper = native_program_open("cofferdam-inside", err);
	int rc;

	if (path == NULL || helper < 0)
		return ERR_UNAVAILABLE;
	if (init < 0 || inside < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: %s", init_path);
	if (!native_uid_can())
		return err_set(err, ERR_UNAVAILABLE,
		    "sandbox: back end %s needs root of the host, who can map two ids: start it "
		    "as root, or take the back end native",
		    o->rt->name);
	if ((rc = native_uid_take(&o->spare, err)) != 0)
		return rc;
	s->init = init;
	s->inside = inside;
	s->helper = helper;
	o->view.maker = o->rt->kernel ? o->spare.root : 0;
	if ((rc = limits_make(spec, b, err)) != 0 ||
	    (rc = native_view_plan(spec, &o->view, err)) != 0 ||
	    (rc = native_view_open(spec, &o->view, o->spare.uid, err)) != 0 ||
	    (rc = child_prepare(spec, b, s, path, err)) != 0)
		return rc;
	native_view_close(&o->view);
	native_cgroup_joined(&o->cgroup);
	if ((rc = answer_wait(b, err)) != 0)
		return rc;
	pids_tighten(spec, o);
	level_put(spec, b);
	return 0;
}

static int
start(const struct backend *self, const struct oci_runtime *rt, const struct super_spec *spec,
    struct backend_box *b, struct err *err)
{
	struct native_region region = {0};
	struct oci *o;
	int rc = native_region_make(STACK, sizeof(struct shared), &region, err);

	if (rc != 0)
		return rc;
	o = &((struct shared *)native_region_shared(&region))->oci;
	o->region = region;
	o->rt = rt;
	o->log = o->view.root = o->view.work = o->view.tmp = -1;
	b->backend = self;
	b->own = o;
	b->inside = b->pidfd = b->notify = -1;
	b->child = 0;
	b->nlisteners = 0;
	b->lacks = 0;
	b->level = BUF(16384);
	rc = box_build(spec, b, err);
	if (rc != 0)
		oci_end(b);
	return rc;
}

/* --- between --------------------------------------------------------------------------- */

static int
oci_freeze(struct backend_box *b, bool on, struct err *err)
{
	return native_cgroup_freeze(&((struct oci *)b->own)->cgroup, on, err);
}

static void
oci_usage(struct backend_box *b, struct backend_usage *ret)
{
	struct oci *o = b->own;

	*ret = (struct backend_usage){0};
	if (o == NULL)
		return;
	native_cgroup_usage(&o->cgroup, ret);
	native_disk_usage(o->view.tmp, true, ret);
	native_disk_usage(o->view.work, o->view.limited, ret);
}

/* Its network namespace is the host user's, and the wall's owner has no right in it. */
static int
oci_listen(struct backend_box *b, const struct spec_target *t, int *ret, struct err *err)
{
	return native_listen_in(b, CLONE_NEWNET, t, ret, err);
}

static int
oci_hosts(struct backend_box *b, const struct spec_target *t, size_t n, struct err *err)
{
	const struct oci *o = b->own;

	return native_hosts_write(o->view.root, t, n, err);
}

/* --- the three ------------------------------------------------------------------------- */

#define BACKEND(program, in)                                                     \
	static int program##_start(                                              \
	    const struct super_spec *s, struct backend_box *b, struct err *err)  \
	{                                                                        \
		return start(&backend_##program, &runtime_##program, s, b, err); \
	}                                                                        \
	const struct backend backend_##program = {                               \
	    .name = #program,                                                    \
	    .start = program##_start,                                            \
	    .end = oci_end,                                                      \
	    .freeze = oci_freeze,                                                \
	    .usage = oci_usage,                                                  \
	    .listen = oci_listen,                                                \
	    .hosts = oci_hosts,                                                  \
	    .pipes_in = (in),                                                    \
	}

static const struct oci_runtime runtime_crun = {
    .name = "crun", .argv = {"--cgroup-manager=disabled"}, .pids = 4, .memory_mib = 4};
static const struct oci_runtime runtime_runc = {
    .name = "runc", .devices = true, .pids = 32, .spare = 3, .memory_mib = 16};
static const struct oci_runtime runtime_runsc = {.name = "runsc",
    .argv = {"--network=host", "--ignore-cgroups", "--file-access=shared", "--oci-seccomp"},
    .kernel = true,
    .pids = 128,
    .memory_mib = 64};
BACKEND(crun, false);
BACKEND(runc, false);
BACKEND(runsc, true);
