/*
 * The launcher: one process outside for each sandbox. It makes the limits and namespaces,
 * relays orders between the caller and pid 1, keeps the time and ends the whole tree, also
 * when pid 1 cannot or will not. It trusts its caller; from pid 1 it takes only short frames
 * of known types. When the caller's socket closes, nothing is left behind.
 */
#include "agent/sandbox/native.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/sandbox/wire.h"

#include "common/banned.h"

#define START_MS 12000
#define GRACE_MS 2000 /* pid 1 ends an exec on time; if it does not, everything goes */

struct launcher {
	struct native_spec spec;
	struct native_cgroup cgroup;
	struct native_filter filter;
	struct native_view view;
	bool root;
	uid_t outside_uid;
	gid_t outside_gid;
	pid_t child;
	int pidfd, inside;	/* of the child; wire to it */
	int64_t wall, deadline; /* 0: none */
	bool running;
	enum sandbox_cause killed;
	uint64_t ooms;
	struct buf facts;
};

/* Root of the host's own namespace can map any id; root of a container may not. */
static bool
can_map(uid_t first)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct err ignored;
	unsigned in, out, n;
	AUTO_FREE char *text = NULL;

	if (geteuid() != 0 || native_slurp("/proc/self/uid_map", &b, &ignored) != 0)
		return false;
	text = buf_dup_z(&b);
	return sscanf(text, "%u %u %u", &in, &out, &n) == 3 && in == 0 &&
	       n >= first + NATIVE_UID_COUNT;
}

static int
write_file(pid_t pid, const char *file, const char *text, struct err *err)
{
	char path[64];
	AUTO_FD int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return native_missing(err, errno, "the user map of a user namespace",
		    "allow user namespaces for this user (sysctl user.max_user_namespaces, "
		    "kernel.apparmor_restrict_unprivileged_userns)");
	return 0;
}

static int
maps_write(struct launcher *l, struct err *err)
{
	char text[64];
	int rc;

	(void)snprintf(text, sizeof(text), "%d %u 1", NATIVE_UID_INSIDE, l->outside_uid);
	if ((rc = write_file(l->child, "uid_map", text, err)) != 0 ||
	    (!l->root && (rc = write_file(l->child, "setgroups", "deny", err)) != 0))
		return rc;
	(void)snprintf(text, sizeof(text), "%d %u 1", NATIVE_UID_INSIDE, l->outside_gid);
	return write_file(l->child, "gid_map", text, err);
}

static int
child_clone(struct launcher *l, struct err *err)
{
	struct clone_args a = {.exit_signal = SIGCHLD,
	    .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
		     CLONE_NEWUTS | CLONE_PIDFD};
	int pair[2], exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct native_child c = {.spec = &l->spec,
	    .view = &l->view,
	    .root = l->root,
	    .exe_fd = exe,
	    .cgroup = &l->cgroup};
	long pid;

	if (exe < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: socketpair");
	a.pidfd = (uintptr_t)&l->pidfd;
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0) {
		c.wire = pair[1];
		(void)close(pair[0]);
		(void)close(WIRE_FD);
		native_child_main(&c);
	}
	(void)close(pair[1]);
	(void)close(exe);
	l->inside = pair[0];
	if (pid < 0)
		return native_missing(err, errno, "user, mount, pid, net, ipc and uts namespaces",
		    "allow user namespaces for this user (sysctl user.max_user_namespaces, "
		    "kernel.unprivileged_userns_clone, "
		    "kernel.apparmor_restrict_unprivileged_userns)");
	l->child = (pid_t)pid;
	return 0;
}

/* LISTENERS, then READY; anything else is the child's error. */
static int
child_expect(struct launcher *l, uint8_t type, struct wire_msg *m, struct err *err)
{
	if (wire_recv(l->inside, START_MS, WIRE_INSIDE_MAX, m, err) != 0)
		return err_wrap(err, "sandbox: start");
	if (m->type == WIRE_ERROR)
		return wire_take_error(m, err);
	if (m->type != type)
		return err_set(err, ERR_PROTOCOL, "sandbox: unexpected message at start");
	return 0;
}

