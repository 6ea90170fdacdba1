/*
 * Whose run it is, is who connects: the kernel notes the user of a unix socket when it is connected
 * (unix(7), SO_PEERCRED). A server of root's that knows its clients by key begins each one's runs
 * as that user, so that the broker's proof of the owner stays the kernel's. Runs in a keeper, which
 * has one thread; if it could not become root again it ends.
 */
#include "agent/agent_as.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/ipc.h"
#include "common/log.h"

#include "common/banned.h"

/* The socket may be for the broker's group alone: of root's rights the one over modes of files is
 * kept for the moment. */
static int
become(uint32_t uid, struct err *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {0};

	if (seteuid(uid) != 0)
		return err_sys(err, ERR_DENIED, errno, "to become user %u", uid);
	if (syscall(SYS_capget, &head, caps) == 0) {
		caps[0].effective = 1u << CAP_DAC_OVERRIDE;
		if (syscall(SYS_capset, &head, caps) == 0)
			return 0;
	}
	return err_sys(err, ERR_DENIED, errno, "to connect as user %u", uid);
}

static void
become_root(void)
{
	if (seteuid(0) == 0)
		return;
	log_error("to become root again: %s", strerror(errno));
	_exit(1);
}

int
agent_as_connect(const char *path, const uint32_t *as, int *ret_fd, struct err *err)
{
	int rc;

	if (as == NULL || *as == geteuid())
		return ipc_connect(path, ret_fd, err);
	if (geteuid() != 0)
		return err_set(err, ERR_DENIED,
		    "a run of user %u is for root to begin, this is user %u", *as,
		    (unsigned)geteuid());
	if ((rc = become(*as, err)) == 0)
		rc = ipc_connect(path, ret_fd, err);
	become_root();
	return rc;
}
