/*
 * The child between clone and the run time: on the supervisor's memory and descriptors while that
 * waits, in namespaces of its own for mounts and network. It prepares what the run time finds, and
 * executes it with a bare environment. It must never run foreign code before, and allocates
 * nothing that outlives it; whatever fails ends it with the name of the step.
 */
#include "agent/sandbox/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/sandbox/inside.h"

#include "common/banned.h"

static int
groups_join(struct oci_start *s, struct err *err)
{
	return native_cgroup_join(&s->o->cgroup, err);
}

static int
network_make(struct oci_start *s, struct err *err)
{
	int rc = native_net_check(native_net_raw(), err);

	for (; rc == 0 && s->nlisteners < s->spec->ntargets; s->nlisteners += rc == 0)
		rc = native_listener_make(
		    &s->spec->targets[s->nlisteners], &s->listeners[s->nlisteners], err);
	return rc;
}

static int
reset(struct oci_start *s UNUSED, struct err *err)
{
	(void)umask(022);
	(void)setpriority(PRIO_PROCESS, 0, 0);
	(void)setsid();
	/* The caller's session keyring would be searched. */
	if (syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL) < 0 && errno != ENOSYS)
		return native_missing(err, errno, "an own session keyring",
		    "the user's key quota may be used up (/proc/key-users)");
	return 0;
}

/* gVisor is root of a namespace that maps no host id of anybody; the others make it themselves. */
static int
identity_take(struct oci_start *s, struct err *err)
{
	if (s->users >= 0 &&
	    (syscall(SYS_setgroups, 0, NULL) != 0 || setns(s->users, CLONE_NEWUSER) != 0 ||
		syscall(SYS_setresgid, 0, 0, 0) != 0 || syscall(SYS_setresuid, 0, 0, 0) != 0 ||
		unshare(CLONE_NEWNS | CLONE_NEWCGROUP) != 0))
		return native_missing(err, errno, "a user namespace for the run time",
		    "the supervisor's root must be able to map host ids");
	/* After the ids: changing them takes it back. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: parent death signal");
	return 0;
}

/* 0 to 2 and, where it passes them on, pid 1's wire and helper. */
static int
descriptors_take(struct oci_start *s, struct err *err)
{
	bool kernel = s->o->rt->kernel;
	int log = s->o->log, *const up[] = {&s->wire, &s->helper, &s->null, &log};

	if (close_range(~0u, ~0u, CLOSE_RANGE_UNSHARE) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: own descriptors");
	for (size_t i = 0; i < ARRAY_LEN(up); i++)
		if ((*up[i] = fcntl(*up[i], F_DUPFD_CLOEXEC, INSIDE_HELPER_FD + 1)) < 0)
			return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: descriptors");
	if (dup2(kernel ? s->wire : s->null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 ||
	    (!kernel &&
		(dup2(s->wire, INSIDE_WIRE_FD) < 0 || dup2(s->helper, INSIDE_HELPER_FD) < 0)) ||
	    close_range(kernel ? 3 : INSIDE_HELPER_FD + 1, ~0u, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: descriptors");
	return 0;
}

static int
signals_reset(struct oci_start *s UNUSED, struct err *err)
{
	static const unsigned long dfl[8];
	unsigned long none = 0;

	for (int i = 1; i < NSIG; i++)
		(void)syscall(SYS_rt_sigaction, i, dfl, NULL, 8);
	if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: signal mask");
	return 0;
}

static void
runtime_exec(const struct oci_start *s)
{
	const struct oci_runtime *rt = s->o->rt;
	const char *argv[24], *env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	size_t n = 0;

	argv[n++] = rt->name;
	argv[n++] = "--root";
	argv[n++] = OCI_STATE;
	for (const char *const *a = rt->argv; *a != NULL; a++)
		argv[n++] = *a;
	argv[n++] = "run";
	if (!rt->kernel)
		argv[n++] = "--preserve-fds=2";
	argv[n++] = "--bundle";
	argv[n++] = OCI_BUNDLE;
	argv[n++] = OCI_ID;
	argv[n] = NULL;
	(void)syscall(SYS_execve, s->path, argv, env);
}

int
oci_child_main(void *arg)
{
	static int (*const steps[])(struct oci_start *, struct err *) = {groups_join, network_make,
	    oci_root_make, reset, identity_take, descriptors_take, signals_reset};
	struct oci_start *s = arg;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (steps[i](s, &s->err) != 0)
			return 1;
	if (chdir(OCI_BUNDLE) == 0) {
		s->executing = true;
		runtime_exec(s);
	}
	(void)err_sys(&s->err, ERR_UNAVAILABLE, errno, "sandbox: start of %s", s->path);
	s->executing = false;
	return 1;
}