/* Costs the library a millisecond or two, in which the child builds its file system. */
static int
filter_send(struct launcher *l, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_INSIDE_MAX);
	int rc = native_filter_build(&l->filter, err);

	if (rc != 0)
		return rc;
	native_filter_encode(&l->filter, &b);
	rc = wire_send(l->inside, WIRE_FILTER, &b, NULL, 0, err);
	/* A child that has ended has said why; that is read next. */
	return rc == ERR_UNAVAILABLE ? 0 : rc;
}

static int
limits_make(struct launcher *l, struct err *err)
{
	struct err e = {0};

	if (native_cgroup_create(&l->spec.limits, &l->cgroup, &e) == 0 || l->spec.limits_optional)
		return 0;
	return err_set(err, e.code, "%s", e.msg);
}

static int
sandbox_start(struct launcher *l, struct wire_msg *listeners, struct err *err)
{
	AUTO_WIRE struct wire_msg ready = WIRE_MSG;
	struct rd r;
	int rc;

	l->root = can_map(NATIVE_UID_BASE);
	l->outside_uid = l->root ? NATIVE_UID_BASE + (uid_t)getpid() % NATIVE_UID_COUNT : geteuid();
	l->outside_gid = l->root ? l->outside_uid : getegid();
	if ((rc = limits_make(l, err)) != 0 || (rc = native_cgroup_open(&l->cgroup, err)) != 0 ||
	    (rc = native_view_plan(&l->spec, &l->view, err)) != 0 ||
	    (l->root && (rc = native_view_open(&l->view, l->outside_uid, err)) != 0) ||
	    (rc = child_clone(l, err)) != 0)
		return rc;
	native_view_close(&l->view);
	native_cgroup_close(&l->cgroup);
	if ((rc = maps_write(l, err)) != 0 ||
	    (rc = native_cgroup_add(&l->cgroup, l->child, err)) != 0 ||
	    (rc = wire_send(l->inside, WIRE_GO, NULL, NULL, 0, err)) != 0 ||
	    (rc = filter_send(l, err)) != 0 ||
	    (rc = child_expect(l, WIRE_LISTENERS, listeners, err)) != 0 ||
	    (rc = child_expect(l, WIRE_READY, &ready, err)) != 0)
		return rc;
	r = rd_init(buf_str(&ready.body));
	buf_put_str(&l->facts, rd_lstr(&r));
	if (!rd_end(&r) || listeners->nfds != l->spec.ntargets)
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed start of pid 1");
	return 0;
}

static void
level_put(struct launcher *l, struct buf *out)
{
	const struct sandbox_limits *m = &l->spec.limits;

	buf_printf(out,
	    "{\"back_end\":\"native\",\"namespaces\":[\"user\",\"mount\",\"pid\",\"net\","
	    "\"ipc\",\"uts\",\"cgroup\"],%.*s,\"filter_calls\":%u,\"user\":{\"inside\":%d,"
	    "\"outside\":%u,"
	    "\"groups\":\"%s\"},\"network\":\"loopback\",",
	    STR_ARG(buf_str(&l->facts)), l->filter.allowed, NATIVE_UID_INSIDE, l->outside_uid,
	    l->root ? "none" : "caller");
	if (l->cgroup.version != 0)
		buf_printf(out,
		    "\"cgroup\":{\"version\":%d,\"controllers\":[\"memory\",\"pids\",\"cpu\"],"
		    "\"swap\":%s},",
		    l->cgroup.version, l->cgroup.swap_counted ? "true" : "false");
	else
		buf_put_z(out, "\"cgroup\":\"none\",");
	buf_printf(out,
	    "\"limits\":{\"wall_s\":%u,\"cpu_percent\":%u,\"memory_mib\":%u,\"pids\":%u,"
	    "\"output_mib\":%u,\"workspace_mib\":%u},\"workspace\":\"%s\"}",
	    m->wall_s, m->cpu_percent, m->memory_mib, m->pids, m->output_mib, m->workspace_mib,
	    l->spec.workspace != NULL ? "directory" : "private");
}

