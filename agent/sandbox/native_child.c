/*
 * The child between clone and pid 1: in the new namespaces with all capabilities of its own user
 * namespace, on the supervisor's memory and descriptors while that waits. It builds the world,
 * gives up everything and executes pid 1. It must never run foreign code, and allocates nothing
 * that outlives it; whatever fails ends it with the name of the step: no step is optional.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "agent/sandbox/filter.h"
#include "agent/sandbox/inside.h"
#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

#define INIT_FD (INSIDE_HELPER_FD + 1)
#define BESIDE_S 10 /* for the supervisor's part of the start */

static int
file_put(const char *path, const char *text, struct err *err)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return native_missing(err, errno, path,
		    "allow user namespaces for this user (sysctl user.max_user_namespaces, "
		    "kernel.apparmor_restrict_unprivileged_userns)");
	return 0;
}

static int
namespaces_check(struct native_start *s, struct err *err)
{
	return s->late == 0 ? 0 : native_namespaces_missing(err, (int)s->late);
}

/* The building needs some, and pid 1 as many as there can be. */
static int
files_raise(struct native_start *s UNUSED, struct err *err UNUSED)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
	return 0;
}

static int
groups_join(struct native_start *s, struct err *err)
{
	if (native_cgroup_join(&s->n->cgroup, err) != 0)
		return err->code;
	/* From here the group is the limits' group, so its name can be hidden. */
	if (!native_layer_off("cgroupns") && unshare(CLONE_NEWCGROUP) != 0)
		return native_missing(err, errno, "a cgroup namespace", "Linux 4.6 or later");
	return 0;
}

/* An ordinary user may map its own id itself; another host id needs the supervisor's rights. */
static int
ids_map(struct native_start *s, struct err *err)
{
	char text[64];
	int rc;

	if (native_layer_off("userns"))
		return 0;
	if (s->n->root)
		return native_map_wait(&s->map, err);
	(void)snprintf(text, sizeof(text), "%d %u 1", NATIVE_UID_INSIDE, s->n->uid);
	if ((rc = file_put("/proc/self/uid_map", text, err)) != 0 ||
	    (rc = file_put("/proc/self/setgroups", "deny", err)) != 0)
		return rc;
	(void)snprintf(text, sizeof(text), "%d %u 1", NATIVE_UID_INSIDE, s->n->gid);
	return file_put("/proc/self/gid_map", text, err);
}

