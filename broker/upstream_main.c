/*
 * cofferdam-upstream: connects to servers for the broker. It gets a credential with each
 * connection to open and forgets it when the server has taken it; it obeys core's leases and
 * must never decide, nor send a byte of a client that core did not lease.
 */
#include "broker/upstream.h"

#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

#define HOSTS_FILE "/etc/hosts"

struct upstream_main {
	struct loop *loop;
	struct resolver *resolver;
	struct upstream_hub *hub;
	int writer; /* held open; this protocol has no bodies whose frames would go there */
};

static const char *const syscalls[] = {
    "socket", "connect", "setsockopt", "getsockname", "getpeername", NULL};

static int
go(void *arg, struct err *err)
{
	struct upstream_main *m = arg;
	int rc = tlsio_prepare(err);

	if (rc == 0)
		rc = resolver_new(m->loop, HOSTS_FILE, &m->resolver, err);
	if (rc == 0)
		m->hub = upstream_hub_new(m->loop, m->resolver);
	return rc;
}

static int
wire(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err)
{
	struct upstream_main *m = arg;

	(void)run;
	if (peer == IPC_ROLE_WRITER) {
		cleanup_close_fd(&m->writer);
		m->writer = fd;
		return 0;
	}
	return upstream_hub_wire(m->hub, peer, fd, err);
}

int
main(void)
{
	struct upstream_main m = {.loop = loop_new(), .writer = -1};
	const struct proc_ops ops = {.self = IPC_ROLE_UPSTREAM,
	    .name = "upstream",
	    .go = go,
	    .wire = wire,
	    .syscalls = syscalls};
	int rc = proc_main(&ops, m.loop, &m);

	cleanup_close_fd(&m.writer);
	upstream_hub_free(m.hub);
	resolver_free(m.resolver);
	loop_free(m.loop);
	return rc;
}
