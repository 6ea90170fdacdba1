/*
 * Reads the agent's command line. It comes from the person who starts a run, through the
 * `cofferdam` command; numbers are range-checked here, paths by the sandbox's own rules.
 */
#include "agent/agent_options.h"

#include <stdio.h>
#include <string.h>

#include "common/option.h"
#include "agent/model_remote.h"

#include "common/banned.h"

enum { TARGET = OPTION_OWN, EFFECT, BIND, CALLS, AMOUNT };
#define AT(m) offsetof(struct agent_options, m)

static const struct option_row rows[] = {
    {"--socket", OPTION_TEXT, AT(socket), 0, 0, "FILE",
	"the broker's agent socket (default: " AGENT_SOCKET_DEFAULT ")"},
    {"--state", OPTION_TEXT, AT(state), 0, 0, "DIR",
	"the broker's state directory, instead of --socket"},
    {"--task", OPTION_TEXT, AT(task), 0, 0, "TEXT", "what the run is for; it is on the record"},
    {"--script", OPTION_TEXT, AT(script), 0, 0, "FILE",
	"the model's recorded conversation, for the built-in loop"},
    {"--model", OPTION_TEXT, AT(model), 0, 0, "PROVIDER:NAME",
	"the loop's model: anthropic:NAME, openai:NAME or openai-responses:NAME"},
    {"--base-url", OPTION_TEXT, AT(base_url), 0, 0, "URL",
	"where the model's API is (default: the provider's own)"},
    {"--max-retries", OPTION_NUMBER, AT(max_retries), 0, 20, "N",
	"further tries of a model's request (default: 2)"},
    {"--max-tokens", OPTION_NUMBER, AT(max_tokens), 1, UINT32_MAX, "N",
	"the run's tokens, read and written, of all turns (default: no limit)"},
    {"--max-output-tokens", OPTION_NUMBER, AT(max_output_tokens), 1, 10000000, "N",
	"tokens of one answer (default: 16384, or the server's own)"},
    {"--context-tokens", OPTION_NUMBER, AT(context_tokens), 1000, 100000000, "N",
	"tokens that the model takes (default: as the price table or its provider says)"},
    {"--config", OPTION_TEXT, AT(config), 0, 0, "FILE",
	"prices of models (default: " PRICES_FILE ", if it is there)"},
    {"--max-cost", AMOUNT, AT(max_cost), 0, 0, "AMOUNT",
	"what the model may cost, in the currency of the prices (default: no limit)"},
    {"--max-calls", CALLS, 0, 0, 0, "TARGET=N",
	"actions on that target that are let through; may be repeated (default: no limit)"},
    {"--max-call-output", OPTION_NUMBER, AT(max_call_output), 1, UINT32_MAX, "N",
	"bytes that one call may write; more ends the run (default: no limit)"},
    {"--agent", OPTION_TEXT, AT(agent), 0, 0, "NAME",
	"the agent's name for the policy (default: cofferdam)"},
    {"--profile", OPTION_TEXT, AT(profile), 0, 0, "NAME",
	"what the command's agent is told (default: by the command's name)"},
    {"--no-profile", OPTION_FLAG, AT(no_profile), 0, 0, "", "nothing is told to it"},
    {"--target", TARGET, 0, 0, 0, "T", "ask for this target alone; may be repeated"},
    {"--effect", EFFECT, 0, 0, 0, "E",
	"of what the policy gives, this alone, as read or @data; may be repeated"},
    {"--parent", OPTION_TEXT, AT(parent), 0, 0, "RUN",
	"as a child of that run of yours: with no more than it has, and ended with it"},
    {"--max-turns", OPTION_NUMBER, AT(max_turns), 1, 10000, "N", "the loop's turns (default: 100)"},
    {"--max-time", OPTION_NUMBER, AT(max_time_s), 1, 86400, "S",
	"the run's seconds (default: 3600)"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, "", "the loop as one JSON object a line, for machines"},
    {"--quiet", OPTION_FLAG, AT(quiet), 0, 0, "", "no transcript of the loop"},
    {"--workspace", OPTION_TEXT, AT(workspace), 0, 0, "DIR",
	"becomes /work (default: an empty tmpfs of --disk, gone at the end)"},
    {"--workspace-unsafe", OPTION_FLAG, AT(workspace_unsafe), 0, 0, "",
	"allow a workspace that holds ~/.ssh or the like; the level says so"},
    {"--ro-bind", BIND, 0, 0, 0, "HOST[:INSIDE]",
	"show a path of the host read-only; may be repeated"},
    {"--timeout", OPTION_NUMBER, AT(timeout_s), 1, 86400, "S",
	"seconds for the command, or for one turn's code (loop: 300)"},
    {"--memory", OPTION_NUMBER32, AT(limits.memory_mib), 16, 1 << 20, "MIB",
	"memory of all programs, /tmp and a private /work (default: 1024)"},
    {"--cpu", OPTION_NUMBER32, AT(limits.cpu_percent), 1, 6400, "PERCENT",
	"100 is one processor (default: 200)"},
    {"--pids", OPTION_NUMBER32, AT(limits.pids), 4, 32768, "N",
	"processes and threads (default: 256)"},
    {"--output", OPTION_NUMBER32, AT(limits.output_mib), 1, 4096, "MIB",
	"output of one command; more ends it (default: 64)"},
    {"--disk", OPTION_NUMBER32, AT(limits.workspace_mib), 1, 1 << 20, "MIB",
	"size of /tmp and of a private /work, each (default: 512)"},
    {"--limits-optional", OPTION_FLAG, AT(limits_optional), 0, 0, "",
	"go on without memory, process and CPU limits where there are no cgroups"},
};

