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
#include "common/xalloc.h"
#include "agent/agent_broker.h"
#include "agent/agent_exec.h"
#include "agent/agent_loop.h"
#include "agent/agent_workspace.h"

#include "common/banned.h"

static char *
socket_path(const struct agent_options *o)
{
	if (o->socket != NULL)
		return xstrdup(o->socket);
	if (o->state != NULL)
		return xasprintf("%s/run/agent.sock", o->state);
	return xstrdup(AGENT_SOCKET_DEFAULT);
}

/* Ordinary clients find the first database without being told; passwords are not asked for. */
static void
env_make(const struct broker_plan *p, char **env)
{
	size_t n = 0;

	for (size_t i = 0; i < p->ntargets && n == 0; i++) {
		const struct broker_target *t = &p->targets[i];

		if (strcmp(t->kind, "postgres") != 0)
			continue;
		env[n++] = xasprintf("PGHOST=%s", t->host);
		env[n++] = xasprintf("PGPORT=%u", (unsigned)t->port);
		env[n++] = xasprintf("PGDATABASE=%s", t->database);
		env[n++] = xasprintf("PGUSER=%s", t->user);
		env[n++] = xstrdup("PGSSLMODE=verify-full");
	}
	env[n] = NULL;
}

static int
sandbox_for(const struct agent_options *o, struct broker *b, struct sandbox **ret, struct err *err)
{
	const struct broker_plan *p = broker_plan(b);
	struct sandbox_target targets[BROKER_TARGETS_MAX];
	char *env[8] = {0};
	struct sandbox_spec spec = {.limits = o->limits,
	    .workspace = o->workspace,
	    .binds = o->binds,
	    .nbinds = o->nbinds,
	    .targets = targets,
	    .ntargets = p->ntargets,
	    .env = (const char *const *)env,
	    .ca_pem = p->ca_pem[0] != '\0' ? p->ca_pem : NULL,
	    .limits_optional = o->limits_optional};
	int rc;

	/* The loop keeps the time; this is the last resort behind it. */
	spec.limits.wall_s =
	    (uint32_t)(o->max_time_s != 0 ? o->max_time_s : LOOP_TIME_DEFAULT) + 60;
	if (spec.limits.wall_s > 86400)
		spec.limits.wall_s = 86400;
	for (size_t i = 0; i < p->ntargets; i++)
		targets[i] = (struct sandbox_target){.host = p->targets[i].host,
		    .address = p->targets[i].address,
		    .port = p->targets[i].port};
	env_make(p, env);
	rc = sandbox_create(&spec, ret, err);
	for (size_t i = 0; env[i] != NULL; i++)
		free(env[i]);
	return rc;
}

static int
listeners_give(
    struct broker *b, struct sandbox *sb, const struct agent_workspace *ws, struct err *err)
{
	AUTO_FREE char *level = agent_workspace_level(ws, sandbox_level(sb));

	for (size_t i = 0; i < broker_plan(b)->ntargets; i++) {
		AUTO_FD int fd = sandbox_listener_take(sb, i);
		int rc = broker_listen(b, i, fd, err);

		if (rc != 0)
			return rc;
	}
	return broker_start(b, level, err);
}

/* `run -- COMMAND`: on the record before it starts, like the loop's code. */
static int
command_run(const struct agent_options *o, struct broker *b, struct sandbox *sb, int *status,
    struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1 << 20), text = BUF(1 << 20), out = BUF(1 << 20);
	AUTO_FREE char *words = NULL;
	struct sandbox_result r;
	struct jcs j;
	int rc;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	jcs_array(&j, "argv");
	for (size_t i = 0; o->command[i] != NULL; i++) {
		jcs_str_lossy(&j, NULL, str_z(o->command[i]));
		buf_printf(&text, "%s%s", i != 0 ? " " : "", o->command[i]);
	}
	jcs_array_end(&j);
	jcs_int(&j, "turn", 1);
	jcs_close(&j);
	if ((rc = broker_event(b, "exec", buf_str(&fields), buf_str(&text), err)) != 0)
		return rc;
	rc = agent_exec_stream(sb, o->command, o, broker_watch, b, broker_fd(b), &r, status, err);
	if (rc != 0)
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
	return broker_end(b, "done", words, err);
}

static int
loop_run(const struct agent_options *o, struct broker *b, struct sandbox *sb, struct model *m,
    int *status, struct err *err)
{
	struct loop_config c = {.broker = b,
	    .sandbox = sb,
	    .model = m,
	    .out = {.fd = o->quiet ? -1 : STDOUT_FILENO},
	    .task = o->task,
	    .max_turns = o->max_turns,
	    .max_time_s = o->max_time_s,
	    .exec_s = o->timeout_s};
	struct loop_end end = {0};
	int rc;

	transcript_head(&c.out, broker_plan(b)->run, broker_plan(b)->owner,
	    o->agent != NULL ? o->agent : "cofferdam", o->task);
	rc = agent_loop(&c, &end, err);
	if (end.status != NULL) {
		transcript_line(&c.out, "-- %s", end.status);
		if (strcmp(end.status, "done") != 0)
			log_error("run %s: %s: %s", broker_plan(b)->run, end.status, end.text);
		*status = strcmp(end.status, "done") == 0 ? 0 : 1;
		free(end.text);
	}
	return rc;
}

static int
run_inside(const struct agent_options *o, const struct agent_workspace *ws, struct model *m,
    int *status, struct err *err)
{
	AUTO_FREE char *path = socket_path(o);
	const char *task = o->task != NULL ? o->task : o->command[0];
	AUTO(broker) struct broker *b = NULL;
	AUTO(sandbox) struct sandbox *sb = NULL;
	struct err e = {0};
	int rc = broker_open(path, o->agent != NULL ? o->agent : "cofferdam", task, o->targets,
	    o->ntargets, &b, err);

	if (rc != 0)
		return rc;
	if ((rc = sandbox_for(o, b, &sb, err)) == 0 && (rc = listeners_give(b, sb, ws, err)) == 0)
		rc = m != NULL ? loop_run(o, b, sb, m, status, err)
			       : command_run(o, b, sb, status, err);
	if (rc != 0)
		(void)broker_end(b, "error", err->msg, &e);
	return rc;
}

static int
options_check(const struct agent_options *o, struct err *err)
{
	if (o->socket != NULL && o->state != NULL)
		return err_set(err, ERR_INVALID, "--state and --socket: give one");
	if (o->command != NULL && o->script != NULL)
		return err_set(err, ERR_INVALID, "--script and a command: give one");
	if (o->command == NULL && (o->task == NULL || o->script == NULL))
		return err_set(
		    err, ERR_INVALID, "needs --task TEXT and --script FILE, or -- COMMAND...");
	return 0;
}

int
agent_run(const struct agent_options *o)
{
	__attribute__((cleanup(agent_workspace_free))) struct agent_workspace ws = {0};
	AUTO(model) struct model *m = NULL;
	struct err e = {0};
	int status = 1;

	if (options_check(o, &e) != 0 || agent_workspace_check(o, &ws, &e) != 0 ||
	    (o->script != NULL && model_script_open(o->script, &m, &e) != 0)) {
		log_error("%s", e.msg);
		return 2;
	}
	if (run_inside(o, &ws, m, &status, &e) != 0) {
		log_error("%s", e.msg);
		return status != 0 ? status : 1;
	}
	return status;
}
