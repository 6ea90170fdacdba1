/*
 * COPY FROM STDIN: the data comes from front, which speaks for the client, and goes to the server
 * under a lease that allows it, only while the server asks for it. Nobody reads it; it is counted
 * and hashed.
 */
#ifndef BROKER_UPSTREAM_COPY_H
#define BROKER_UPSTREAM_COPY_H

#include "broker/upstream.h"

#define UPSTREAM_COPY_WINDOW ((size_t)256 << 10) /* on the way from front, or not yet written */

/* FU_COPY's how. */
enum upstream_copy_how { COPY_HOW_DATA = 0, COPY_HOW_DONE = 1, COPY_HOW_FAIL = 2 };

/* CopyInResponse came. What the client has been answered so far is let go, so that it sees it. */
int upstream_copy_open(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err);
/* FU_COPY. What was not asked for ends the connection. */
void upstream_copy_on(struct upstream_conn *c, uint64_t act, uint8_t how, struct str bytes);
/* Something went to the server: front may send more. */
void upstream_copy_more(struct upstream_conn *c);
/* The server has failed the statement: what is on the way is dropped. */
void upstream_copy_stop(struct upstream_conn *c);

#endif
