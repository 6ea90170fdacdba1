/* A client's start-up parameters: what they do, and how they go on to upstream. */
#ifndef BROKER_CORE_STARTUP_H
#define BROKER_CORE_STARTUP_H

#include "broker/core_pg.h"

/*
 * Reads the list at the end of PG_OPEN into conn->params, ->pins, ->startup and ->startup_bad; what
 * each parameter does is or-ed into *ret_effects. ERR_PROTOCOL, ERR_TOO_LARGE.
 */
int core_startup_read(
    struct core_conn *conn, struct rd *body, uint32_t *ret_effects, struct err *err);

#endif
