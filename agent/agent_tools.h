/* What the model may do: its calls, one after the other. */
#ifndef AGENT_AGENT_TOOLS_H
#define AGENT_AGENT_TOOLS_H

#include "agent/agent_course.h"

/* Each call is on the record before it runs, and has one answer. An error ends the run. */
int tools_run(struct course *k, const struct model_turn *t, struct err *err);

#endif
