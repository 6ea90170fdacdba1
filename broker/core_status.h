/* What the broker says of itself: `cofferdam status`. */
#ifndef BROKER_CORE_STATUS_H
#define BROKER_CORE_STATUS_H

#include "broker/core_control.h"

/* Verb status: also while nothing can be judged. */
int core_status_verb(struct core_call *call, struct err *err);
/* One line for each clock, calendar or freeze that shuts something at `now`, and why. */
typedef void core_status_line_fn(void *arg, struct str line);
void core_status_frozen(
    const struct core *c, struct instant now, core_status_line_fn *fn, void *arg);

#endif
