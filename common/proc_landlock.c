/*
 * Landlock: everything the running kernel can be told to deny is denied, then single
 * directories are opened again. Runs in each process that holds or parses something that
 * matters. Rights the kernel is too old to handle stay open, and seccomp stands behind;
 * a kernel without Landlock is refused by name. Structures are our own: the build machine's
 * headers may be older than the kernel below.
 */
#include "common/proc.h"

#include <errno.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/banned.h"

struct ruleset {
	uint64_t fs, net, scoped;
};

/* Rights by the first ABI that knows them (kernel Documentation/userspace-api/landlock.rst). */
#define FS_ABI1 ((UINT64_C(1) << 13) - 1) /* EXECUTE ... MAKE_SYM */
#define FS_REFER (UINT64_C(1) << 13)	  /* 2 */
#define FS_TRUNCATE (UINT64_C(1) << 14)	  /* 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15)  /* 5 */
#define NET_BIND_TCP (UINT64_C(1) << 0)	  /* 4 */
#define NET_CONNECT_TCP (UINT64_C(1) << 1)
#define SCOPE_ABSTRACT (UINT64_C(1) << 0) /* 6 */
#define SCOPE_SIGNAL (UINT64_C(1) << 1)

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_WRITE                                                                    \
	(FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	    LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |           \
	    LANDLOCK_ACCESS_FS_MAKE_DIR | FS_REFER | FS_TRUNCATE)

static struct ruleset
handled(long abi, bool tcp_connect)
{
	struct ruleset r = {.fs = FS_ABI1};

	if (abi >= 2)
		r.fs |= FS_REFER;
	if (abi >= 3)
		r.fs |= FS_TRUNCATE;
	if (abi >= 4)
		r.net = NET_BIND_TCP | (tcp_connect ? 0 : NET_CONNECT_TCP);
	if (abi >= 5)
		r.fs |= FS_IOCTL_DEV;
	if (abi >= 6)
		r.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
	return r;
}

static long
abi_version(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

int
proc_landlock_open(bool tcp_connect, int *ret_fd, struct err *err)
{
	long abi = abi_version();
	struct ruleset r;
	size_t size = sizeof(r);
	int fd;

	if (abi < 1)
		return err_sys(err, ERR_UNSUPPORTED, errno,
		    "this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, and \"landlock\" in "
		    "lsm=)");
	r = handled(abi, tcp_connect);
	if (abi < 6)
		size = abi < 4 ? sizeof(r.fs) : sizeof(r.fs) + sizeof(r.net);
	fd = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "Landlock rule set (ABI %ld)", abi);
	*ret_fd = fd;
	return 0;
}

int
proc_landlock_allow(int ruleset, int dirfd, bool write, struct err *err)
{
	struct landlock_path_beneath_attr a = {.parent_fd = dirfd};

	/* Only rights that the set handles may be named. */
	a.allowed_access = (write ? FS_WRITE : FS_READ) & handled(abi_version(), false).fs;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "Landlock rule for descriptor %d", dirfd);
	return 0;
}

int
proc_landlock_enforce(int ruleset, struct err *err)
{
	/* Without it an unprivileged process may not restrict itself. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "PR_SET_NO_NEW_PRIVS");
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "Landlock");
	return 0;
}

int
proc_landlock(const struct proc_landlock_rule *rules, size_t n, struct err *err)
{
	AUTO_FD int fd = -1;
	int rc = proc_landlock_open(false, &fd, err);

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = proc_landlock_allow(fd, rules[i].dirfd, rules[i].write, err);
	return rc != 0 ? rc : proc_landlock_enforce(fd, err);
}