static int
created_send(struct launcher *l, struct wire_msg *listeners, struct err *err)
{
	AUTO_BUF struct buf b = BUF(65536), level = BUF(16384);

	level_put(l, &level);
	buf_lstr(&b, buf_str(&level));
	buf_u32(&b, (uint32_t)l->cgroup.ndirs);
	for (size_t i = 0; i < l->cgroup.ndirs; i++)
		buf_lz(&b, l->cgroup.dirs[i]);
	return wire_send(WIRE_FD, WIRE_CREATED, &b, listeners->fds, listeners->nfds, err);
}

/* --- after the start ------------------------------------------------------------------- */

static void
exited_send(struct launcher *l, enum sandbox_cause cause, uint32_t value)
{
	AUTO_BUF struct buf b = BUF(16);
	struct err ignored;

	if (l->killed != SANDBOX_NONE)
		cause = l->killed;
	else if ((cause == SANDBOX_EXITED || cause == SANDBOX_SIGNALLED ||
		     cause == SANDBOX_UNAVAILABLE) &&
		 native_cgroup_ooms(&l->cgroup) > l->ooms)
		cause = SANDBOX_MEMORY;
	buf_u8(&b, (uint8_t)cause);
	buf_u32(&b, value);
	(void)wire_send(WIRE_FD, WIRE_EXITED, &b, NULL, 0, &ignored);
	l->running = false;
	l->deadline = 0;
	l->killed = SANDBOX_NONE;
}

/* Waits until the last process of the pid namespace is gone: the kernel reaps pid 1 last. */
static void
tree_end(struct launcher *l)
{
	if (l->child > 0) {
		(void)syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0);
		while (waitpid(l->child, NULL, 0) < 0 && errno == EINTR)
			continue;
		l->child = 0;
	}
	if (l->inside >= 0)
		(void)close(l->inside);
	l->inside = -1;
	if (l->running)
		exited_send(l, SANDBOX_UNAVAILABLE, 0);
}

/* Passes a frame on as it is. Returns false when the other side is gone. */
static bool
relay(int to, struct wire_msg *m)
{
	struct err ignored;

	return wire_send(to, m->type, &m->body, m->fds, m->nfds, &ignored) == 0;
}

static void
refuse(int code, const char *text)
{
	struct err e;

	(void)err_set(&e, code, "sandbox: %s", text);
	wire_send_error(WIRE_FD, &e);
}

/* False: the caller is gone, or broke the rules. */
static bool
caller_turn(struct launcher *l)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err ignored;
	struct rd r;
	uint32_t ms;

	if (wire_recv(WIRE_FD, WIRE_SEND_MS, WIRE_BODY_MAX, &m, &ignored) != 0 || m.nfds != 0)
		return false;
	r = rd_init(buf_str(&m.body));
	switch (m.type) {
	case WIRE_EXEC:
		if (l->child == 0 || l->running) {
			refuse(l->running ? ERR_STATE : ERR_UNAVAILABLE,
			    l->running ? "a program is running" : "it has ended");
			return true;
		}
		(void)rd_u8(&r);
		ms = rd_u32(&r);
		l->deadline = ms != 0 ? wire_now_ms() + ms + GRACE_MS : 0;
		l->ooms = native_cgroup_ooms(&l->cgroup);
		l->running = true;
		if (!relay(l->inside, &m))
			tree_end(l);
		return true;
	case WIRE_KILL:
		if (!l->running)
			return true; /* it has just ended by itself */
		l->killed = (enum sandbox_cause)rd_u8(&r);
		l->deadline = wire_now_ms() + GRACE_MS;
		if (!relay(l->inside, &m))
			tree_end(l);
		return true;
	default: return false;
	}
}

