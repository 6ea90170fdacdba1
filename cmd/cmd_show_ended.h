/* `cofferdam show` of a request that the broker has no more. */
#ifndef CMD_CMD_SHOW_ENDED_H
#define CMD_CMD_SHOW_ENDED_H

#include <stdbool.h>

#include "common/err.h"

/* Prints what the log of the state directory has of it; ERR_NOT_FOUND: nothing. */
int show_ended(const char *state, const char *id, bool json, struct err *err);

#endif
