/* What a run may reach, and where its listeners stand: the plan that its agent is given. */
#ifndef BROKER_CORE_PLAN_H
#define BROKER_CORE_PLAN_H

#include "broker/core_run.h"

#define CORE_PROXY_HOST "proxy.cofferdam.internal"
#define CORE_PROXY_PORT 3128
#define CORE_KIND_PROXY "proxy"
#define CORE_KIND_LOOP "loop"

/*
 * Reads list(str target) of A_OPEN: those targets, or all that can be served. ERR_NOT_FOUND,
 * ERR_UNSUPPORTED, ERR_EXISTS name the target.
 */
int core_plan_targets(struct core_run *run, struct rd *body, struct err *err);
/* After the targets: with `wrapped` the models that the sandbox may ask, the proxy if an http
 * target is among them, with `loop` all model targets and the loop's own listener. ERR_NOT_FOUND:
 * the policy has no model; ERR_UNSUPPORTED: a loop, and a model that was named for the sandbox. */
int core_plan_finish(struct core_run *run, bool loop, bool wrapped, struct err *err);
void core_plan_send(struct core_run *run); /* A_PLAN, to its agent */

/* Is it one of those that the run asked for, under an owner who is still there? */
bool core_plan_wants(const struct core_run *run, const struct policy_target *t);
/* Of the policy, as `state`; the proxy (NULL) if an http target is there. ERR_TOO_LARGE. */
int core_plan_add(struct core_run *run, const struct policy_target *t, enum core_target_state state,
    struct err *err);
/* Does the policy have a target for the run's proxy? */
bool core_plan_has_http(const struct core_run *run);
/* 8 bytes of a hash, in hex, over all that says where it is and with what it is reached. */
void core_plan_place(const struct policy_target *t, char out[CORE_PLACE_SIZE]);
/* A_TARGETS, to its agent. */
void core_plan_send_change(const struct core_run *run);

/* Where the policy has it: its host, or "*.host" of a wildcard; the caller frees. */
char *core_plan_host(const struct policy_target *t);
/* "http" or "https"; "" for other kinds. */
const char *core_plan_scheme(const struct policy_target *t);

#endif
