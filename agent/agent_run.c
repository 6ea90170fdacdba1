/*
 * One run from registration to end. Runs in cofferdam-agent. Order matters: the plan says
 * which addresses to listen on, the sandbox makes the listeners, the broker must serve them
 * before any code runs, and the sandbox is gone before the run's end is reported.
 */
#include "agent/agent_run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/jcs.h"
#include "common/log.h"
#include "common/words.h"
#include "common/xalloc.h"
#include "agent/agent_budget.h"
#include "agent/agent_hold.h"
#include "agent/agent_loop.h"
#include "agent/agent_prompt.h"
#include "agent/agent_steer.h"
#include "agent/model_remote.h"
#include "agent/profile_find.h"
#include "agent/sandbox/sandbox_streams.h"

#include "common/banned.h"

/* With the person's own streams; a terminal at both ends is one inside, too. */
static int
command_stream(const struct agent_options *o, struct broker *b, struct sandbox *sb,
    struct sandbox_result *ret, int *status, struct err *err)
{
	struct sandbox_streams s = {.x = {.argv = o->command,
					.pipe_stdin = true,
					.stdin_fd = STDIN_FILENO,
					.tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO),
					.timeout_s = (uint32_t)o->timeout_s,
					.head = 65536,
					.tail = 65536,
					.watch = broker_watch,
					.watch_arg = b,
					.watch_fd = broker_fd(b)}};
	int rc = sandbox_streams_run(sb, &s, ret, status, err);

	if (rc == 0 && ret->cause != SANDBOX_EXITED) {
		AUTO_FREE char *words = sandbox_result_words(ret);

		log_warn("%s", words);
	}
	return rc;
}

/* `run -- COMMAND`: on the record before it starts, like the loop's code. */
static int
command_run(const struct agent_options *o, struct broker *b, const struct agent_steer *steer,
    int *status, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1 << 20), text = BUF(1 << 20), out = BUF(1 << 20);
	AUTO_FREE char *words = NULL;
	struct sandbox_result r;
	struct jcs j;
	int rc;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	jcs_int(&j, "argc", (int64_t)words_quote(&text, o->command));
	jcs_int(&j, "turn", 1);
	jcs_close(&j);
	if (buf_over(&text))
		return err_set(err, ERR_TOO_LARGE,
		    "the command is over %zu bytes, which is what a record takes", text.max);
	if ((rc = broker_event(b, "exec", buf_str(&fields), buf_str(&text), err)) != 0)
		return rc;
	if ((rc = command_stream(o, b, steer->sandbox, &r, status, err)) != 0)
		return rc;
	buf_reset(&fields);
	loop_result_fields(&r, 1, &fields);
	sandbox_result_text(&r, &out);
	words = sandbox_result_words(&r);
	sandbox_result_free(&r);
	if (broker_killed(b) != NULL)
		return err_set(err, ERR_STATE, "the run was ended: %s", broker_killed(b));
	if ((rc = broker_event(b, "result", buf_str(&fields), buf_str(&out), err)) != 0)
		return rc;
	if (steer->stop != NULL)
		return broker_end(b, "stopped", steer->stop, err);
	return broker_end(b, "done", words, err);
}

static struct loop_config
loop_of(const struct agent_options *o, struct agent_steer *steer)
{
	return (struct loop_config){.steer = steer,
	    .out = *steer->out,
	    .task = o->task,
	    .max_turns = o->max_turns,
	    .max_time_s = o->max_time_s,
	    .exec_s = o->timeout_s,
	    .max_tokens = o->max_tokens,
	    .max_cost = o->max_cost,
	    .max_call_output = o->max_call_output,
	    .prices = o->prices};
}

static loop_child_fn child_run;

static int
loop_run(const struct agent_options *o, struct broker *b, const struct agent_change *change,
    struct agent_steer *steer, struct model *m, struct loop_end *ret, struct err *err)
{
	struct loop_config c = loop_of(o, steer);
	int rc;

