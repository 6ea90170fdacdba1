/*
 * The child gives up everything it has: capabilities, other file rights (Landlock, a second
 * wall behind the mounts), inherited process state. Runs inside the new namespaces, just
 * before pid 1 is executed; each call that fails ends the start, none is passed over.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/banned.h"

/* Numbers of the kernel's interface that older headers lack. */
#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_REFER (1ULL << 13)
#define FS_TRUNCATE (1ULL << 14)
#define FS_IOCTL_DEV (1ULL << 15)
#define FS_ABI1 ((1ULL << 13) - 1)
#define FS_MAKE_DEVICES (1ULL << 6 | 1ULL << 11)
#define SCOPES (1ULL << 0 | 1ULL << 1) /* abstract unix sockets, signals */

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

static int
rule_add(int set, int fd, uint64_t access, struct err *err)
{
	struct landlock_path_beneath_attr a = {.allowed_access = access, .parent_fd = fd};

	if (syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &a, 0) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: Landlock rule");
	return 0;
}

static int
rule_path(int set, const char *path, uint64_t access, struct err *err)
{
	AUTO_FD int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: Landlock rule for %s", path);
	return rule_add(set, fd, access, err);
}

int
native_landlock(int exe_fd, int *ret_abi, struct err *err)
{
	static const char *const rw[] = {"/work", "/tmp", "/dev/shm"};
	struct ruleset_attr a = {0};
	const uint64_t look = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	AUTO_FD int set = -1;
	size_t size = abi < 4 ? 8 : abi < 6 ? 16 : 24;
	int rc;

	if (abi < 1)
		return native_missing(err, errno, "Landlock",
		    "boot with landlock in the list of the kernel parameter lsm= (Linux 5.13 or "
		    "later)");
	a.fs = FS_ABI1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) |
	       (abi >= 5 ? FS_IOCTL_DEV : 0);
	a.scoped = abi >= 6 ? SCOPES : 0;
	set = (int)syscall(SYS_landlock_create_ruleset, &a, size, 0);
	if (set < 0)
		return native_missing(err, errno, "Landlock", "unexpected answer of the kernel");
	if ((rc = rule_path(set, "/", look, err)) != 0 ||
	    (rc = rule_add(set, exe_fd, FS_EXECUTE | FS_READ_FILE, err)) != 0 ||
	    (rc = rule_path(
		 set, "/dev", (FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV) & a.fs, err)) != 0)
		return rc;
	for (size_t i = 0; i < ARRAY_LEN(rw); i++)
		if ((rc = rule_path(set, rw[i], a.fs & ~(FS_MAKE_DEVICES | FS_IOCTL_DEV), err)) !=
		    0)
			return rc;
	if (syscall(SYS_landlock_restrict_self, set, 0) != 0)
		return native_missing(err, errno, "Landlock", "unexpected answer of the kernel");
	*ret_abi = (int)abi;
	return 0;
}

int
native_caps_drop(struct err *err)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return native_missing(err, errno, "no_new_privs", "the kernel is too old");
	for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0)
			return native_missing(err, errno, "an empty bounding set", "unexpected");
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) != 0 ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
	    syscall(SYS_capset, &h, none) != 0)
		return native_missing(err, errno, "an empty capability set", "unexpected");
	return 0;
}

static int
rlimits_set(struct err *err)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t v;
	} rows[] = {{RLIMIT_CORE, 0}, {RLIMIT_NOFILE, 8192}, {RLIMIT_MSGQUEUE, 0},
	    {RLIMIT_MEMLOCK, 64 << 10}, {RLIMIT_NICE, 0}, {RLIMIT_RTPRIO, 0},
	    {RLIMIT_SIGPENDING, 1024}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rlimit now, want = {.rlim_cur = rows[i].v, .rlim_max = rows[i].v};

		/* A lower hard limit that the caller has stays. */
		if (getrlimit(rows[i].what, &now) == 0 && now.rlim_max < want.rlim_max)
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
	(void)umask(022);
	(void)setpriority(
	    PRIO_PROCESS, 0, 0); /* raising is not ours to ask for; lowering is undone */
	(void)prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0);
	if (setsid() < 0 && errno != EPERM)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: own session");
	/* The caller's session keyring would be searched; the call itself is filtered later. */
	if (syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL) < 0 && errno != ENOSYS)
		return native_missing(err, errno, "an own session keyring",
		    "the user's key quota may be used up (/proc/key-users)");
	return rlimits_set(err);
}
