/*
 * cofferdam-courier: tells people. It reads sealed, public records from the writer as they become
 * durable and carries what an operator chose out of the machine. It has no wire to core, no key of
 * the log, no credential and no content: it can neither change nor open what it tells of, and
 * whoever takes it over can keep silent, or lie to those it tells.
 */
#include "broker/courier.h"

#include <stdlib.h>

#include "common/log.h"
#include "common/proc.h"
#include "common/xalloc.h"

#include "common/banned.h"

static int
on_config(void *arg, const struct json *config, struct err *err)
{
	return courier_config(arg, config, err);
}

static int
on_fd(void *arg, struct str name, int fd, struct err *err)
{
	return courier_fd(arg, name, fd, err);
}

static int
on_go(void *arg, struct err *err)
{
	return courier_go(arg, err);
}

static int
on_wire(void *arg, enum ipc_role peer, struct str run UNUSED, int fd, struct err *err)
{
	struct courier *c = arg;
	int rc = peer == IPC_ROLE_WRITER
		     ? 0
		     : err_set(err, ERR_PROTOCOL, "no wire to %s", ipc_role_name(peer));

	/* Once confined: what lies in there may be of a courier that was taken over. */
	if (rc == 0 && !c->loaded)
		rc = courier_load(c, err);
	if (rc != 0) {
		(void)close(fd);
		return rc;
	}
	courier_wire(c, fd);
	return 0;
}

static void
on_stop(void *arg)
{
	courier_stop(arg);
}

int
main(void)
{
	struct courier *c = xcalloc(1, sizeof(*c));
	const struct proc_ops ops = {.self = IPC_ROLE_COURIER,
	    .name = "courier",
	    .config = on_config,
	    .fd = on_fd,
	    .go = on_go,
	    .wire = on_wire,
	    .stop = on_stop,
	    .syscalls = courier_syscalls};
	struct loop *loop = loop_new();
	int rc;

	c->loop = loop;
	c->dir = -1;
	rc = proc_main(&ops, loop, c);
	courier_free(c);
	free(c);
	loop_free(loop);
	return rc;
}