	c.broker = b;
	c.sandbox = change->sandbox;
	c.env = &change->env;
	c.model = m;
	if (o->model != NULL) {
		c.child = child_run;
		c.child_arg = (void *)(uintptr_t)o;
	}
	transcript_head(&c.out, broker_plan(b)->run, broker_plan(b)->owner,
	    o->agent != NULL ? o->agent : "cofferdam", o->task);
	rc = agent_loop(&c, ret, err);
	if (ret->status == NULL)
		return rc;
	transcript_line(&c.out, "-- %s", ret->status);
	transcript_line(&c.out, "   %s", ret->used);
	if (strcmp(ret->status, "done") != 0)
		log_error("run %s: %s: %s", broker_plan(b)->run, ret->status, ret->text);
	return rc;
}

static int
loop_connect(void *arg, int *ret_fd, struct err *err)
{
	return agent_socket_connect(arg, ret_fd, err);
}

static int
remote_open(const struct agent_options *o, struct broker *b, struct agent_steer *steer,
    struct agent_socket *loop, struct model **ret, struct err *err)
{
	const struct loop_config loop_config = loop_of(o, steer);
	AUTO_FREE char *system = prompt_make(&loop_config, broker_plan(b)->words);
	struct model_remote c = {.model = o->model,
	    .base_url = o->base_url,
	    .task = o->task,
	    .system = system,
	    .retries = o->max_retries,
	    .max_output = o->max_output_tokens,
	    .context = o->context_tokens != 0 ? o->context_tokens : o->prices.context,
	    .http = {.connect = loop_connect,
		.connect_arg = loop,
		.watch_fd = broker_fd(b),
		.watch = broker_watch,
		.watch_arg = b}};

	return model_remote_open(&c, ret, err);
}

/* The loop keeps the time; this is the last resort behind it. */
static uint32_t
wall_s(const struct agent_options *o)
{
	uint64_t s = (o->max_time_s != 0 ? o->max_time_s : LOOP_TIME_DEFAULT) + 60;

	return (uint32_t)(s < 86400 ? s : 86400);
}

static struct sandbox_spec
spec_of(const struct agent_options *o)
{
	struct sandbox_spec s = {.limits = o->limits,
	    .workspace = o->workspace,
	    .binds = o->binds.at,
	    .nbinds = o->binds.n,
	    .may_lack = o->limits_optional ? SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER : 0};

	s.limits.wall_s = wall_s(o);
	return s;
}

static struct agent_hold_ask
hold_of(const struct agent_options *o, const struct sandbox_workspace *ws, const char *path,
    const char *budget, struct agent_steer *steer)
{
	return (struct agent_hold_ask){.broker = {.socket = path,
					   .agent = o->agent != NULL ? o->agent : "cofferdam",
					   .task = o->task != NULL ? o->task : o->command[0],
					   .targets = o->targets,
					   .ntargets = o->ntargets,
					   .parent = o->parent,
					   .effects = o->effects,
					   .neffects = o->neffects,
					   .budget = budget,
					   .steer = steer,
					   .wrapped = o->use != NULL,
					   .loop = o->model != NULL},
	    .profile = o->use,
	    .spec = spec_of(o),
	    .ws = ws};
}

/* What the loop will keep to, for the record, and for its children. Of a command nothing, but below
 * a parent: what bounds that one has to be said again, and core ends the child at its seconds. */
static char *
budget_asked(const struct agent_options *o)
{
	const struct loop_config c = {.max_turns = o->max_turns,
	    .max_time_s = o->max_time_s,
	    .max_tokens = o->max_tokens,
	    .max_cost = o->max_cost};
	const struct budget b = budget_of(&c);
	AUTO_BUF struct buf out = BUF(512);
	struct jcs j;

	if (o->command != NULL && o->parent == NULL)
		return xstrdup("");
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	if (b.cost != 0)
		jcs_int(&j, "cost", (int64_t)b.cost);
	jcs_int(&j, "seconds", (int64_t)b.time_s);
	if (b.tokens != 0)
		jcs_int(&j, "tokens", (int64_t)b.tokens);
	jcs_int(&j, "turns", (int64_t)b.turns);
	jcs_close(&j);
	return buf_dup_z(&out);
}

