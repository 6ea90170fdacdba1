/* Which directories may be handed to a sandbox: none that holds keys. */
#ifndef AGENT_SANDBOX_SANDBOX_WORKSPACE_H
#define AGENT_SANDBOX_SANDBOX_WORKSPACE_H

#include "agent/sandbox/sandbox.h"

#define SANDBOX_BROKER_SOCKET "/run/cofferdam/agent.sock"
#define WORKSPACE_HOLDS_MAX 32

struct sandbox_workspace {
	char *holds[WORKSPACE_HOLDS_MAX]; /* the caller's own secrets in the workspace */
	size_t nholds;
	/* What was judged, without any link: this goes into the spec, since a name can be given to
	 * something else meanwhile. NULL: none. */
	char *workspace, *image, *binds[SANDBOX_BINDS_MAX];
};

/* What --ro-bind asks for: HOST[:INSIDE], each; of both strings host_path is the owner. */
struct sandbox_binds {
	struct sandbox_bind at[SANDBOX_BINDS_MAX];
	size_t n;
};
/* One more; ERR_INVALID: too many. */
int sandbox_bind_add(struct sandbox_binds *b, const char *value, struct err *err);
void sandbox_binds_free(struct sandbox_binds *b);

/* What is asked for, by the options that name it. */
struct sandbox_guard {
	const char *workspace, *workspace_option, *image; /* NULL: none */
	const struct sandbox_bind *binds;
	size_t nbinds;
	const char *state, *socket; /* the broker's; socket NULL: SANDBOX_BROKER_SOCKET */
	bool unsafe;		    /* --workspace-unsafe */
};

/*
 * ERR_INVALID: the workspace, the image or a bind is, holds or lies in a state directory (`state`,
 * that of `socket`, or the installed one); or the workspace is, holds or lies in what keeps the
 * caller's own secrets (~/.ssh ...), unless `unsafe`: then *ret names them. Free ret either way.
 * Follows links and bind mounts; a state directory that nobody names is not known.
 */
int sandbox_workspace_check(
    const struct sandbox_guard *g, struct sandbox_workspace *ret, struct err *err);
/* Puts what was judged into a spec; room is for its binds, and both must outlive it. */
void sandbox_workspace_apply(const struct sandbox_workspace *w,
    struct sandbox_bind room[SANDBOX_BINDS_MAX], struct sandbox_spec *spec);
void sandbox_workspace_free(struct sandbox_workspace *w);
#define AUTO_WORKSPACE __attribute__((cleanup(sandbox_workspace_free)))
/* What to warn of; NULL: nothing. The caller frees. */
char *sandbox_workspace_warning(const struct sandbox_workspace *w);
/* The sandbox's level with "workspace_unsafe":[...] in it if there is any; the caller frees. */
char *sandbox_workspace_level(const struct sandbox_workspace *w, const char *level);

#endif
