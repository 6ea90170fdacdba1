/*
 * cofferdam-upstream: connects to servers for the broker. It gets a credential with each
 * connection to open and forgets it when the server has taken it; it obeys core's leases and
 * must never decide, nor send a byte of a client that core did not lease.
 */
#include "broker/upstream.h"

#include <string.h>

#include "broker/upstream_http.h"
#include "broker/upstream_rerun.h"
#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

#define HOSTS_FILE "/etc/hosts"

struct upstream_main {
	struct loop *loop;
	struct resolver *resolver;
	struct upstream_hub *hub;
	struct upstream_http *http;
	struct upstream_dirs dirs;
};

static int
go(void *arg, struct err *err)
{
	struct upstream_main *m = arg;
	int rc = tlsio_prepare(err);

	if (rc == 0)
		rc = resolver_new(m->loop, HOSTS_FILE, &m->resolver, err);
	if (rc != 0)
		return rc;
	m->hub = upstream_hub_new(m->loop, m->resolver);
	rc = upstream_http_new(m->hub, UPSTREAM_CA_FILE, &m->http, err);
	if (rc == 0)
		upstream_http_dirs(m->http, &m->dirs);
	return rc;
}

/* "reference:NAME", a directory. */
static int
fd(void *arg, struct str name, int fd, struct err *err)
{
	struct upstream_main *m = arg;
	AUTO_FD int dir = fd;
	struct str rest = name, kind;

	if (!str_cut(&rest, ':', &kind) || !str_eqz(kind, "reference") || rest.n == 0 ||
	    rest.n > UPSTREAM_DIR_NAME_MAX || m->dirs.n == UPSTREAM_DIRS_MAX)
		return err_set(err, ERR_PROTOCOL, "no descriptor of this program's");
	memcpy(m->dirs.v[m->dirs.n].name, rest.p, rest.n);
	m->dirs.v[m->dirs.n++].fd = TAKE_FD(dir);
	return 0;
}

static int
wire(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err)
{
	struct upstream_main *m = arg;

	(void)run;
	if (peer == IPC_ROLE_WRITER) {
		upstream_http_writer(m->http, fd);
		return 0;
	}
	return upstream_hub_wire(m->hub, peer, fd, err);
}

int
main(int argc, char **argv)
{
	struct upstream_main m = {.loop = loop_new()};
	const struct proc_ops ops = {.self = IPC_ROLE_UPSTREAM,
	    .name = "upstream",
	    .fd = fd,
	    .go = go,
	    .dirs_read_only = true,
	    .wire = wire,
	    .syscalls = upstream_syscalls};
	int rc;

	if (argc == 1 && strcmp(argv[0], RERUN_PROGRAM) == 0) {
		loop_free(m.loop);
		return rerun_main();
	}
	rc = proc_main(&ops, m.loop, &m);

	upstream_http_free(m.http);
	upstream_hub_free(m.hub);
	resolver_free(m.resolver);
	loop_free(m.loop);
	return rc;
}
