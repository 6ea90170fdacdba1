/*
 * The native back end as the supervisor sees it: one sandbox from its start to its end. Runs
 * outside with the supervisor's rights; it trusts the spec (its caller is the same user) and
 * nothing inside. Whatever was begun is undone by native_end, in any state.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "common/proc_paths.h"
#include "agent/sandbox/filter.h"
#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

#define STACK ((size_t)256 << 10)

/* Everything that the child and we both write, above its stack. */
struct shared {
	struct native native;
	struct native_start start;
};

int
native_missing(struct err *err, int errnum, const char *layer, const char *fix)
{
	/* No layer lacks: who starts it has no room. */
	if (errnum == EMFILE)
		fix = "the limit of open files of the process that starts it (ulimit -n) is too "
		      "low: raise it";
	else if (errnum == ENFILE)
		fix = "the machine's limit of open files is reached (sysctl fs.file-max)";
	return err_set(err, ERR_UNAVAILABLE, "sandbox: %s cannot be had (%s): %s", layer,
	    errnum != 0 ? strerror(errnum) : "not there", fix);
}

int
native_slurp(const char *path, struct buf *out, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", path);
	for (;;) {
		uint8_t room[4096];
		ssize_t k = read(fd, room, sizeof(room));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "%s", path);
		if (k == 0)
			break;
		buf_put(out, room, (size_t)k);
	}
	buf_put_c(out, '\0');
	if (buf_over(out))
		return err_set(err, ERR_TOO_LARGE, "%s: larger than %zu bytes", path, out->max);
	out->n--;
	return 0;
}

/*
 * Those that the child is born in, or (late) makes itself, beside the supervisor: a network takes
 * longer than all the others. Not among them: a time namespace. It would only let the sandbox have
 * other offsets of the monotonic clocks, which it must not set, and hides nothing; the wall clock
 * has none.
 */
static uint64_t
namespaces(bool late)
{
	static const struct {
		const char *layer;
		uint64_t flag;
		bool late;
	} rows[] = {{"userns", CLONE_NEWUSER, false}, {"pidns", CLONE_NEWPID, false},
	    {"netns", CLONE_NEWNET, true}, {"ipcns", CLONE_NEWIPC, true},
	    {"utsns", CLONE_NEWUTS, true}};
	uint64_t all = late ? CLONE_NEWNS : 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].late == late && !native_layer_off(rows[i].layer))
			all |= rows[i].flag;
	return all;
}

static void
one_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

static int
identity_choose(struct native *n, struct err *err)
{
	int rc;

	if (n->root && (rc = native_uid_take(&n->spare, err)) != 0)
		return rc;
	n->uid = n->root ? n->spare.uid : geteuid();
	if (native_layer_off("userns"))
		n->uid = NATIVE_UID_INSIDE;
	n->gid = n->root ? n->uid : getegid();
	return 0;
}

int
native_program_open(const char *name, struct err *err)
{
	AUTO_FREE char *path = proc_program(name);
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		(void)err_sys(err, ERR_UNAVAILABLE, errno,
		    "sandbox: %s: it belongs beside cofferdam-sandbox: install both anew", path);
	return fd;
}

/* --- start ----------------------------------------------------------------------------- */

/*
 * Until the child has executed pid 1 or is gone. It has our memory and this thread's own storage
 * (errno) meanwhile: raw calls only.
 */
static void
child_wait(const struct native_start *s, int pidfd)
{
	const struct timespec turn = {.tv_nsec = 50000000}, none = {0};
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	while (s->running != 0)
		if (RAW(SYS_futex, &s->running, FUTEX_WAIT, 1, &turn) == -ETIMEDOUT &&
		    RAW(SYS_ppoll, &p, 1, &none, NULL, 0) > 0)
			break;
}

int
native_namespaces_missing(struct err *err, int errnum)
{
	return native_missing(err, errnum, "user, mount, pid, net, ipc and uts namespaces",
	    "allow user namespaces for this user (sysctl user.max_user_namespaces, "
	    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)");
}

/* From here to child_finish it is beside us, and makes nothing but raw calls. */
static int
child_begin(struct native_start *s, struct backend_box *b, struct err *err)
{
	struct native *n = b->own;
	int into = native_cgroup_into(&n->cgroup);
	struct clone_args a = {.exit_signal = SIGCHLD,
	    .flags = namespaces(false) | CLONE_FILES | CLONE_PIDFD | CLONE_CHILD_CLEARTID |
		     CLONE_CLEAR_SIGHAND | (into >= 0 ? CLONE_INTO_CGROUP : 0),
	    .pidfd = (uintptr_t)&b->pidfd,
	    .child_tid = (uintptr_t)&s->running,
	    .cgroup = into >= 0 ? (unsigned)into : 0};
	pid_t pid;

	s->running = 1;
	s->late = namespaces(true);
	native_self_take(&n->self, n->root);
	native_cpus_find(&s->cpus);
	pid = native_spawn(&n->region, &a, native_child_main, s);
	if (pid < 0)
		return native_namespaces_missing(err, -pid);
	b->child = s->map.child = pid;
	n->starting = true;
	native_cpus_hold(&s->cpus);
	return 0;
}