/* Other ids take the signal of the supervisor's death back. Pid 1 arms it once more after exec. */
static int
identity_take(struct native_start *s, struct err *err)
{
	const unsigned uid = NATIVE_UID_INSIDE, gid = NATIVE_UID_INSIDE;
	AUTO_FD int fd = s->n->root ? -1 : open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* Later nobody could but root, who does it then. */
	if (fd >= 0)
		(void)!write(fd, NATIVE_OOM, strlen(NATIVE_OOM));
	/* Not setresgid(3) and its like: they would set the ids of the supervisor's other threads.
	 */
	if (s->n->root && syscall(SYS_setgroups, 0, NULL) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: supplementary groups");
	/* In a user namespace without a root they stay by themselves. */
	if (native_layer_off("userns") &&
	    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: capabilities to keep");
	if (syscall(SYS_setresgid, gid, gid, gid) != 0 ||
	    syscall(SYS_setresuid, uid, uid, uid) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: user id %u", uid);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: parent death signal");
	return native_layer_off("reset") ? 0 : native_reset(err);
}

static int
network_make(struct native_start *s, struct err *err)
{
	int rc = 0;

	if (!native_layer_off("utsns") &&
	    (sethostname("sandbox", 7) != 0 || setdomainname("", 0) != 0))
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: host name");
	if ((rc = native_net_check(s->net, err)) != 0)
		return rc;
	for (; rc == 0 && s->nlisteners < s->spec->ntargets; s->nlisteners += rc == 0)
		rc = native_listener_make(
		    &s->spec->targets[s->nlisteners], &s->listeners[s->nlisteners], err);
	return rc;
}

static int
root_make(struct native_start *s, struct err *err)
{
	int rc;

	if (!s->n->root && (rc = native_view_open(s->spec, &s->n->view, 0, err)) != 0)
		return rc;
	return native_root_enter(s->spec, &s->n->view, err);
}

static int
rights_drop(struct native_start *s, struct err *err)
{
	const int exe[] = {s->init, s->inside};
	int rc;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return native_missing(err, errno, "no_new_privs", "the kernel is too old");
	if (native_layer_off("landlock"))
		return native_caps_drop(err);
	if ((rc = native_landlock(exe, ARRAY_LEN(exe),
		 (s->spec->may_lack & SANDBOX_LAYER_LANDLOCK) != 0, &s->abi, err)) != 0)
		return rc;
	if (s->abi == 0)
		s->lacks |= SANDBOX_LAYER_LANDLOCK;
	return native_caps_drop(err);
}

/* Before the descriptors become our own: the supervisor gets the listener by sharing them. */
static int
filter_take(struct native_start *s, struct err *err)
{
	int rc;

	if (native_layer_off("seccomp"))
		return 0;
	rc = filter_load(true, &s->notify);
	if (rc != 0 && (s->spec->may_lack & SANDBOX_LAYER_NOTIFY) != 0) {
		s->lacks |= SANDBOX_LAYER_NOTIFY;
		rc = filter_load(false, &s->notify);
	}
	if (rc != 0)
		return native_missing(err, -rc, "the system call filter",
		    "the kernel needs CONFIG_SECCOMP_FILTER, and 5.5 or later for notifications");
	return 0;
}

/* Nothing of the supervisor's goes inside: its standard error may be a terminal. */
static int
descriptors_take(struct native_start *s, struct err *err)
{
	/* A table of our own, with what follows in it. */
	if (close_range(~0u, ~0u, CLOSE_RANGE_UNSHARE) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: own descriptors");
	/* Above all that is moved: no source is a destination of another. */
	if ((s->wire = fcntl(s->wire, F_DUPFD_CLOEXEC, INIT_FD + 1)) < 0 ||
	    (s->init = fcntl(s->init, F_DUPFD_CLOEXEC, INIT_FD + 1)) < 0 ||
	    (s->null = fcntl(s->null, F_DUPFD_CLOEXEC, INIT_FD + 1)) < 0 ||
	    (s->inside >= 0 && (s->inside = fcntl(s->inside, F_DUPFD_CLOEXEC, INIT_FD + 1)) < 0))
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: descriptors");
	if (dup2(s->null, 0) < 0 || dup2(s->null, 1) < 0 || dup2(s->null, 2) < 0 ||
	    dup2(s->wire, INSIDE_WIRE_FD) < 0 || dup3(s->init, INIT_FD, O_CLOEXEC) < 0 ||
	    (s->inside >= 0 ? dup2(s->inside, INSIDE_HELPER_FD) < 0
			    : close(INSIDE_HELPER_FD) < 0 && errno != EBADF) ||
	    close_range(INIT_FD + 1, ~0u, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: descriptors");
	return 0;
}

static void
words_make(const struct native_start *s, char *ret, size_t size)
{
	const char *lacks = (s->lacks & SANDBOX_LAYER_LANDLOCK) != 0 ? "landlock," : "";
	int n = snprintf(ret, size, "%s", lacks);

	if (!native_layer_off("reset"))
		n += snprintf(ret + n, size - (size_t)n, "files=%u,", s->spec->limits.open_files);
	if (!s->cpus.known)
		return;
	n += snprintf(ret + n, size - (size_t)n, "cpus=");
	for (size_t i = ARRAY_LEN(s->cpus.all); i-- > 0;)
		n += snprintf(
		    ret + n, size - (size_t)n, "%016llx", (unsigned long long)s->cpus.all[i]);
}

/* False: the supervisor is not there any more, or does not come to it. */
static bool
go_wait(const struct native_start *s, enum native_go to)
{
	const struct timespec limit = {.tv_sec = BESIDE_S};
	uint32_t now;

	while ((now = s->go) < (uint32_t)to)
		if (RAW(SYS_futex, &s->go, FUTEX_WAIT, now, &limit) == -ETIMEDOUT)
			return false;
	return true;
}

/* The supervisor's death is ours from now on. False: it has been already. */
static bool
death_share(const struct native_start *s)
{
	const struct timespec none = {0};
	struct pollfd p = {.fd = s->supervisor, .events = POLLIN};

	return RAW(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL) == 0 &&
	       RAW(SYS_ppoll, &p, 1, &none, NULL, 0) == 0;
}

static void
namespaces_make(struct native_start *s)
{
	long rc;

	rc = RAW(SYS_unshare, s->late);
	if (rc == 0 && (s->late & CLONE_NEWNET) != 0)
		s->net = native_net_raw();
	s->late = (uint64_t)-rc;
}

int
native_child_main(void *arg)
{
	typedef int step(struct native_start *, struct err *);
	static step *const early[] = {
	    namespaces_check, files_raise, ids_map, identity_take, network_make, root_make};
	static step *const late[] = {groups_join, rights_drop, filter_take, descriptors_take};
	/* What it cannot find and need not: init_main.c. */
	char name[] = "cofferdam-init", words[64 + 2 * NATIVE_CPUS_BYTES], *envp[] = {NULL};
	char *argv[] = {name, words, NULL};
	struct native_start *s = arg;

	if (!death_share(s))
		return 1;
	namespaces_make(s);
	/* An ordinary user's opens the view itself, and for that needs all that is the
	 * supervisor's. */
	if (!go_wait(s, s->n->root ? NATIVE_GO_VIEW : NATIVE_GO_ALL))
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(early); i++)
		if (early[i](s, &s->err) != 0)
			return 1;
	native_cpus_hold(&s->cpus);
	if (!go_wait(s, NATIVE_GO_ALL))
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(late); i++)
		if (late[i](s, &s->err) != 0)
			return 1;
	/* Handlers were reset by clone; the rest of what signals keep is pid 1's to reset. */
	words_make(s, words, sizeof(words));
	s->executing = true;
#ifdef MODE_SANITIZED
	/* On memory of its own: the kernel tells nobody. */
	s->running = 0;
	(void)RAW(SYS_futex, &s->running, FUTEX_WAKE, 1);
#endif
	(void)syscall(SYS_execveat, INIT_FD, "", argv, envp, AT_EMPTY_PATH);
	(void)err_sys(&s->err, ERR_UNAVAILABLE, errno, "sandbox: start of cofferdam-init");
	s->executing = false;
	return 1;
}
