/*
 * Cancelling what a session runs: a second connection to the same address, under the same TLS, that
 * says the server's own key and waits for the server to close it.
 */
#ifndef BROKER_UPSTREAM_CANCEL_H
#define BROKER_UPSTREAM_CANCEL_H

#include "broker/upstream.h"

#define UPSTREAM_CANCEL_MS 5000 /* from U_CANCEL to U_CANCELLED */

/* U_CANCEL. Answered by one U_CANCELLED; the session's next act waits for that. */
void upstream_cancel_on(struct upstream_hub *h, uint64_t id, uint64_t act);
/* The session ends right after this: what it has in flight is cancelled all the same. */
void upstream_cancel_last(struct upstream_conn *c);
/* What the server says on the cancel's connection: nothing of interest but its end. */
int upstream_cancel_read(struct upstream_conn *c, struct err *err);
/* A session ends: its cancel too. */
void upstream_cancel_forget(struct upstream_conn *c);
/* A connection has ended; if it is a cancel's, core is told and the session goes on. */
void upstream_cancel_over(struct upstream_conn *c, const char *message);

#endif
