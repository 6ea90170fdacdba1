/* Between mcp_session.c (what comes in) and mcp_call.c (what goes out). */
#ifndef AGENT_MCP_SESSION_INT_H
#define AGENT_MCP_SESSION_INT_H

#include "agent/mcp_session.h"

#define MCP_CLIENT_MAX 200
#define MCP_LIST_TTL_MS 3600000 /* the tools of a server's version do not change */

/* A request to the client that waits for its response. */
struct mcp_ask {
	uint64_t number;
	mcp_asked_fn *fn;
};

struct mcp_session {
	const struct mcp_server *server;
	const struct mcp_out *out;
	void *owner;
	enum mcp_era era;
	bool opened; /* `initialize` was answered */
	char client[MCP_CLIENT_MAX + 1];
	struct json_doc *opening; /* the message of `initialize`; its client's capabilities */
	TAILQ_HEAD(mcp_calls, mcp_call) calls;
	size_t ncalls;
	uint64_t asks;
};

void mcp_call_free(struct mcp_call *c);
/* Answers nothing; the owner lets go of it. */
void mcp_call_drop(struct mcp_call *c);
/* "io.modelcontextprotocol/serverInfo":{...} as a member. */
void mcp_server_info_put(const struct mcp_server *s, struct buf *out);

#endif
