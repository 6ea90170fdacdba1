/*
 * The tools of `cofferdam mcp`: one table, from which tools/list is made and by which arguments are
 * read. Pure. What does not fit is told in words, for the model that asked.
 */
#ifndef AGENT_MCP_TOOLS_H
#define AGENT_MCP_TOOLS_H

#include "agent/mcp_session.h"

#define MCP_TOOLS 10
#define MCP_CODE_MAX ((size_t)1 << 20)
#define MCP_NAME_MAX 40
#define MCP_PATH_MAX 4096
#define MCP_FILE_MAX ((size_t)2 << 20) /* bytes of one write, and of one read */
#define MCP_FILE_READ 65536	       /* of one read, unless more is asked for */

enum mcp_tool_id {
	MCP_APPROVAL_STATUS,
	MCP_END,
	MCP_EXECUTION_STATUS,
	MCP_LIST_FILES,
	MCP_LIST_TARGETS,
	MCP_READ_FILE,
	MCP_REQUEST_APPROVAL,
	MCP_RUN_CODE,
	MCP_RUN_COMMAND,
	MCP_WRITE_FILE
};

/* Text borrows from the message; what was not given is empty or the default. */
struct mcp_args {
	struct str language, code, context, command, cwd, stdin_text, path, content, encoding,
	    request, reason, execution;
	int64_t timeout_s, offset, limit, depth, mode;
	bool restart, stop;
};

const struct mcp_tool *mcp_tools(void); /* MCP_TOOLS of them, sorted by name */
enum mcp_tool_id mcp_tools_id(const struct mcp_tool *t);
/* 0, or ERR_INVALID: names the argument, what it is and what is wanted. */
int mcp_tools_args(
    enum mcp_tool_id id, const struct json *arguments, struct mcp_args *ret, struct err *err);
/* What a client is told of the whole. */
extern const char mcp_tools_instructions[];

#endif
