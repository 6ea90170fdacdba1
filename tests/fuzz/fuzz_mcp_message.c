/*
 * Messages of MCP from foreign bytes, and the whole protocol behind them: nothing that is read
 * crashes a session; what is read once can be said again; every request has at most one answer.
 */
#include <stdlib.h>

#include "agent/mcp_session.h"
#include "agent/mcp_tools.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned answers;

static void
out_send(void *exchange, struct str message)
{
	(void)exchange;
	(void)message;
}

/* What leaves must be JSON that our own strict reader takes. */
static void
out_answer(void *exchange, unsigned status, struct str message)
{
	AUTO(json) struct json_doc *d = NULL;

	(void)exchange;
	(void)status;
	if (message.n != 0 && json_parse_numbers(message, "answer", &d, NULL) != 0)
		abort();
	answers++;
}

static void
on_call(struct mcp_call *c, const struct mcp_tool *t, const struct json *arguments)
{
	struct mcp_args args;
	struct err e = {0};

	if (mcp_tools_args(mcp_tools_id(t), arguments, &args, &e) != 0) {
		mcp_call_failed(c, e.msg);
		return;
	}
	mcp_call_progress(c, 1, 0, "line");
	mcp_call_structured(c, STR("{}"), false);
}

static struct str
param(const void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return STR("");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct mcp_out out = {.send = out_send, .answer = out_answer};
	static const struct mcp_http http = {.version = {"2026-07-28", 10}, .param = param};
	struct mcp_server server = {.name = "f",
	    .title = "f",
	    .version = "1",
	    .legacy = "{}",
	    .modern = "{}",
	    .tools = mcp_tools(),
	    .ntools = MCP_TOOLS,
	    .call = on_call};
	struct mcp_session *s = mcp_session_new(&server, &out, NULL);
	struct str rest = str_mem(data, size), line;
	int exchange;

	/* A line is a message; as over stdio, then as over HTTP. */
	while (rest.n != 0) {
		if (!str_cut(&rest, '\n', &line)) {
			line = rest;
			rest = STR("");
		}
		answers = 0;
		mcp_session_take(s, line, NULL, &exchange);
		mcp_session_take(s, line, &http, &exchange);
		if (answers != 2)
			abort();
	}
	mcp_session_gone(s, &exchange);
	mcp_session_free(s);
	return 0;
}
