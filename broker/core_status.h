/* What the broker says of itself: `cofferdam status`. */
#ifndef BROKER_CORE_STATUS_H
#define BROKER_CORE_STATUS_H

#include "broker/core_control.h"

/* Verb status: also while nothing can be judged. */
int core_status_verb(struct core_call *call, struct err *err);

#endif
