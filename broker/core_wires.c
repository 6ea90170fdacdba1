/*
 * The wires of core as they come and go (process: core). The parent makes each; a new one replaces
 * the old. What was in flight on one that goes is refused by whoever waits for it.
 */
#include "broker/core_boot.h"

#include <stdlib.h>
#include <unistd.h>

#include "broker/core_console.h"
#include "broker/core_facts.h"
#include "broker/core_http.h"
#include "broker/core_live.h"
#include "broker/core_pg.h"
#include "broker/core_record.h"
#include "broker/core_run.h"
#include "broker/core_table.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

static void
wire_free(struct core_peer **p)
{
	if (*p == NULL)
		return;
	ipc_free((*p)->wire);
	free(*p);
	*p = NULL;
}

void
core_wires_free(struct core *c)
{
	wire_free(&c->front);
	wire_free(&c->upstream);
	wire_free(&c->writer);
	wire_free(&c->console);
}

static void
front_down(struct core *c)
{
	core_run_front_gone(c);
	core_pg_front_gone(c);
	core_http_front_gone(c);
}

static void
upstream_down(struct core *c)
{
	core_pg_upstream_gone(c);
	core_http_upstream_gone(c);
}

static void
writer_down(struct core *c)
{
	c->live = false;
	core_record_writer_gone(c);
}

static const struct wire {
	enum ipc_role role;
	enum core_state state;
	void (*up)(struct core *c);
	void (*down)(struct core *c); /* the pointer in struct core is NULL already */
} wires[] = {
    {IPC_ROLE_FRONT, CORE_S_OPEN, core_run_front_up, front_down},
    {IPC_ROLE_UPSTREAM, CORE_S_OPEN, NULL, upstream_down},
    {IPC_ROLE_WRITER, CORE_S_REPLAY, core_live_begin, writer_down},
    {IPC_ROLE_CONSOLE, CORE_S_OPEN, NULL, core_console_gone},
};

static struct core_peer **
slot(struct core *c, enum ipc_role role)
{
	return role == IPC_ROLE_FRONT	   ? &c->front
	       : role == IPC_ROLE_UPSTREAM ? &c->upstream
	       : role == IPC_ROLE_WRITER   ? &c->writer
					   : &c->console;
}

static void
wire_down(struct core *c, const struct wire *x)
{
	struct core_peer **p = slot(c, x->role);

	if (*p == NULL)
		return;
	wire_free(p);
	x->down(c);
}

static void
wire_gone(void *arg, struct ipc *w, const char *why)
{
	struct core_peer *p = arg;
	struct core *c = p->core;
	enum ipc_role role = p->role;

	(void)w;
	log_warn("the wire to %s is gone (%s): what was in flight there is refused",
	    ipc_role_name(role), why);
	for (size_t i = 0; i < ARRAY_LEN(wires); i++)
		if (wires[i].role == role)
			wire_down(c, &wires[i]);
}

static void
parser_gone(void *arg, struct ipc *w, const char *why)
{
	struct core_peer *p = arg;

	(void)w;
	log_warn("parser of run %s: %s", p->run->id, why);
	core_run_parser_gone(p->run);
}

static void
parser_up(struct core *c, struct str id, int fd)
{
	struct core_run *run = core_run_find(c, id);
	struct core_peer *p;

	if (run == NULL || run->state != CORE_RUN_LIVE) {
		(void)close(fd); /* it ended meanwhile */
		return;
	}
	core_run_parser_gone(run);
	p = xcalloc(1, sizeof(*p));
	*p = (struct core_peer){
	    .core = c, .role = IPC_ROLE_PARSER, .state = CORE_S_OPEN, .run = run};
	p->wire = ipc_new(
	    c->loop, fd, IPC_ROLE_CORE, IPC_ROLE_PARSER, core_table_dispatch, parser_gone, p);
	run->parser = p;
	core_facts_parser_up(run);
}

int
core_boot_wire(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err)
{
	struct core *c = arg;
	struct core_peer *p;

	if (peer == IPC_ROLE_PARSER) {
		parser_up(c, run, fd);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(wires); i++) {
		if (wires[i].role != peer)
			continue;
		wire_down(c, &wires[i]);
		p = xcalloc(1, sizeof(*p));
		*p = (struct core_peer){.core = c, .role = peer, .state = wires[i].state};
		p->wire =
		    ipc_new(c->loop, fd, IPC_ROLE_CORE, peer, core_table_dispatch, wire_gone, p);
		*slot(c, peer) = p;
		/* Records of one turn go together, and share a sync. */
		ipc_lazy(p->wire, peer == IPC_ROLE_WRITER);
		if (wires[i].up != NULL)
			wires[i].up(c);
		return 0;
	}
	(void)close(fd);
	return err_set(err, ERR_PROTOCOL, "core has no wire to %s", ipc_role_name(peer));
}
