/* `cofferdam run`: register, build the sandbox, then the loop or one command. */
#ifndef AGENT_AGENT_RUN_H
#define AGENT_AGENT_RUN_H

#include "agent/agent_options.h"

int agent_run(const struct agent_options *o); /* an exit status */

#endif
