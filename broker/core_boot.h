/* Start of core and the coming and going of its wires. */
#ifndef BROKER_CORE_BOOT_H
#define BROKER_CORE_BOOT_H

#include "broker/core.h"

/* All of a file that the parent handed over; `what` for messages. */
int core_boot_read(int fd, size_t max, const char *what, struct buf *b, struct err *err);
/* A policy was loaded and the log is there: record policy.load, then make it the active one. */
void core_boot_policy(struct core *c);
/* None is active any more: everything is refused, policy.unload is recorded. */
void core_boot_policy_drop(struct core *c);
/* Use p (taken) from now on, as if its record were durable. For tests and when the log has it
 * already. */
void core_boot_policy_use(struct core *c, struct policy *p);

/* What the log had open, against the policy in force: void, or its signatures verified and
 * settled. */
void core_boot_requests(struct core *c);

void core_wires_free(struct core *c); /* core_wires.c; nobody is told */

#endif
