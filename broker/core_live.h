/* What the log says is still going on: told by the writer each time it (or core) starts. */
#ifndef BROKER_CORE_LIVE_H
#define BROKER_CORE_LIVE_H

#include "broker/core.h"

/* A writer's wire came: what is known of requests and doubts is told anew. */
void core_live_begin(struct core *c);
int core_live_on_record(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_live_on_damage(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_live_on_end(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

#endif
