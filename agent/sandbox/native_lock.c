/*
 * The child gives up everything it has: capabilities, other file rights (Landlock, a second
 * wall behind the mounts), inherited process state. Runs inside the new namespaces, just
 * before pid 1 is executed; each call that fails ends the start, none is passed over.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

int
native_caps_drop(struct err *err)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	if (native_layer_off("caps"))
		return 0;
	/* Up to the first that the kernel does not know. */
	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) {
			if (errno == EINVAL && cap > CAP_BLOCK_SUSPEND)
				break;
			return native_missing(err, errno, "an empty bounding set", "unexpected");
		}
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) != 0 ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
	    syscall(SYS_capset, &h, none) != 0)
		return native_missing(err, errno, "an empty capability set", "unexpected");
	return 0;
}

static int
rlimits_set(struct err *err)
{
	const struct {
		__rlimit_resource_t what;
		rlim_t v;
	} rows[] = {{RLIMIT_CORE, 0}, {RLIMIT_MSGQUEUE, 0}, {RLIMIT_MEMLOCK, 64 << 10},
	    {RLIMIT_NICE, 0}, {RLIMIT_RTPRIO, 0}, {RLIMIT_SIGPENDING, 1024}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rlimit now, want = {.rlim_cur = rows[i].v, .rlim_max = rows[i].v};
		long rc = RAW(SYS_prlimit64, 0, rows[i].what, &want, NULL);

		if (rc == 0)
			continue;
		/* A lower hard limit that the caller has stays. */
		if (rc != -EPERM || getrlimit(rows[i].what, &now) != 0 ||
		    now.rlim_max >= want.rlim_max)
			return err_sys(err, ERR_UNAVAILABLE, (int)-rc, "sandbox: resource limit %u",
			    (unsigned)rows[i].what);
		want.rlim_cur = want.rlim_max = now.rlim_max;
		if (setrlimit(rows[i].what, &want) != 0)
			return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: resource limit %u",
			    (unsigned)rows[i].what);
	}
	return 0;
}

int
native_reset(struct err *err)
{
	long rc;

	(void)umask(022);
	/* Raising is not ours to ask for; lowering is undone. */
	(void)setpriority(PRIO_PROCESS, 0, 0);
	/* The kernel's own; 0 would be that of the caller. */
	(void)prctl(PR_SET_TIMERSLACK, 50000, 0, 0, 0);
	if ((rc = RAW(SYS_setsid)) < 0 && rc != -EPERM)
		return err_sys(err, ERR_UNAVAILABLE, (int)-rc, "sandbox: own session");
	/* The caller's session keyring would be searched; the call itself is filtered later. */
	if ((rc = RAW(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL)) < 0 && rc != -ENOSYS)
		return native_missing(err, (int)-rc, "an own session keyring",
		    "the user's key quota may be used up (/proc/key-users)");
	return rlimits_set(err);
}
