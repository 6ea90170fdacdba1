/* The agent's command line, as one struct; a table reads it. */
#ifndef AGENT_AGENT_OPTIONS_H
#define AGENT_AGENT_OPTIONS_H

#include "common/err.h"
#include "agent/agent_prices.h"
#include "agent/agent_steer.h"
#include "agent/sandbox/sandbox.h"
#include "agent/sandbox/sandbox_workspace.h"

#define AGENT_SOCKET_DEFAULT SANDBOX_BROKER_SOCKET
#define AGENT_TARGETS_MAX SANDBOX_TARGETS_MAX
#define AGENT_EFFECTS_MAX 24

struct profile_use;
struct agent_options {
	const char *socket, *state; /* one of them: where the broker's agent socket is */
	const char *task, *script, *model, *base_url, *config, *agent, *workspace;
	const char *targets[AGENT_TARGETS_MAX];
	size_t ntargets;
	const char *profile;	       /* NULL: by the command's name */
	const struct profile_use *use; /* what that came to; NULL: none */
	const char *parent, *effects[AGENT_EFFECTS_MAX];
	size_t neffects;
	uint64_t max_turns, max_time_s, timeout_s, max_tokens, max_output_tokens;
	uint64_t max_cost; /* millionths of the currency */
	uint64_t max_call_output, context_tokens;
	struct call_limit calls[CALL_LIMITS_MAX]; /* targets are owned */
	size_t ncalls;
	struct prices prices; /* of the model, from the file */
	uint64_t max_retries; /* MODEL_RETRIES_DEFAULT unless given */
	struct sandbox_limits limits;
	struct sandbox_binds binds;
	bool limits_optional, json, quiet, workspace_unsafe, no_profile;
	char *const *command; /* after "--"; NULL: none */
};

/* argv[0] is skipped; ERR_INVALID names the option, its value and what is wanted. */
int agent_options_parse(int argc, char **argv, struct agent_options *ret, struct err *err);
/* The options with what they are and their limits. */
void agent_options_help(void);
void agent_options_free(struct agent_options *o);

#endif