/* A budget for a target that the run does not have is never spent: a misspelt one would be none. */
static int
calls_check(const struct agent_options *o, const struct broker_plan *p, struct err *err)
{
	for (size_t i = 0; i < o->ncalls; i++) {
		AUTO_BUF struct buf has = BUF(4096);
		size_t k = 0;

		while (k < p->ntargets && strcmp(o->calls[i].target, p->targets[k].target) != 0)
			buf_printf(&has, " %s", p->targets[k++].target);
		if (k == p->ntargets)
			return err_set(err, ERR_INVALID,
			    "--max-calls: the run has no target \"%s\", it has:%.*s",
			    o->calls[i].target, (int)has.n, (const char *)has.p);
	}
	return 0;
}

/* One run; out is the stream that it shares with its parent, if it has one. ret: of a loop. */
static int
run_inside(const struct agent_options *o, const struct sandbox_workspace *ws, struct model *m,
    struct transcript *out, struct loop_end *ret, int *status, struct err *err)
{
	AUTO_FREE char *path = agent_hold_socket(o->socket, o->state), *budget = budget_asked(o);
	AUTO_STEER struct agent_steer steer = {.out = out, .nlimits = o->ncalls};
	AUTO_HOLD struct agent_hold h = AGENT_HOLD;
	struct agent_hold_ask ask = hold_of(o, ws, path, budget, &steer);
	AUTO(model) struct model *remote = NULL;
	char prefix[11];
	struct err e = {0};
	int rc;

	memcpy(steer.limits, o->calls, sizeof(steer.limits));
	if ((rc = agent_hold_begin(&ask, &h, err)) != 0)
		return rc;
	steer.sandbox = h.sandbox;
	if (out->look.run == NULL) {
		out->look.run = broker_plan(h.broker)->run;
		rc = calls_check(o, broker_plan(h.broker), err);
	} else if (snprintf(prefix, sizeof(prefix), "%s", broker_plan(h.broker)->run) > 0)
		out->prefix = prefix;
	if (rc == 0 && o->model != NULL &&
	    (rc = remote_open(o, h.broker, &steer, &h.loop, &remote, err)) == 0)
		m = remote;
	if (rc == 0)
		rc = m != NULL ? loop_run(o, h.broker, &h.change, &steer, m, ret, err)
			       : command_run(o, h.broker, &steer, status, err);
	if (rc != 0)
		(void)broker_end(h.broker, "error", err->msg, &e);
	return rc;
}

/* --- children -------------------------------------------------------------------- */

static int
names_cut(
    struct str list, const char **names, size_t *n, size_t most, char **ret_text, struct err *err)
{
	char *at = *ret_text = str_dup(list), *save = NULL;

	*n = list.n == 0 ? *n : 0;
	for (char *w = list.n != 0 ? strtok_r(at, ", ", &save) : NULL; w != NULL;
	     w = strtok_r(NULL, ", ", &save)) {
		if (*n == most)
			return err_set(err, ERR_TOO_LARGE, "more than %zu names", most);
		names[(*n)++] = w;
	}
	return 0;
}

/* As its parent was asked for, but for what the model said; in a sandbox of its own. */
static int
child_run(void *arg, const struct loop_config *parent, const struct loop_child *c,
    struct loop_end *ret, struct err *err)
{
	struct agent_options own = *(const struct agent_options *)arg;
	struct transcript out = parent->out;
	AUTO_FREE char *targets = NULL, *effects = NULL;
	int status = 0, rc;

	own.parent = broker_plan(parent->broker)->run;
	own.task = c->task;
	own.workspace = NULL;
	own.max_turns = c->turns;
	own.max_time_s = c->seconds;
	own.max_tokens = c->tokens;
	own.max_cost = c->cost;
	for (size_t i = 0; i < own.ncalls; i++)
		own.calls[i].most -= parent->steer->limits[i].seen;
	own.ntargets = own.neffects = 0;
	if ((rc = names_cut(
		 c->targets, own.targets, &own.ntargets, AGENT_TARGETS_MAX, &targets, err)) != 0 ||
	    (rc = names_cut(
		 c->effects, own.effects, &own.neffects, AGENT_EFFECTS_MAX, &effects, err)) != 0)
		return rc;
	return run_inside(&own, NULL, NULL, &out, ret, &status, err);
}

