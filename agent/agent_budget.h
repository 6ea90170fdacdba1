/* What a run may spend, and what it has spent. */
#ifndef AGENT_AGENT_BUDGET_H
#define AGENT_AGENT_BUDGET_H

#include "agent/agent_course.h"

struct budget budget_of(const struct loop_config *c);
/* Of the run's time. */
uint64_t budget_left_seconds(const struct course *k);
/* The first budget that is spent, in words, and the end that it makes; NULL: none. The caller
 * frees. */
char *budget_spent(const struct course *k, const char **ret_status);

#endif