void
agent_options_help(void)
{
	(void)printf("usage: cofferdam run [options] --task TEXT --model PROVIDER:NAME\n"
		     "       cofferdam run [options] --task TEXT --script FILE\n"
		     "       cofferdam run [options] -- COMMAND...\n"
		     "An agent, or any command, in a sandbox whose way out is the broker. With a "
		     "terminal at standard input and output it has one inside.\n");
	option_help(rows, ARRAY_LEN(rows), 0);
}

static int
calls_add(struct agent_options *o, const char *value, struct err *err)
{
	const char *eq = strrchr(value, '=');
	uint64_t n;

	if (o->ncalls == CALL_LIMITS_MAX)
		return err_set(err, ERR_INVALID, "--max-calls: at most %d", CALL_LIMITS_MAX);
	if (eq == NULL || eq == value || !str_to_u64(str_z(eq + 1), UINT32_MAX, &n) || n == 0)
		return err_set(err, ERR_INVALID,
		    "--max-calls must be TARGET=N with N above 0, is \"%s\"", value);
	o->calls[o->ncalls++] =
	    (struct call_limit){.target = str_dup(str_mem(value, (size_t)(eq - value))), .most = n};
	return 0;
}

static int
own_take(void *into, const struct option_row *r, const char *value, struct err *err)
{
	struct agent_options *o = into;
	uint64_t *amount = (uint64_t *)(void *)((char *)into + r->at);

	switch (OPTION_KIND(r)) {
	case TARGET: return option_add(r, o->targets, &o->ntargets, AGENT_TARGETS_MAX, value, err);
	case EFFECT: return option_add(r, o->effects, &o->neffects, AGENT_EFFECTS_MAX, value, err);
	case BIND: return sandbox_bind_add(&o->binds, value, err);
	case CALLS: return calls_add(o, value, err);
	}
	if (!prices_amount(str_z(value), amount) || *amount == 0)
		return err_set(err, ERR_INVALID,
		    "%s must be an amount above 0 of at most six decimals, is \"%s\"", r->name,
		    value);
	return 0;
}

int
agent_options_parse(int argc, char **argv, struct agent_options *o, struct err *err)
{
	struct option_line l = {
	    .rows = rows, .n = ARRAY_LEN(rows), .after = &o->command, .own = own_take, .into = o};

	*o = (struct agent_options){.max_retries = MODEL_RETRIES_DEFAULT};
	return option_read(&l, argc, argv, err);
}

void
agent_options_free(struct agent_options *o)
{
	sandbox_binds_free(&o->binds);
	for (size_t i = 0; i < o->ncalls; i++)
		free(o->calls[i].target);
}
