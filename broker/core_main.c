/*
 * cofferdam-core: runs, decisions, approvals, credentials, the run CA. It judges what others
 * parsed and lets others send what it judged. It has no network at all, and no file once
 * confined but the blob keys' directory.
 */
#include "broker/core.h"
#include "common/proc.h"

#include "common/banned.h"

/* adjtimex(2), to read: is the clock synchronised? Newer C libraries call it clock_adjtime. Setting
 * takes a capability that core does not have. */
static const char *const syscalls[] = {
    "accept4", "openat", "fsync", "unlinkat", "adjtimex", "clock_adjtime", "memfd_create", NULL};

int
main(void)
{
	static const struct proc_ops ops = {
	    .self = IPC_ROLE_CORE,
	    .name = "core",
	    .config = core_boot_config,
	    .fd = core_boot_fd,
	    .wire = core_boot_wire,
	    .go = core_boot_go,
	    .serve = core_boot_serve,
	    .parent_msg = core_boot_parent_msg,
	    .stop = core_boot_stop,
	    .syscalls = syscalls,
	};
	struct loop *loop = loop_new();
	struct core *core = core_new(loop);
	int rc = proc_main(&ops, loop, core);

	core_free(core);
	loop_free(loop);
	return rc;
}
