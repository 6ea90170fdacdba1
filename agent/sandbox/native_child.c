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

/* The supervisor's death is ours from now on, if it has not been yet. */
static int
death_share(struct native_start *s, struct err *err)
{
	struct pollfd p = {.fd = s->supervisor, .events = POLLIN};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: parent death signal");
	if (poll(&p, 1, 0) != 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: its supervisor is gone");
	return 0;
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
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* Only of this process, since the supervisor waits by vfork. */
	if (fd >= 0)
		(void)!write(fd, "300", 3);
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
	if (!native_layer_off("netns") && (rc = native_net_up(err)) != 0)
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
		(void)snprintf(ret + n, size - (size_t)n, "files=%u", s->spec->limits.open_files);
}

int
native_child_main(void *arg)
{
	static int (*const steps[])(struct native_start *, struct err *) = {death_share,
	    files_raise, groups_join, ids_map, identity_take, network_make, root_make, rights_drop,
	    filter_take, descriptors_take};
	/* What it cannot find and need not: init_main.c. */
	char name[] = "cofferdam-init", words[64], *envp[] = {NULL};
	char *argv[] = {name, words, NULL};
	struct native_start *s = arg;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (steps[i](s, &s->err) != 0)
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
