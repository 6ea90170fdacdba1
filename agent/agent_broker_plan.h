/* Plans as they come over the wire. For agent_broker.c. */
#ifndef AGENT_AGENT_BROKER_PLAN_H
#define AGENT_AGENT_BROKER_PLAN_H

#include "agent/agent_broker.h"

/* The whole of A_PLAN; free *p in any case. */
int broker_plan_take(struct broker_plan *p, struct str body, struct err *err);
void broker_plan_free(struct broker_plan *p);
/* Targets and variables; numbered: each target says its index, and whether it is fresh. */
int broker_targets_take(struct rd *r, bool numbered, struct broker_plan *p, struct err *err);
/* They alone. */
void broker_plan_drop(struct broker_plan *p);
void broker_plan_swap(struct broker_plan *p, struct broker_plan *next);

#endif
