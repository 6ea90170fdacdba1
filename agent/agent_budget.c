/*
 * Budgets of a run (process: cofferdam-agent). They bound what a model may cost, not what it may
 * do: that is the broker's, and holds whatever is spent here.
 */
#include "agent/agent_budget.h"

#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct budget
budget_of(const struct loop_config *c)
{
	return (struct budget){.turns = c->max_turns != 0 ? c->max_turns : LOOP_TURNS_DEFAULT,
	    .time_s = c->max_time_s != 0 ? c->max_time_s : LOOP_TIME_DEFAULT,
	    .tokens = c->max_tokens};
}

uint64_t
budget_left_seconds(const struct course *k)
{
	uint64_t gone = (clock_boot_us() - k->begin_us) / 1000000;

	return gone < k->may.time_s ? k->may.time_s - gone : 0;
}

char *
budget_spent(const struct course *k, const char **ret_status)
{
	if (k->turn > k->may.turns) {
		*ret_status = "budget:turns";
		return xasprintf(
		    "the budget of %llu turns is spent", (unsigned long long)k->may.turns);
	}
	if (budget_left_seconds(k) == 0) {
		*ret_status = "budget:time";
		return xasprintf(
		    "the budget of %llu seconds is spent", (unsigned long long)k->may.time_s);
	}
	if (k->may.tokens != 0 && k->tokens >= k->may.tokens) {
		*ret_status = "budget:tokens";
		return xasprintf("the budget of %llu tokens is spent (%llu were used)",
		    (unsigned long long)k->may.tokens, (unsigned long long)k->tokens);
	}
	return NULL;
}
