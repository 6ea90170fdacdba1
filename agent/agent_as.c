/*
 * Whose run it is, is who connects: the kernel notes the user of a unix socket when it is connected
 * (unix(7), SO_PEERCRED). A server of root's that knows its clients by key begins each one's runs
 * as that user, so that the broker's proof of the owner stays the kernel's. Runs in a keeper, which
 * has one thread; if it could not become root again it ends.
 */
#include "agent/agent_as.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "common/ipc.h"
#include "common/log.h"

#include "common/banned.h"

#define GROUPS_MAX 256

struct own {
	gid_t groups[GROUPS_MAX];
	int n;
	gid_t gid;
};

static int
become(uint32_t uid, struct own *own, struct err *err)
{
	gid_t groups[GROUPS_MAX];
	int n = GROUPS_MAX;
	const struct passwd *pw;

	errno = 0;
	if ((pw = getpwuid(uid)) == NULL)
		return err_set(err, ERR_NOT_FOUND, "user %u: there is none here", uid);
	own->gid = getegid();
	own->n = getgroups(GROUPS_MAX, own->groups);
	if (own->n < 0 || getgrouplist(pw->pw_name, pw->pw_gid, groups, &n) < 0)
		return err_set(
		    err, ERR_TOO_LARGE, "user %s: more than %d groups", pw->pw_name, GROUPS_MAX);
	if (setgroups((size_t)n, groups) != 0 || setegid(pw->pw_gid) != 0 || seteuid(uid) != 0)
		return err_sys(err, ERR_DENIED, errno, "to become user %s", pw->pw_name);
	return 0;
}

static void
become_root(const struct own *own)
{
	if (seteuid(0) == 0 && setegid(own->gid) == 0 &&
	    setgroups((size_t)own->n, own->groups) == 0)
		return;
	log_error("to become root again: %s", strerror(errno));
	_exit(1);
}

int
agent_as_connect(const char *path, const uint32_t *as, int *ret_fd, struct err *err)
{
	struct own own = {0};
	int rc;

	if (as == NULL || *as == geteuid())
		return ipc_connect(path, ret_fd, err);
	if (geteuid() != 0)
		return err_set(err, ERR_DENIED,
		    "a run of user %u is for root to begin, this is user %u", *as,
		    (unsigned)geteuid());
	if ((rc = become(*as, &own, err)) == 0)
		rc = ipc_connect(path, ret_fd, err);
	if (own.n >= 0)
		become_root(&own);
	return rc;
}
