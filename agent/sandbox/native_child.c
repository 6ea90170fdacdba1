/*
 * The child between clone and pid 1: in the new namespaces with all capabilities of its
 * own user namespace, and still a copy of the launcher. It builds the world, gives up
 * everything and executes pid 1. It must never run foreign code, and whatever fails ends it
 * with the name of the step: no step is optional.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/sandbox/wire.h"

#include "common/banned.h"

static int
go_wait(struct native_child *c, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;

	if (wire_recv(c->wire, WIRE_SEND_MS, 64, &m, err) != 0)
		return err->code;
	if (m.type != WIRE_GO)
		return err_set(err, ERR_PROTOCOL, "sandbox: child was not told to go");
	if (native_cgroup_join(c->cgroup, err) != 0)
		return err->code;
	/* From here the group is the limits' group, so its name can be hidden. */
	if (unshare(CLONE_NEWCGROUP) != 0)
		return native_missing(err, errno, "a cgroup namespace", "Linux 4.6 or later");
	return 0;
}

/* The launcher's death must be ours; the signal is armed again by pid 1 after exec. */
static int
identity_take(struct native_child *c, struct err *err)
{
	static const char score[] = "300";
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, score, sizeof(score) - 1);
	if (c->root && setgroups(0, NULL) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: supplementary groups");
	if (setresgid(NATIVE_UID_INSIDE, NATIVE_UID_INSIDE, NATIVE_UID_INSIDE) != 0 ||
	    setresuid(NATIVE_UID_INSIDE, NATIVE_UID_INSIDE, NATIVE_UID_INSIDE) != 0)
		return err_sys(
		    err, ERR_UNAVAILABLE, errno, "sandbox: user id %d", NATIVE_UID_INSIDE);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: parent death signal");
	return native_reset(err);
}

static int
network_make(struct native_child *c, struct err *err)
{
	int fds[SANDBOX_TARGETS_MAX], rc;

	if (sethostname("sandbox", 7) != 0 || setdomainname("", 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: host name");
	if ((rc = native_net_up(c->spec, fds, err)) != 0)
		return rc;
	rc = wire_send(c->wire, WIRE_LISTENERS, NULL, fds, c->spec->ntargets, err);
	/* Not kept inside: the broker alone accepts. */
	for (size_t i = 0; i < c->spec->ntargets; i++)
		(void)close(fds[i]);
	return rc;
}

static int
root_make(struct native_child *c, struct err *err)
{
	int rc;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return native_missing(err, errno, "a private mount namespace", "unexpected");
	if (!c->root && (rc = native_view_open(c->view, 0, err)) != 0)
		return rc;
	return native_root_enter(c->spec, c->view, err);
}

static int
filter_take(struct native_child *c, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;

	if (wire_recv(c->wire, WIRE_SEND_MS, WIRE_INSIDE_MAX, &m, err) != 0)
		return err->code;
	if (m.type != WIRE_FILTER)
		return err_set(err, ERR_PROTOCOL, "sandbox: child got no filter");
	return native_filter_decode(buf_str(&m.body), &c->filter, err);
}

static int
lock_down(struct native_child *c, struct err *err)
{
	int abi = 0, rc;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* The caller's standard error may be a terminal: nothing of it goes inside. */
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: /dev/null");
	if (dup3(c->wire, 250, O_CLOEXEC) < 0 || dup3(c->exe_fd, 251, O_CLOEXEC) < 0 ||
	    dup2(250, WIRE_FD) < 0 || dup3(251, NATIVE_EXE_FD, O_CLOEXEC) < 0 ||
	    close_range(NATIVE_EXE_FD + 1, ~0u, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: descriptors");
	c->wire = WIRE_FD;
	c->exe_fd = NATIVE_EXE_FD;
	if ((rc = native_caps_drop(err)) != 0 ||
	    (rc = native_landlock(NATIVE_EXE_FD, &abi, err)) != 0)
		return rc;
	return native_filter_load(&c->filter, err);
}

static int
signals_reset(struct native_child *c UNUSED, struct err *err)
{
	/* Not sigaction(3): it passes over two signals of its own, which posix_spawn leaves
	 * ignored. */
	static const unsigned long dfl[8];
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		(void)syscall(SYS_rt_sigaction, s, dfl, NULL, 8);
	(void)sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: signal mask");
	return 0;
}

_Noreturn void
native_child_main(struct native_child *c)
{
	static int (*const steps[])(struct native_child *, struct err *) = {
	    go_wait, identity_take, network_make, root_make, signals_reset, filter_take, lock_down};
	char name[] = "init", *argv[] = {name, NULL}, *envp[] = {NULL};
	struct err e = {0};

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (steps[i](c, &e) != 0) {
			wire_send_error(c->wire, &e);
			_exit(1);
		}
	(void)syscall(SYS_execveat, NATIVE_EXE_FD, "", argv, envp, AT_EMPTY_PATH);
	(void)err_sys(&e, ERR_UNAVAILABLE, errno, "sandbox: start of pid 1");
	wire_send_error(c->wire, &e);
	_exit(1);
}
