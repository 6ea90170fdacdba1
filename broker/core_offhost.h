/*
 * Records that must have left this machine before they act: whoever holds the machine can then not
 * make them undone. The courier delivers, the writer passes on what it says; core only waits.
 */
#ifndef BROKER_CORE_OFFHOST_H
#define BROKER_CORE_OFFHOST_H

#include "broker/core.h"

/* why NULL: it was delivered; else what stands in the way and what to do. Called once. */
typedef void core_offhost_fn(void *arg, const char *why);
/* A durable breakglass.sign with that number; fn may be called from inside. */
void core_offhost_wait(struct core *c, struct str webhook, uint64_t seq, int64_t seconds,
    core_offhost_fn *fn, void *arg);
int core_offhost_on_delivered(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
/* Nobody is called any more; `drop` frees what their args are. */
void core_offhost_free(struct core *c, void (*drop)(void *arg));

#endif