static void
go(struct native_start *s, enum native_go to)
{
	s->go = to;
	(void)RAW(SYS_futex, &s->go, FUTEX_WAKE, 1);
}

/* All that it needs is there. */
static int
child_finish(struct native_start *s, struct backend_box *b, struct err *err)
{
	struct native *n = b->own;

	go(s, NATIVE_GO_ALL);
	child_wait(s, b->pidfd);
	native_self_give(&n->self, b->child);
	b->notify = s->notify;
	b->lacks |= s->lacks;
	b->nlisteners = s->nlisteners;
	memcpy(b->listeners, s->listeners, s->nlisteners * sizeof(*b->listeners));
	n->starting = !s->executing;
	if (s->executing)
		return 0;
	if (s->err.code != 0)
		return err_set(err, s->err.code, "%s", s->err.msg);
	return err_set(err, ERR_UNAVAILABLE, "sandbox: its first process was killed at the start");
}

static void
level_put(const struct native_start *s, struct backend_box *b)
{
	struct native *n = b->own;

	buf_printf(&b->level,
	    "\"namespaces\":[\"user\",\"mount\",\"pid\",\"net\",\"ipc\",\"uts\",\"cgroup\"],"
	    "\"user\":{\"inside\":%d,\"outside\":%u,\"groups\":\"%s\"},"
	    "\"network\":\"loopback\",\"root\":\"%s\",\"filter_calls\":%u,",
	    NATIVE_UID_INSIDE, n->uid, n->root ? "none" : "caller",
	    s->spec->image != NULL ? "image" : "host", filter_allowed());
	native_cgroup_level(&n->cgroup, &b->level);
}

/* What the child is handed, borrowed: -1: not made yet. */
struct ends {
	int init, inside, null, wire, self;
};

static void
ends_close(struct ends *e)
{
	one_close(&e->init);
	one_close(&e->inside);
	one_close(&e->null);
	one_close(&e->wire);
	one_close(&e->self);
}
#define AUTO_ENDS __attribute__((cleanup(ends_close)))

