/* Calls of MCP servers over Streamable HTTP to effects. Pure; between files of effects_http. */
#ifndef POLICY_EFFECTS_MCP_H
#define POLICY_EFFECTS_MCP_H

#include "policy/effects_http.h"

/* By the head. A message is opaque until it is judged. */
void effects_mcp(const struct http_request *r, struct http_view *v);
/* By what the parser found (policy/facts.h). Tools do what the target says, else nobody knows. */
void effects_mcp_message(
    const struct policy_target *t, const struct json *facts, struct http_view *v);

#endif
