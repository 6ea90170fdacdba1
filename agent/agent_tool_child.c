/*
 * A child run that the model asks for (process: cofferdam-agent). What it may have is held to by
 * the broker, which knows the parent; here it is only cut to what the parent has left, so that its
 * spending is the parent's.
 */
#include <string.h>

#include "common/xalloc.h"
#include "agent/agent_budget.h"
#include "agent/agent_tools.h"

#include "common/banned.h"

static uint64_t
least(int64_t wanted, uint64_t left)
{
	return wanted > 0 && (uint64_t)wanted < left ? (uint64_t)wanted : left;
}

/* What the parent has left; of tokens 0: it has no limit. */
static void
cut(const struct course *k, const struct tool_args *a, struct loop_child *c)
{
	uint64_t used = k->spent.tokens_in + k->spent.tokens_out;

	c->turns = least(a->number[3], k->turn < k->may.turns ? k->may.turns - k->turn : 0);
	c->seconds = least(a->number[4], budget_left_seconds(k));
	c->tokens = a->number[5] > 0 ? (uint64_t)a->number[5] : 0;
	if (k->may.tokens != 0)
		c->tokens = least(a->number[5], used < k->may.tokens ? k->may.tokens - used : 0);
	if (k->may.cost != 0)
		c->cost = budget_left_cost(k);
}

int
tool_subagent(
    struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err UNUSED)
{
	AUTO_FREE char *task = str_dup(call->args.text[0]);
	struct loop_child c = {
	    .task = task, .targets = call->args.text[1], .effects = call->args.text[2]};
	struct loop_end end = {0};
	struct err e = {0};

	if (k->c->child == NULL)
		return tools_refuse(ret, "this run has no model that a subagent could have");
	cut(k, &call->args, &c);
	if (c.turns == 0 || c.seconds == 0 || (k->may.tokens != 0 && c.tokens == 0) ||
	    (k->may.cost != 0 && c.cost == 0))
		return tools_refuse(ret, "there is nothing left that a subagent could spend");
	if (k->c->child(k->c->child_arg, k->c, &c, &end, &e) != 0)
		return tools_refuse(ret, e.msg);
	budget_child(k, &end);
	ret->cause = strcmp(end.status, "done") == 0 ? "ok" : "error";
	ret->failed = strcmp(end.status, "done") != 0;
	buf_put_z(&ret->text, end.text);
	ret->words = xasprintf("subagent: %s", end.status);
	ret->total = ret->kept = strlen(end.text);
	free(end.text);
	free(end.used);
	return 0;
}
