/* The sandbox that a run's plan asks for, and its listeners for the broker. */
#ifndef AGENT_AGENT_PLAN_H
#define AGENT_AGENT_PLAN_H

#include "agent/agent_broker.h"
#include "agent/agent_options.h"
#include "agent/agent_socket.h"

/* Names, listeners, certificates and environment of the plan. */
int agent_plan_sandbox(const struct agent_options *o, const struct broker_plan *p,
    struct sandbox **ret, struct err *err);
/* Hands over every listener of the plan; `loop` is made if the plan has one for it. */
int agent_plan_listen(
    struct broker *b, struct sandbox *sb, struct agent_socket *loop, struct err *err);

#endif
