/* What upstream is given: how to connect, and exactly which bytes to send. */
#ifndef BROKER_CORE_LEASE_H
#define BROKER_CORE_LEASE_H

#include "broker/core_act.h"

/* U_OPEN for a recorded connect. ERR_UNAVAILABLE without an upstream; ERR_CONFIG when the
 * credential is gone. */
int core_lease_open(struct core_conn *conn, struct err *err);
/* The policy wants its answers sealed into the log. */
bool core_lease_seals(const struct core_conn *conn);
/* U_SEND for recorded actions: the bytes that were judged, cut before what was refused. */
int core_lease_send(struct core_act *act, struct err *err);
void core_lease_close(const struct core_conn *conn);

#endif
