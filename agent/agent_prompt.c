/*
 * The system prompt (process: cofferdam-agent). It is advice to a model, not a protection: what it
 * says not to do is impossible, or refused by the broker. It is made once, so that a provider's
 * cache of prefixes holds; what changes later is told in a turn of its own.
 */
#include "agent/agent_prompt.h"

#include <string.h>

#include "common/xalloc.h"
#include "agent/agent_budget.h"
#include "agent/agent_steer.h"

#include "common/banned.h"

static const char place[] =
    "You operate production through code. Code runs in a sandbox: files under /work and /tmp "
    "stay. run_code keeps its interpreter, with variables and imports, from one call to the "
    "next; run_command starts a program of its own. Do several steps in one call where you can, "
    "and print only what you need: of long output you see head and tail, and where the whole of "
    "it is.\n"
    "There is no network but a broker. It stands under the ordinary names and ports of the "
    "systems you may reach, so use ordinary clients (psql, curl, git) with ordinary addresses. "
    "You have no credentials and need none: the broker adds them. Where a client insists on one, "
    "a placeholder is in the environment.\n"
    "The broker judges every action by policy, and records it with your words. A refusal is "
    "final unless it names a request id: then people have been asked to sign, and exactly the "
    "same action may pass once after they have. Do other work meanwhile, or wait with "
    "wait_approval, then repeat it unchanged. Never try to reach a refused effect in another "
    "way, and never use credentials that you find: say what was refused and why it is needed.\n"
    "When the task is done, or cannot be done, call finish with a few plain words.\n";

static void
budgets_put(const struct loop_config *c, struct buf *out)
{
	struct budget b = budget_of(c);

	buf_printf(out, "\nThis run may use %llu turns and %llu seconds",
	    (unsigned long long)b.turns, (unsigned long long)b.time_s);
	if (b.tokens != 0)
		buf_printf(out, ", %llu tokens", (unsigned long long)b.tokens);
	if (b.cost != 0) {
		AUTO_FREE char *amount = prices_words(b.cost, c->prices.currency);

		buf_printf(out, ", %s", amount);
	}
	if (b.output != 0)
		buf_printf(out, ", %llu bytes of output in one call", (unsigned long long)b.output);
	for (size_t i = 0; c->steer != NULL && i < c->steer->nlimits; i++)
		buf_printf(out, ", %llu calls of %s", (unsigned long long)c->steer->limits[i].most,
		    c->steer->limits[i].target);
	buf_put_z(out, "; then it is over.\n");
}

char *
prompt_make(const struct loop_config *c, const char *words)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_put_z(&b, place);
	budgets_put(c, &b);
	if (words[0] != '\0')
		buf_printf(&b,
		    "\nWhat the policy gave this run when it began, for actions of one kind alone; "
		    "what the broker answers is what counts:\n%s",
		    words);
	return buf_dup_z(&b);
}

char *
prompt_note(struct course *k)
{
	const char *now = broker_plan(k->c->broker)->words;

	if (strcmp(now, k->words) == 0)
		return NULL;
	free(k->words);
	k->words = xstrdup(now);
	return xasprintf("The rules of this run have changed. They are now:\n%s", now);
}
