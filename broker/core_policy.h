/*
 * Which policy is in force (process: core): a bundle that the parent hands over follows the one
 * before it, or is refused and the one in force stays. The log is what remembers which that is.
 */
#ifndef BROKER_CORE_POLICY_H
#define BROKER_CORE_POLICY_H

#include "broker/core_boot.h"

#define CORE_POLICY_KID "policy" /* names the key of the sealed bundles */

/* What the parent hands over; the last one is the bundle, of no bytes where none is active. */
int core_policy_take_before(struct core *c, int fd, struct err *err);
int core_policy_take_signatures(struct core *c, int fd, struct err *err);
int core_policy_take(struct core *c, int fd, struct err *err);
/* A live record: policy.load, or policy.unload (unload). False: not of the form. */
bool core_policy_live(struct core *c, const struct json *data, bool unload);
void core_policy_live_begin(struct core *c);
void core_policy_free(struct core *c);

#endif
