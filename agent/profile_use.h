/* A profile in a run: variables and files, made from the run's plan. */
#ifndef AGENT_PROFILE_USE_H
#define AGENT_PROFILE_USE_H

#include "agent/agent_broker.h"
#include "agent/profile.h"
#include "agent/sandbox/sandbox.h"

struct profile_use {
	const struct profile *profile;
	const char *const *targets; /* that were asked for: a model among them is preferred */
	size_t ntargets;
};

/* The run has a model that the profile's agent speaks to, or it needs none; else ERR_NOT_FOUND says
 * what the policy must have. */
int profile_use_check(const struct profile_use *u, const struct broker_plan *p, struct err *err);
/*
 * "NAME=value" for the sandbox, NULL-terminated, HOME first. One that the plan sets itself is left
 * to it, and one that names a provider that the run has not is left out. agent_env_free.
 */
char **profile_use_env(const struct profile_use *u, const struct broker_plan *p);
/* The profile's home and its files; those that name a provider that the run has not are left out.
 */
int profile_use_files(
    const struct profile_use *u, const struct broker_plan *p, struct sandbox *sb, struct err *err);

#endif