static int
ends_make(struct ends *e, struct backend_box *b, struct err *err)
{
	int pair[2];

	if ((e->init = native_program_open("cofferdam-init", err)) < 0 ||
	    (e->inside = native_program_open("cofferdam-inside", err)) < 0)
		return ERR_UNAVAILABLE;
	e->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (e->null < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: /dev/null or socketpair");
	b->inside = pair[0];
	e->wire = pair[1];
	return 0;
}

/* As root, who opens what is seen: first what the child goes on with. */
static int
view_make(struct native_start *s, struct native *n, struct err *err)
{
	int rc = identity_choose(n, err);

	s->map.uid = n->uid;
	s->map.gid = n->gid;
	if (rc != 0 || !n->root)
		return rc;
	native_map_write(&s->map);
	if ((rc = native_view_open(s->spec, &n->view, n->uid, err)) == 0)
		go(s, NATIVE_GO_VIEW);
	return rc;
}

/* What the child does not need at its birth, and so is made beside it. */
static int
rest_make(struct native_start *s, struct ends *e, struct backend_box *b, struct err *err)
{
	struct native *n = b->own;
	int rc;

	if ((rc = view_make(s, n, err)) != 0 || (rc = ends_make(e, b, err)) != 0 ||
	    (!native_layer_off("limits") &&
		(rc = native_cgroup_create(
		     &s->spec->limits, s->spec->may_lack, &n->cgroup, &b->lacks, err)) != 0))
		return rc;
	for (size_t i = 0; i < n->cgroup.n; i++)
		b->cgroups[i] = n->cgroup.g[i].path;
	s->init = e->init;
	s->inside = e->inside;
	s->null = e->null;
	s->wire = e->wire;
	return 0;
}

static int
box_build(const struct super_spec *spec, struct backend_box *b, struct err *err)
{
	struct native *n = b->own;
	struct native_start *s = &((struct shared *)native_region_shared(&n->region))->start;
	AUTO_ENDS struct ends e = {-1, -1, -1, -1, -1};
	int rc;

	s->spec = spec;
	s->n = n;
	s->notify = -1;
	n->root = native_uid_can();
	e.self = s->supervisor = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (e.self < 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: pidfd");
	n->spec = spec;
	if ((spec->spare && (rc = native_seen_begin(&n->seen, err)) != 0) ||
	    (rc = native_view_plan(spec, &n->view, err)) != 0)
		return rc;
	if (n->seen != NULL)
		native_seen_plan(n->seen, &n->view);
	if ((!native_layer_off("limits") &&
		((rc = native_janitor_start(&n->janitor, b->name, err)) != 0 ||
		    (rc = native_cgroup_begin(&spec->limits, &n->cgroup, err)) != 0)) ||
	    (rc = child_begin(s, b, err)) != 0 || (rc = rest_make(s, &e, b, err)) != 0)
		return rc;
	if ((rc = child_finish(s, b, err)) == 0)
		level_put(s, b);
	if (n->seen != NULL)
		native_seen_built(n->seen, &n->view);
	native_view_close(&n->view);
	native_cgroup_joined(&n->cgroup);
	return rc;
}

/* --- end ------------------------------------------------------------------------------- */

static void
tree_kill(struct backend_box *b, struct native *n)
{
	const struct native_group *g = native_cgroup_role(&n->cgroup, NATIVE_FREEZE);

	if (b->child <= 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, b->pidfd, SIGKILL, NULL, 0);
	/* A frozen process of version 1 dies when it is thawed; version 2 lets it die. */
	if (g != NULL && g->version == 1)
		(void)native_group_put(g, "freezer.state", "THAWED");
}

/* Until the last process of the pid namespace is gone: the kernel reaps pid 1 last. */
static void
tree_wait(struct backend_box *b)
{
	while (b->child > 0 && waitpid(b->child, NULL, 0) < 0 && errno == EINTR)
		continue;
	b->child = 0;
}

static void
native_end(struct backend_box *b)
{
	struct native *n = b->own;
	struct native_region region;

	if (n == NULL)
		return;
	tree_kill(b, n);
	if (n->starting)
		tree_wait(b);
	/* Meanwhile: the last look at a mount takes as long to close as a process to end. */
	one_close(&b->inside);
	one_close(&b->notify);
	for (size_t i = 0; i < b->nlisteners; i++)
		one_close(&b->listeners[i]);
	b->nlisteners = 0;
	native_view_free(&n->view);
	native_seen_free(TAKE_PTR(n->seen));
	tree_wait(b);
	native_self_give(&n->self, 0);
	one_close(&b->pidfd);
	native_cgroup_remove(&n->cgroup);
	native_janitor_end(&n->janitor);
	native_uid_free(&n->spare);
	buf_free(&b->level);
	memset(b->cgroups, 0, sizeof(b->cgroups));
	region = n->region;
	native_region_free(&region);
	b->own = NULL;
}

static int
native_start(const struct super_spec *spec, struct backend_box *b, struct err *err)
{
	struct native_region region = {0};
	struct native *n;
	int rc = native_region_make(STACK, sizeof(struct shared), &region, err);

	if (rc != 0)
		return rc;
	n = &((struct shared *)native_region_shared(&region))->native;
	n->region = region;
	b->backend = &backend_native;
	b->own = n;
	b->inside = b->pidfd = b->notify = -1;
	b->child = 0;
	b->nlisteners = 0;
	b->lacks = 0;
	b->level = BUF(16384);
	n->view.root = n->view.work = n->view.tmp = -1;
	n->cgroup.janitor = &n->janitor;
	rc = box_build(spec, b, err);
	native_cpus_free(&((struct shared *)native_region_shared(&region))->start.cpus);
	if (rc != 0)
		native_end(b);
	return rc;
}

/* --- between --------------------------------------------------------------------------- */

static int
native_freeze(struct backend_box *b, bool on, struct err *err)
{
	return native_cgroup_freeze(&((struct native *)b->own)->cgroup, on, err);
}

void
native_disk_usage(int fd, bool counted, struct backend_usage *ret)
{
	struct statfs s;

	if (fd < 0 || fstatfs(fd, &s) != 0)
		return;
	if (s.f_bavail == 0 || (s.f_files != 0 && s.f_ffree == 0))
		ret->disk_full = true;
	if (counted) {
		ret->disk_bytes += (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
		ret->disk_max_bytes += (uint64_t)s.f_blocks * (uint64_t)s.f_bsize;
	}
}

static void
native_usage(struct backend_box *b, struct backend_usage *ret)
{
	struct native *n = b->own;

	*ret = (struct backend_usage){0};
	if (n == NULL)
		return;
	native_cgroup_usage(&n->cgroup, ret);
	native_disk_usage(n->view.tmp, true, ret);
	native_disk_usage(n->view.work, n->view.limited, ret);
}

static uint64_t
native_ooms(struct backend_box *b)
{
	struct native *n = b->own;

	return n != NULL ? native_cgroup_ooms(&n->cgroup) : 0;
}

static bool
native_still(struct backend_box *b)
{
	struct native *n = b->own;

	return n != NULL && n->seen != NULL && native_seen_still(n->seen, n->spec, &n->view);
}

const struct backend backend_native = {
    .name = "native",
    .start = native_start,
    .end = native_end,
    .freeze = native_freeze,
    .usage = native_usage,
    .ooms = native_ooms,
    .listen = native_listen,
    .still = native_still,
    .hosts = native_hosts,
};
