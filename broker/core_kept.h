/* Runs that core finds in the log when it comes back, and their listeners. */
#ifndef BROKER_CORE_KEPT_H
#define BROKER_CORE_KEPT_H

#include "broker/core_run.h"

/* The data of a live run.start or run.targets. NULL: taken; else the member that is not right. */
const char *core_kept_start(
    struct core *c, struct str run, struct str time, const struct json *data);
const char *core_kept_targets(struct core *c, struct str run, const struct json *data);

/* After the live records: runs without agent wait for it; kept listeners are matched. */
void core_kept_settle(struct core *c);
int core_kept_on_kept(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_kept_on_kept_end(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

#endif
