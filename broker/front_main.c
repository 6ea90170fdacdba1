/*
 * cofferdam-front: reads all bytes that agents send. It has no credential, no vault, cannot
 * connect and opens no file; a mistake in here reaches core as a well-formed message at worst,
 * and core judges it.
 */
#include <sys/resource.h>

#include <errno.h>

#include "broker/front.h"

#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

struct front_main {
	struct loop *loop;
	struct front_hub *hub;
};

static const char *const syscalls[] = {"accept4", "setsockopt", "memfd_create", NULL};

static int
go(void *arg, struct err *err)
{
	struct front_main *m = arg;
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "RLIMIT_NOFILE");
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "RLIMIT_NOFILE");
	m->hub = front_hub_new(m->loop);
	return tlsio_prepare(err);
}

static int
wire(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err)
{
	struct front_main *m = arg;

	(void)run;
	return front_hub_wire(m->hub, peer, fd, err);
}

int
main(void)
{
	struct front_main m = {.loop = loop_new()};
	const struct proc_ops ops = {
	    .self = IPC_ROLE_FRONT, .name = "front", .go = go, .wire = wire, .syscalls = syscalls};
	int rc = proc_main(&ops, m.loop, &m);

	front_hub_free(m.hub);
	loop_free(m.loop);
	return rc;
}
