/* Environment and names that a run's plan gives to the sandbox. */
#ifndef AGENT_AGENT_ENV_H
#define AGENT_AGENT_ENV_H

#include "agent/agent_broker.h"

/*
 * "NAME=value", NULL-terminated: where the first database is, the proxy's address in the variables
 * that clients read, and the placeholders. agent_env_free frees it.
 */
char **agent_env_make(const struct broker_plan *p);
void agent_env_free(char **env);
DEFINE_AUTO(agent_env, char *, agent_env_free)

#endif
