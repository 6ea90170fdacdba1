/*
 * What every process of ours does to itself before it serves: own uid, no new
 * privileges, nothing for a debugger or a core dump. Runs once, before Landlock and seccomp.
 * Trusts nothing of what the calls return: the ids are read back.
 */
#include "common/proc.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/banned.h"

int
proc_harden(struct err *err)
{
	struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_CORE, &none) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "RLIMIT_CORE 0");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "PR_SET_DUMPABLE 0");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "PR_SET_NO_NEW_PRIVS");
	return 0;
}

static int
ids_check(uid_t uid, gid_t gid, struct err *err)
{
	uid_t r, e, s;
	gid_t gr, ge, gs;

	if (getresuid(&r, &e, &s) != 0 || getresgid(&gr, &ge, &gs) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "reading the ids back");
	if (r != uid || e != uid || s != uid || gr != gid || ge != gid || gs != gid)
		return err_set(err, ERR_SYSTEM, "ids are %u:%u, must be %u:%u", e, ge, uid, gid);
	if (getgroups(0, NULL) != 0)
		return err_set(err, ERR_SYSTEM, "supplementary groups are left");
	if (setresuid(0, 0, 0) == 0)
		return err_set(err, ERR_SYSTEM, "uid 0 could be taken back");
	return 0;
}

int
proc_become(uid_t uid, gid_t gid, struct err *err)
{
	int rc;

	if (uid == 0 || gid == 0)
		return err_set(err, ERR_INVALID, "a child must not run as uid 0 or gid 0");
	if (setgroups(0, NULL) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "dropping supplementary groups");
	if (setresgid(gid, gid, gid) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "becoming gid %u", gid);
	if (setresuid(uid, uid, uid) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "becoming uid %u", uid);
	rc = ids_check(uid, gid, err);
	if (rc != 0)
		return rc;
	/* The kernel forgets it when the uid changes. A parent gone meanwhile closes the wire. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "PR_SET_PDEATHSIG");
	return 0;
}

int
proc_drop_caps(struct err *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	if (syscall(SYS_capset, &head, none) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "dropping capabilities");
	return 0;
}
