/*
 * What a run may reach while it lives follows the policy: a target that goes is closed at once, one
 * that comes has its listener made by the run's agent, and both stand in the log (run.targets).
 */
#ifndef BROKER_CORE_PATCH_H
#define BROKER_CORE_PATCH_H

#include "broker/core_run.h"

/* Closes what the policy in force does not give it any more; goes on with all that is not settled.
 * Also when its agent or the log has come back. */
void core_patch_run(struct core_run *run);
void core_patch_policy(struct core *c); /* another one is in force */
/* Closes one target: connections on both sides, listener, spare; at once, whoever else is away. */
void core_patch_revoke(struct core_run *run, size_t index);
/* The vault is another: sessions whose credential is not what it was are ended. */
void core_patch_vault(struct core *c);
void core_patch_free(struct core_run *run);

/* The agent has made what A_TARGETS asked for. */
int core_patch_on_changed(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

#endif
