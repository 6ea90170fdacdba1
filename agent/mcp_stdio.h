/* MCP over standard input and output: one client, one message a line. */
#ifndef AGENT_MCP_STDIO_H
#define AGENT_MCP_STDIO_H

#include "agent/mcp_session.h"
#include "common/loop.h"

/* For mcp_session_new; its exchanges are MCP_STDIO. */
extern const struct mcp_out mcp_stdio_out;
#define MCP_STDIO ((void *)(uintptr_t)1)

/* Reads until the end of input, or until SIGTERM or SIGINT: 0. ERR_INVALID: standard input is
 * nothing that can be waited for. */
int mcp_stdio_run(struct loop *loop, struct mcp_session *s, struct err *err);

#endif
