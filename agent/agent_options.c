/*
 * Reads the agent's command line. It comes from the person who starts a run, through the
 * `cofferdam` command; numbers are range-checked here, paths by the sandbox's own rules.
 */
#include "agent/agent_options.h"

#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"
#include "agent/model_remote.h"

#include "common/banned.h"

enum kind { TEXT, NUMBER, NUMBER32, FLAG, TARGET, EFFECT, BIND, CALLS, AMOUNT };

static const struct row {
	const char *name;
	enum kind kind;
	size_t at;
	uint64_t min, max;
	const char *arg, *what;
} rows[] = {
    {"--socket", TEXT, offsetof(struct agent_options, socket), 0, 0, "FILE",
	"the broker's agent socket (default: " AGENT_SOCKET_DEFAULT ")"},
    {"--state", TEXT, offsetof(struct agent_options, state), 0, 0, "DIR",
	"the broker's state directory, instead of --socket"},
    {"--task", TEXT, offsetof(struct agent_options, task), 0, 0, "TEXT",
	"what the run is for; it is on the record"},
    {"--script", TEXT, offsetof(struct agent_options, script), 0, 0, "FILE",
	"the model's recorded conversation, for the built-in loop"},
    {"--model", TEXT, offsetof(struct agent_options, model), 0, 0, "PROVIDER:NAME",
	"the loop's model: anthropic:NAME, openai:NAME or openai-responses:NAME"},
    {"--base-url", TEXT, offsetof(struct agent_options, base_url), 0, 0, "URL",
	"where the model's API is (default: the provider's own)"},
    {"--max-retries", NUMBER, offsetof(struct agent_options, max_retries), 0, 20, "N",
	"further tries of a model's request (default: 2)"},
    {"--max-tokens", NUMBER, offsetof(struct agent_options, max_tokens), 1, UINT32_MAX, "N",
	"the run's tokens, read and written, of all turns (default: no limit)"},
    {"--max-output-tokens", NUMBER, offsetof(struct agent_options, max_output_tokens), 1, 10000000,
	"N", "tokens of one answer (default: 16384, or the server's own)"},
    {"--context-tokens", NUMBER, offsetof(struct agent_options, context_tokens), 1000, 100000000,
	"N", "tokens that the model takes (default: as the price table or its provider says)"},
    {"--config", TEXT, offsetof(struct agent_options, config), 0, 0, "FILE",
	"prices of models (default: " PRICES_FILE ", if it is there)"},
    {"--max-cost", AMOUNT, offsetof(struct agent_options, max_cost), 0, 0, "AMOUNT",
	"what the model may cost, in the currency of the prices (default: no limit)"},
    {"--max-calls", CALLS, 0, 0, 0, "TARGET=N",
	"actions on that target that are let through; may be repeated (default: no limit)"},
    {"--max-call-output", NUMBER, offsetof(struct agent_options, max_call_output), 1, UINT32_MAX,
	"N", "bytes that one call may write; more ends the run (default: no limit)"},
    {"--agent", TEXT, offsetof(struct agent_options, agent), 0, 0, "NAME",
	"the agent's name for the policy (default: cofferdam)"},
    {"--profile", TEXT, offsetof(struct agent_options, profile), 0, 0, "NAME",
	"what the command's agent is told (default: by the command's name)"},
    {"--no-profile", FLAG, offsetof(struct agent_options, no_profile), 0, 0, "",
	"nothing is told to it"},
    {"--target", TARGET, 0, 0, 0, "T", "ask for this target alone; may be repeated"},
    {"--effect", EFFECT, 0, 0, 0, "E",
	"of what the policy gives, this alone, as read or @data; may be repeated"},
    {"--parent", TEXT, offsetof(struct agent_options, parent), 0, 0, "RUN",
	"as a child of that run of yours: with no more than it has, and ended with it"},
    {"--max-turns", NUMBER, offsetof(struct agent_options, max_turns), 1, 10000, "N",
	"the loop's turns (default: 100)"},
    {"--max-time", NUMBER, offsetof(struct agent_options, max_time_s), 1, 86400, "S",
	"the run's seconds (default: 3600)"},
    {"--json", FLAG, offsetof(struct agent_options, json), 0, 0, "",
	"the loop as one JSON object a line, for machines"},
    {"--quiet", FLAG, offsetof(struct agent_options, quiet), 0, 0, "", "no transcript of the loop"},
    {"--workspace", TEXT, offsetof(struct agent_options, workspace), 0, 0, "DIR",
	"becomes /work (default: an empty tmpfs of --disk, gone at the end)"},
    {"--workspace-unsafe", FLAG, offsetof(struct agent_options, workspace_unsafe), 0, 0, "",
	"allow a workspace that holds ~/.ssh or the like; the level says so"},
    {"--ro-bind", BIND, 0, 0, 0, "HOST[:INSIDE]",
	"show a path of the host read-only; may be repeated"},
    {"--timeout", NUMBER, offsetof(struct agent_options, timeout_s), 1, 86400, "S",
	"seconds for the command, or for one turn's code (loop: 300)"},
    {"--memory", NUMBER32, offsetof(struct agent_options, limits.memory_mib), 16, 1 << 20, "MIB",
	"memory of all programs, /tmp and a private /work (default: 1024)"},
    {"--cpu", NUMBER32, offsetof(struct agent_options, limits.cpu_percent), 1, 6400, "PERCENT",
	"100 is one processor (default: 200)"},
    {"--pids", NUMBER32, offsetof(struct agent_options, limits.pids), 4, 32768, "N",
	"processes and threads (default: 256)"},
    {"--output", NUMBER32, offsetof(struct agent_options, limits.output_mib), 1, 4096, "MIB",
	"output of one command; more ends it (default: 64)"},
    {"--disk", NUMBER32, offsetof(struct agent_options, limits.workspace_mib), 1, 1 << 20, "MIB",
	"size of /tmp and of a private /work, each (default: 512)"},
    {"--limits-optional", FLAG, offsetof(struct agent_options, limits_optional), 0, 0, "",
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
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO_FREE char *left = xasprintf("%s %s", rows[i].name, rows[i].arg);

		(void)printf("  %-24s %s\n", left, rows[i].what);
	}
	(void)printf("  %-24s print this\n", "--help");
}

