/*
 * A client's cancel of what its own session runs: an action of its own, judged and recorded before
 * upstream is asked to cancel. At most one under way per connection.
 */
#ifndef BROKER_CORE_CANCEL_H
#define BROKER_CORE_CANCEL_H

#include "broker/core_pg.h"

struct core_cancel;

/* PG_CANCEL. What is not running cannot be cancelled: then nothing happens. */
int core_cancel_on_cancel(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
/* U_CANCELLED. */
int core_cancel_on_cancelled(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
/* The exchange has gone out, or another cancel is over: it is cancelled if that was asked for. */
void core_cancel_due(struct core_conn *conn);
/* The connection goes: what is under way gets its outcome. */
void core_cancel_lost(struct core_conn *conn);

#endif
