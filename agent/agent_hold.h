/* A run that this process holds: its registration, sandbox, listeners, targets that come and go. */
#ifndef AGENT_AGENT_HOLD_H
#define AGENT_AGENT_HOLD_H

#include "agent/agent_plan.h"
#include "agent/profile_use.h"

struct agent_hold_ask {
	struct broker_ask broker;
	/* Limits, name, workspace and the like; targets and certificates are the plan's; `env`
	 * comes behind the plan's and wins. */
	struct sandbox_spec spec;
	const struct profile_use *profile;  /* NULL: none; then no env but the plan's */
	const struct sandbox_workspace *ws; /* for the level that is recorded; NULL: none */
};

struct agent_hold {
	struct broker *broker;
	struct sandbox *sandbox;
	struct agent_change change; /* its env: for programs begun now */
	struct agent_socket loop;
};

#define AGENT_HOLD ((struct agent_hold){.loop = {.listen = -1, .at = -1}})
/* Registered, built, served: code may run. *h is not moved afterwards. On failure a run that was
 * registered has ended as "error". */
int agent_hold_begin(const struct agent_hold_ask *a, struct agent_hold *h, struct err *err);
/* Lets go of all: the sandbox first; a run without broker_end ends as lost. */
void agent_hold_free(struct agent_hold *h);
#define AUTO_HOLD __attribute__((cleanup(agent_hold_free)))

/* Where the broker's agent socket is: one of the two, or the installed one. The caller frees. */
char *agent_hold_socket(const char *socket, const char *state);

#endif
