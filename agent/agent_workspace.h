/* Which directories may be handed to a sandbox: none that holds keys. */
#ifndef AGENT_AGENT_WORKSPACE_H
#define AGENT_AGENT_WORKSPACE_H

#include "agent/agent_options.h"

#define WORKSPACE_HOLDS_MAX 32

struct agent_workspace {
	char *holds[WORKSPACE_HOLDS_MAX]; /* the caller's own secrets in the workspace */
	size_t nholds;
};

/*
 * ERR_INVALID: the workspace or a bind is, holds or lies in a state directory (--state, that of
 * --socket, or the installed one); or the workspace is, holds or lies in what keeps the
 * caller's own secrets (~/.ssh ...), unless --workspace-unsafe: then *ret names them. Free ret
 * either way. Follows links and bind mounts; a state directory that nobody names is not known.
 */
int agent_workspace_check(
    const struct agent_options *o, struct agent_workspace *ret, struct err *err);
void agent_workspace_free(struct agent_workspace *w);
/* The sandbox's level with "workspace_unsafe":[...] in it if there is any; the caller frees. */
char *agent_workspace_level(const struct agent_workspace *w, const char *level);

#endif
