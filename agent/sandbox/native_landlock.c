/*
 * File rights of everything inside, by Landlock: a second wall behind the mounts, which holds by
 * the files themselves and not by where they are mounted. Runs in the child, in its new root, just
 * before pid 1 is executed.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
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
#define FS_LOOK (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
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

static int
rules_add(int set, uint64_t all, const int *exe, size_t nexe, struct err *err)
{
	const uint64_t rw = all & ~(FS_MAKE_DEVICES | FS_IOCTL_DEV);
	const struct {
		const char *path;
		uint64_t access;
	} rows[] = {{"/", FS_LOOK}, {"/dev", (FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV) & all},
	    {"/proc", (FS_WRITE_FILE | FS_TRUNCATE) & all}, {"/work", rw}, {"/tmp", rw},
	    {"/dev/shm", rw}};
	int rc = 0;

#ifdef SANDBOX_TEST_LAYERS
	if (native_layer_off("mounts"))
		rc = native_layer_rules(set, FS_LOOK, err);
#endif
	for (size_t i = native_layer_off("mounts") ? 1 : 0; rc == 0 && i < ARRAY_LEN(rows); i++)
		rc = rule_path(set, rows[i].path, rows[i].access, err);
	for (size_t i = 0; rc == 0 && i < nexe; i++)
		if (exe[i] >= 0)
			rc = rule_add(set, exe[i], FS_EXECUTE | FS_READ_FILE, err);
	return rc;
}

int
native_landlock(const int *exe, size_t nexe, bool may_lack, int *ret_abi, struct err *err)
{
	struct ruleset_attr a = {0};
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	AUTO_FD int set = -1;
	size_t size = abi < 4 ? 8 : abi < 6 ? 16 : 24;
	int rc;

	*ret_abi = 0;
	if (abi < 1 && may_lack)
		return 0;
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
	if ((rc = rules_add(set, a.fs, exe, nexe, err)) != 0)
		return rc;
	if (syscall(SYS_landlock_restrict_self, set, 0) != 0)
		return native_missing(err, errno, "Landlock", "unexpected answer of the kernel");
	*ret_abi = (int)abi;
	return 0;
}
