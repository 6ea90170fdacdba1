/*
 * Budgets of a run (process: cofferdam-agent). They bound what a model may cost, not what it may
 * do: that is the broker's, and holds whatever is spent here.
 */
#include "agent/agent_budget.h"

#include <string.h>

#include "common/clock.h"
#include "common/jcs.h"
#include "common/xalloc.h"
#include "agent/agent_steer.h"

#include "common/banned.h"

#define MILLION UINT64_C(1000000)

struct budget
budget_of(const struct loop_config *c)
{
	return (struct budget){.turns = c->max_turns != 0 ? c->max_turns : LOOP_TURNS_DEFAULT,
	    .time_s = c->max_time_s != 0 ? c->max_time_s : LOOP_TIME_DEFAULT,
	    .tokens = c->max_tokens,
	    .cost = c->max_cost,
	    .output = c->max_call_output};
}

uint64_t
budget_left_seconds(const struct course *k)
{
	uint64_t gone = (clock_boot_us() - k->begin_us) / MILLION;

	return gone < k->may.time_s ? k->may.time_s - gone : 0;
}

/* Tokens that the cache gave or took have prices of their own. */
void
budget_turn(struct course *k, const struct model_turn *t)
{
	const struct prices *p = &k->c->prices;
	struct spent *s = &k->spent;
	uint64_t plain = t->tokens_in - t->cache_read - t->cache_write;

	s->tokens_in += t->tokens_in;
	s->tokens_out += t->tokens_out;
	s->cost += plain * p->input + t->cache_read * p->cache_read +
		   t->cache_write * p->cache_write + t->tokens_out * p->output;
}

void
budget_call(struct course *k)
{
	k->spent.calls++;
}

void
budget_output(struct course *k, uint64_t bytes)
{
	if (bytes > k->spent.output)
		k->spent.output = bytes;
}

/* In millionths, rounded up: what was begun was spent. */
static uint64_t
cost_of(const struct course *k)
{
	return k->spent.cost / MILLION + (k->spent.cost % MILLION != 0);
}

uint64_t
budget_left_cost(const struct course *k)
{
	return cost_of(k) < k->may.cost ? k->may.cost - cost_of(k) : 0;
}

void
budget_child(struct course *k, const struct loop_end *end)
{
	k->spent.tokens_in += end->tokens_in;
	k->spent.tokens_out += end->tokens_out;
	k->spent.cost += end->cost;
	for (size_t i = 0; k->c->steer != NULL && i < k->c->steer->nlimits; i++)
		k->c->steer->limits[i].seen += end->seen[i];
}

char *
budget_words(const struct course *k)
{
	const struct spent *s = &k->spent;
	AUTO_FREE char *cost = NULL;

	if (k->c->prices.known) {
		AUTO_FREE char *amount = prices_words(cost_of(k), k->c->prices.currency);

		cost = xasprintf(", %s", amount);
	}
	return xasprintf("used: %llu turns, %llu calls, %llu tokens (%llu read, %llu written)%s, "
			 "%llu s",
	    (unsigned long long)s->turns, (unsigned long long)s->calls,
	    (unsigned long long)(s->tokens_in + s->tokens_out), (unsigned long long)s->tokens_in,
	    (unsigned long long)s->tokens_out, cost != NULL ? cost : "",
	    (unsigned long long)((clock_boot_us() - k->begin_us) / MILLION));
}

void
budget_json(const struct course *k, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_int(&j, "calls", (int64_t)k->spent.calls);
	if (k->c->prices.known)
		jcs_int(&j, "cost", (int64_t)cost_of(k));
	jcs_int(&j, "seconds", (int64_t)((clock_boot_us() - k->begin_us) / MILLION));
	jcs_int(&j, "tokens_in", (int64_t)k->spent.tokens_in);
	jcs_int(&j, "tokens_out", (int64_t)k->spent.tokens_out);
	jcs_int(&j, "turns", (int64_t)k->spent.turns);
	jcs_close(&j);
}

/* --- what is over ---------------------------------------------------------------- */

static char *
turns_over(const struct course *k)
{
	if (k->turn <= k->may.turns)
		return NULL;
	return xasprintf("the budget of %llu turns is spent", (unsigned long long)k->may.turns);
}

static char *
time_over(const struct course *k)
{
	if (budget_left_seconds(k) != 0)
		return NULL;
	return xasprintf("the budget of %llu seconds is spent", (unsigned long long)k->may.time_s);
}

static char *
tokens_over(const struct course *k)
{
	uint64_t used = k->spent.tokens_in + k->spent.tokens_out;

	if (k->may.tokens == 0 || used < k->may.tokens)
		return NULL;
	return xasprintf("the budget of %llu tokens is spent", (unsigned long long)k->may.tokens);
}

static char *
cost_over(const struct course *k)
{
	AUTO_FREE char *amount = prices_words(k->may.cost, k->c->prices.currency);

	if (k->may.cost == 0 || cost_of(k) < k->may.cost)
		return NULL;
	return xasprintf("the budget of %s is spent", amount);
}

static char *
output_over(const struct course *k)
{
	if (k->may.output == 0 || k->spent.output <= k->may.output)
		return NULL;
	return xasprintf("a call wrote %llu bytes, its budget is %llu",
	    (unsigned long long)k->spent.output, (unsigned long long)k->may.output);
}

static char *
calls_over(const struct course *k)
{
	const struct agent_steer *s = k->c->steer;
	const struct call_limit *l = s != NULL ? steer_calls_over(s) : NULL;

	if (l == NULL)
		return NULL;
	return xasprintf(
	    "the budget of %llu calls of %s is spent", (unsigned long long)l->most, l->target);
}

static const struct {
	const char *status;
	char *(*over)(const struct course *k);
} budgets[] = {
    {"budget:turns", turns_over},
    {"budget:time", time_over},
    {"budget:tokens", tokens_over},
    {"budget:cost", cost_over},
    {"budget:output", output_over},
    {"budget:calls", calls_over},
};

static char *
told(const struct course *k, const char *why)
{
	AUTO_FREE char *used = budget_words(k);

	return xasprintf("%s; %s", why, used);
}

char *
budget_calls_over(const struct course *k, const char **ret_status)
{
	AUTO_FREE char *why = calls_over(k);

	*ret_status = "budget:calls";
	return why != NULL ? told(k, why) : NULL;
}

char *
budget_spent(const struct course *k, const char **ret_status)
{
	for (size_t i = 0; i < ARRAY_LEN(budgets); i++) {
		AUTO_FREE char *why = budgets[i].over(k);

		if (why == NULL)
			continue;
		*ret_status = budgets[i].status;
		return told(k, why);
	}
	return NULL;
}
