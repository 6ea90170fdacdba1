/* The command line of `cofferdam mcp`, as one struct; a table reads it. */
#ifndef AGENT_MCP_OPTIONS_H
#define AGENT_MCP_OPTIONS_H

#include "agent/agent_options.h"
#include "agent/mcp_client.h"

#define MCP_LIST_OPTIONS_MAX 16

struct mcp_options {
	const char *socket, *state, *agent, *task;
	const char *targets[AGENT_TARGETS_MAX];
	size_t ntargets;
	struct sandbox_limits limits;
	const char *workspace;
	struct sandbox_binds binds;
	bool limits_optional, workspace_unsafe, help;
	uint64_t max_time_s, wait_s, idle_s;
	/* HTTP; listen NULL: stdio */
	const char *listen, *tls_cert, *tls_key, *client_ca, *token_file;
	const char *hosts[MCP_LIST_OPTIONS_MAX + 1], *origins[MCP_LIST_OPTIONS_MAX + 1];
	size_t nhosts, norigins;
};

/* argv[0] is skipped; ERR_INVALID names the option, its value and what is wanted. */
int mcp_options_parse(int argc, char **argv, struct mcp_options *ret, struct err *err);
void mcp_options_help(void);
void mcp_options_free(struct mcp_options *o);

#endif