/* What pid 1 says; it lives among hostile code, so: known type, fitting state, right sizes. */
static void
inside_turn(struct launcher *l)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err ignored;
	struct rd r;
	uint8_t cause;
	uint32_t value;

	if (wire_recv(l->inside, WIRE_SEND_MS / 10, WIRE_INSIDE_MAX, &m, &ignored) != 0 ||
	    !l->running) {
		tree_end(l);
		return;
	}
	r = rd_init(buf_str(&m.body));
	switch (m.type) {
	case WIRE_STARTED:
		if (m.nfds == 0 || m.nfds > 3 || !relay(WIRE_FD, &m))
			tree_end(l);
		return;
	case WIRE_ERROR:
		l->running = false;
		l->deadline = 0;
		l->killed = SANDBOX_NONE;
		if (m.nfds != 0 || !relay(WIRE_FD, &m))
			tree_end(l);
		return;
	case WIRE_EXITED:
		cause = rd_u8(&r);
		value = rd_u32(&r);
		if (!rd_end(&r) || m.nfds != 0 ||
		    (cause != SANDBOX_EXITED && cause != SANDBOX_SIGNALLED &&
			cause != SANDBOX_TIMEOUT))
			tree_end(l);
		else
			exited_send(l, (enum sandbox_cause)cause, value);
		return;
	default: tree_end(l);
	}
}

static void
time_turn(struct launcher *l)
{
	int64_t now = wire_now_ms();

	if (l->child != 0 && (now >= l->wall || (l->deadline != 0 && now >= l->deadline))) {
		if (l->killed == SANDBOX_NONE)
			l->killed = SANDBOX_TIMEOUT;
		tree_end(l);
	}
}

static void
serve(struct launcher *l)
{
	for (;;) {
		struct pollfd p[3] = {{.fd = WIRE_FD, .events = POLLIN},
		    {.fd = l->inside, .events = POLLIN},
		    {.fd = l->child != 0 ? l->pidfd : -1, .events = POLLIN}};
		int64_t now = wire_now_ms(), end = l->wall;

		if (l->deadline != 0 && l->deadline < end)
			end = l->deadline;
		if (poll(p, 3,
			l->child == 0	    ? -1
			: end <= now	    ? 0
			: end - now > 60000 ? 60000
					    : (int)(end - now)) < 0 &&
		    errno != EINTR)
			return;
		if (p[1].revents != 0)
			inside_turn(l);
		else if (p[2].revents != 0)
			tree_end(l);
		if (p[0].revents != 0 && !caller_turn(l))
			return;
		time_turn(l);
	}
}

int
native_launcher_main(void)
{
	static struct launcher l = {.pidfd = -1, .inside = -1};
	AUTO_WIRE struct wire_msg m = WIRE_MSG, listeners = WIRE_MSG;
	struct err e = {0};
	int rc;

	l.facts = BUF(8192);
	(void)close_range(WIRE_FD + 1, ~0u, 0);
	(void)fcntl(WIRE_FD, F_SETFD, FD_CLOEXEC);
	(void)umask(022);
	(void)setsid();
	(void)signal(SIGPIPE, SIG_IGN);
	if (chdir("/") != 0)
		return 1;
	if (wire_recv(WIRE_FD, WIRE_SEND_MS, WIRE_BODY_MAX, &m, &e) != 0 || m.type != WIRE_CREATE ||
	    m.nfds != 0)
		return 1;
	rc = native_spec_decode(buf_str(&m.body), &l.spec, &e);
	l.wall = wire_now_ms() + l.spec.limits.wall_s * 1000ll;
	if (rc == 0)
		rc = sandbox_start(&l, &listeners, &e);
	if (rc == 0)
		rc = created_send(&l, &listeners, &e);
	wire_msg_free(&listeners);
	if (rc == 0)
		serve(&l);
	else
		wire_send_error(WIRE_FD, &e);
	l.running = false;
	tree_end(&l);
	native_cgroup_remove(&l.cgroup);
	return rc == 0 ? 0 : 1;
}
