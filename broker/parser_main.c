/*
 * cofferdam-parser: turns a SQL text, a GraphQL request or a form into facts, for core. One per
 * run, killed with it. It trusts the parent; the text is the agent's. It holds no descriptor but
 * its wires and the body in question, reaches no file, no network and no other process, and what
 * it answers decides nothing by itself.
 */
#include "broker/parser_ask.h"
#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

struct parser {
	struct loop *loop;
	struct ipc *core;
};

static void
core_gone(void *arg, struct ipc *w, const char *why)
{
	struct parser *p = arg;

	log_info("core is gone: %s", why);
	p->core = NULL;
	ipc_free(w);
}

static int
on_wire(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err)
{
	struct parser *p = arg;

	(void)run;
	if (peer != IPC_ROLE_CORE) {
		(void)close(fd);
		return err_set(err, ERR_PROTOCOL, "no wire to %s is expected", ipc_role_name(peer));
	}
	ipc_free(p->core);
	p->core = ipc_new(p->loop, fd, IPC_ROLE_PARSER, IPC_ROLE_CORE, parser_ask, core_gone, p);
	return 0;
}

static int
on_go(void *arg, struct err *err)
{
	(void)arg;
	return parser_limits(err);
}

int
main(void)
{
	/* mremap: realloc(3) of a large tree */
	static const char *const syscalls[] = {"mremap", "setitimer", NULL};
	static const struct proc_ops ops = {
	    .self = IPC_ROLE_PARSER,
	    .name = "parser",
	    .wire = on_wire,
	    .go = on_go,
	    .syscalls = syscalls,
	};
	struct parser p = {.loop = loop_new()};
	struct err err = {0};
	int rc;

	if (parser_limits_early(&err) != 0)
		fatal_err(&err);
	rc = proc_main(&ops, p.loop, &p);
	ipc_free(p.core);
	loop_free(p.loop);
	return rc;
}