static int
bind_add(struct agent_options *o, const char *value, struct err *err)
{
	char *text, *colon;

	if (o->nbinds == SANDBOX_BINDS_MAX)
		return err_set(err, ERR_INVALID, "--ro-bind: at most %d", SANDBOX_BINDS_MAX);
	text = xstrdup(value);
	o->bind_text[o->nbinds] = text;
	colon = strrchr(text, ':');
	if (colon == NULL) {
		o->binds[o->nbinds] = (struct sandbox_bind){.host_path = text, .inside = text};
	} else {
		*colon = '\0';
		o->binds[o->nbinds] = (struct sandbox_bind){.host_path = text, .inside = colon + 1};
	}
	o->nbinds++;
	return 0;
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
number_take(const struct row *r, const char *value, uint64_t *ret, struct err *err)
{
	uint64_t v;

	if (!str_to_u64(str_z(value), UINT64_MAX, &v) || v < r->min || v > r->max)
		return err_set(err, ERR_INVALID, "%s must be a number from %llu to %llu, is \"%s\"",
		    r->name, (unsigned long long)r->min, (unsigned long long)r->max, value);
	*ret = v;
	return 0;
}

static int
value_take(struct agent_options *o, const struct row *r, const char *value, struct err *err)
{
	char *field = (char *)o + r->at;
	uint64_t v = 0;
	int rc;

	switch (r->kind) {
	case TEXT: memcpy(field, &value, sizeof(value)); return 0;
	case NUMBER: return number_take(r, value, (uint64_t *)(void *)field, err);
	case NUMBER32:
		if ((rc = number_take(r, value, &v, err)) == 0)
			*(uint32_t *)(void *)field = (uint32_t)v;
		return rc;
	case FLAG: *(bool *)field = true; return 0;
	case TARGET:
		if (o->ntargets == AGENT_TARGETS_MAX)
			return err_set(err, ERR_INVALID, "--target: at most %d", AGENT_TARGETS_MAX);
		o->targets[o->ntargets++] = value;
		return 0;
	case EFFECT:
		if (o->neffects == AGENT_EFFECTS_MAX)
			return err_set(err, ERR_INVALID, "--effect: at most %d", AGENT_EFFECTS_MAX);
		o->effects[o->neffects++] = value;
		return 0;
	case BIND: return bind_add(o, value, err);
	case CALLS: return calls_add(o, value, err);
	case AMOUNT:
		if (!prices_amount(str_z(value), (uint64_t *)(void *)field) ||
		    *(uint64_t *)(void *)field == 0)
			return err_set(err, ERR_INVALID,
			    "%s must be an amount above 0 of at most six decimals, is \"%s\"",
			    r->name, value);
		return 0;
	}
	return err_set(err, ERR_INTERNAL, "%s", r->name);
}

static const struct row *
row_find(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
			return &rows[i];
	return NULL;
}

int
agent_options_parse(int argc, char **argv, struct agent_options *o, struct err *err)
{
	*o = (struct agent_options){.max_retries = MODEL_RETRIES_DEFAULT};
	for (int i = 1; i < argc; i++) {
		const char *eq = strchr(argv[i], '=');
		size_t n = eq != NULL ? (size_t)(eq - argv[i]) : strlen(argv[i]);
		const struct row *r = row_find(argv[i], n);
		const char *value = eq != NULL ? eq + 1 : NULL;
		int rc;

		if (strcmp(argv[i], "--") == 0) {
			o->command = i + 1 < argc ? &argv[i + 1] : NULL;
			return o->command != NULL
				   ? 0
				   : err_set(err, ERR_INVALID, "no command after --");
		}
		if (r == NULL)
			return err_set(err, ERR_INVALID, "\"%s\" is not an option", argv[i]);
		if (r->kind == FLAG && value != NULL)
			return err_set(err, ERR_INVALID, "%s takes no value", r->name);
		if (r->kind != FLAG && value == NULL && (value = argv[++i]) == NULL)
			return err_set(err, ERR_INVALID, "%s needs a value", r->name);
		if ((rc = value_take(o, r, value, err)) != 0)
			return rc;
	}
	return 0;
}

void
agent_options_free(struct agent_options *o)
{
	for (size_t i = 0; i < o->nbinds; i++)
		free(o->bind_text[i]);
	for (size_t i = 0; i < o->ncalls; i++)
		free(o->calls[i].target);
}
