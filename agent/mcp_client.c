/*
 * A client of cofferdam-mcp and what its calls become. Runs in the hub; never waits, and believes
 * neither the client nor what a job says came out of a sandbox.
 */
#include "agent/mcp_client.h"

#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

static void
execution_status(struct mcp_client *c, const struct mcp_args *a, struct mcp_call *call)
{
	struct mcp_work *w = mcp_work_find(c, a->execution);

	if (w == NULL) {
		mcp_call_failed(
		    call, "there is no execution of that id, or its end was told already");
		return;
	}
	if (w->call != NULL) {
		mcp_call_failed(call, "another call waits for that execution");
		return;
	}
	if (a->stop)
		mcp_work_stop(w);
	mcp_work_wait(w, call);
}

static void
on_call(struct mcp_call *call, const struct mcp_tool *t, const struct json *arguments)
{
	struct mcp_client *c = mcp_session_owner(call->s);
	enum mcp_tool_id id = mcp_tools_id(t);
	struct mcp_args args;
	struct err e = {0};

	if (mcp_tools_args(id, arguments, &args, &e) != 0)
		mcp_call_failed(call, e.msg);
	else if (id == MCP_EXECUTION_STATUS)
		execution_status(c, &args, call);
	else if (id == MCP_END && c->state == MCP_RUN_NONE)
		mcp_call_structured(call, STR("{\"state\":\"none\"}"), false);
	else if (c->nlive >= MCP_WORKS_MAX)
		mcp_call_failed(call,
		    "16 executions go on, the limit: ask execution_status, or stop one with it");
	else
		mcp_work_new(c, id, &args, call);
}

static void
on_cancel(struct mcp_call *call)
{
	struct mcp_work *w = call->work;

	if (w == NULL)
		return;
	(void)mcp_work_leave(w);
	mcp_work_stop(w);
}

const struct mcp_server mcp_client_server = {
    .name = "cofferdam",
    .title = "Cofferdam",
    .version = "0.1.0",
    .instructions = mcp_tools_instructions,
    .legacy = "{\"tools\":{}}",
    .modern = "{\"tools\":{}}",
    .ntools = MCP_TOOLS,
    .call = on_call,
    .cancel = on_cancel,
};

struct mcp_client *
mcp_client_new(
    struct loop *loop, const struct mcp_config *config, const struct mcp_out *out, const char *who)
{
	static struct mcp_server server;
	struct mcp_client *c = xcalloc(1, sizeof(*c));

	server = mcp_client_server;
	server.tools = mcp_tools();
	*c = (struct mcp_client){.loop = loop, .config = config, .life = -1, .who = xstrdup(who)};
	TAILQ_INIT(&c->works);
	c->session = mcp_session_new(&server, out, c);
	return c;
}

void
mcp_client_free(struct mcp_client *c, const char *said)
{
	if (c == NULL)
		return;
	mcp_session_free(c->session);
	mcp_client_run_end(c, said);
	while (!TAILQ_EMPTY(&c->works))
		mcp_work_free(TAILQ_FIRST(&c->works));
	for (size_t i = 0; i < c->ncontexts; i++) {
		free(c->contexts[i].language);
		free(c->contexts[i].name);
	}
	free(c->why);
	free(c->who);
	free(c);
}

bool
mcp_client_idle(const struct mcp_client *c)
{
	return c->nlive == 0;
}