static int
options_check(const struct agent_options *o, struct err *err)
{
	if (o->socket != NULL && o->state != NULL)
		return err_set(err, ERR_INVALID, "--state and --socket: give one");
	if ((o->command != NULL) + (o->script != NULL) + (o->model != NULL) > 1)
		return err_set(err, ERR_INVALID, "--model, --script and a command: give one");
	if (o->command == NULL && (o->task == NULL || (o->script == NULL && o->model == NULL)))
		return err_set(err, ERR_INVALID,
		    "needs --task TEXT and --model PROVIDER:NAME (or --script FILE), or -- "
		    "COMMAND...");
	if (o->model == NULL && (o->base_url != NULL || o->max_output_tokens != 0))
		return err_set(err, ERR_INVALID, "--base-url and --max-output-tokens need --model");
	if (o->model == NULL && o->max_cost != 0)
		return err_set(err, ERR_INVALID,
		    "--max-cost needs --model: a script has no price, and a command's model calls "
		    "are not counted");
	if (o->profile != NULL && (o->command == NULL || o->no_profile))
		return err_set(err, ERR_INVALID,
		    "--profile %s: for a command, and not beside --no-profile", o->profile);
	return o->model != NULL ? model_remote_check(o->model, o->base_url, err) : 0;
}

/* A budget of money needs prices: without them nothing would be counted. */
static int
prices_take(struct agent_options *o, struct err *err)
{
	int rc = prices_read(o->config, o->model, &o->prices, err);

	if (rc == 0 && o->max_cost != 0 && !o->prices.known)
		rc = err_set(err, ERR_CONFIG, "--max-cost: %s has no price for %s",
		    o->config != NULL ? o->config : PRICES_FILE, o->model);
	return rc;
}

int
agent_run(const struct agent_options *o)
{
	AUTO_WORKSPACE struct sandbox_workspace ws = {0};
	AUTO_FREE char *warning = NULL;
	const struct sandbox_guard guard = {.workspace = o->workspace,
	    .workspace_option = "--workspace",
	    .binds = o->binds.at,
	    .nbinds = o->binds.n,
	    .state = o->state,
	    .socket = o->socket,
	    .unsafe = o->workspace_unsafe};
	struct sandbox_spec given = {
	    .workspace = o->workspace, .binds = o->binds.at, .nbinds = o->binds.n};
	struct agent_options judged = *o;
	AUTO_TRANSCRIPT struct transcript out = {.fd = -1};
	AUTO(profile) struct profile *profile = NULL;
	AUTO(model) struct model *m = NULL;
	struct profile_use use;
	struct loop_end end = {0};
	struct err e = {0};
	int status = 1, rc;

	/* As it was given: the real paths behind it have no dots and are never relative. */
	if (options_check(o, &e) != 0 || sandbox_spec_check(&given, &e) != 0 ||
	    sandbox_workspace_check(&guard, &ws, &e) != 0 ||
	    (o->command != NULL && !o->no_profile &&
		profile_choose(o->profile, o->command[0], &profile, &e) != 0) ||
	    (o->script != NULL && model_script_open(o->script, &m, &e) != 0)) {
		log_error("%s", e.msg);
		return 2;
	}
	if ((warning = sandbox_workspace_warning(&ws)) != NULL)
		log_warn("%s", warning);
	sandbox_workspace_apply(&ws, judged.binds.at, &given);
	judged.workspace = given.workspace;
	if (o->model != NULL && prices_take(&judged, &e) != 0) {
		log_error("%s", e.msg);
		return 2;
	}
	use = (struct profile_use){
	    .profile = profile, .targets = o->targets, .ntargets = o->ntargets};
	judged.use = profile != NULL ? &use : NULL;
	/* A command has the terminal for itself. */
	if (!o->quiet && o->command == NULL)
		transcript_open(&out, STDOUT_FILENO, o->json);
	rc = run_inside(&judged, &ws, m, &out, &end, &status, &e);
	if (end.status != NULL)
		status = strcmp(end.status, "done") == 0 ? 0 : 1;
	free(end.text);
	free(end.used);
	if (rc == 0)
		return status;
	log_error("%s", e.msg);
	return status != 0 ? status : 1;
}
