/*
 * The calls of one turn (process: cofferdam-agent). Each is on the record before it runs, with what
 * the model gave it; what cannot be recorded is not run. A call that cannot be done is answered
 * with why, and the run goes on.
 */
#include "agent/agent_tools.h"

#include <string.h>

#include "common/jcs.h"
#include "common/xalloc.h"
#include "agent/agent_budget.h"
#include "agent/agent_context.h"

#include "common/banned.h"

#define FIELD_MAX 200 /* bytes of an argument in the record's fields */

/* --- the record ------------------------------------------------------------------ */

static void
result_fields(const struct tool_done *d, uint64_t turn, size_t call, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if (call != 0)
		jcs_int(&j, "call", (int64_t)call);
	jcs_z(&j, "cause", d->cause);
	jcs_int(&j, "duration_us", (int64_t)d->duration_us);
	jcs_int(&j, "kept_bytes", (int64_t)d->kept);
	jcs_int(&j, "total_bytes", (int64_t)d->total);
	jcs_int(&j, "turn", (int64_t)turn);
	jcs_int(&j, "value", d->value);
	jcs_close(&j);
}

void
loop_result_fields(const struct sandbox_result *r, uint64_t turn, struct buf *out)
{
	const struct tool_done d = {.cause = sandbox_cause_name(r->cause),
	    .value = r->value,
	    .total = r->total,
	    .kept = r->head.n + r->tail.n,
	    .duration_us = r->duration_us};

	result_fields(&d, turn, 0, out);
}

/* A field of the record: a number as itself, text only as much as helps to find it. */
static void
field_put(struct jcs *j, const struct tool_param *p, const struct model_call *call, size_t i)
{
	struct str s = call->args.text[i];

	if (p->type == TOOL_INTEGER)
		jcs_int(j, p->name, call->args.number[i]);
	else
		jcs_str_lossy(j, p->name, str_mem(s.p, s.n < FIELD_MAX ? s.n : FIELD_MAX));
}

struct named {
	const char *name;
	size_t param; /* of the tool's parameters, or one of the two below */
};
#define NAMED_CALL TOOL_PARAMS_MAX
#define NAMED_TOOL (TOOL_PARAMS_MAX + 1)
#define NAMED_TURN (TOOL_PARAMS_MAX + 2)

static int
named_cmp(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void
exec_fields(const struct course *k, const struct model_call *call, struct buf *out)
{
	struct named names[TOOL_PARAMS_MAX + 3];
	size_t n = 0;
	struct jcs j;

	for (size_t i = 1; call->fault == NULL && i < tool_params(call->tool); i++)
		if (call->args.given[i])
			names[n++] = (struct named){call->tool->params[i].name, i};
	if (k->call != 0)
		names[n++] = (struct named){"call", NAMED_CALL};
	names[n++] = (struct named){"tool", NAMED_TOOL};
	names[n++] = (struct named){"turn", NAMED_TURN};
	qsort(names, n, sizeof(names[0]), named_cmp);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	for (size_t i = 0; i < n; i++) {
		if (names[i].param == NAMED_TOOL)
			jcs_z(&j, "tool", call->tool != NULL ? call->tool->name : "");
		else if (names[i].param >= NAMED_CALL)
			jcs_int(&j, names[i].name,
			    (int64_t)(names[i].param == NAMED_CALL ? k->call : k->turn));
		else
			field_put(&j, &call->tool->params[names[i].param], call, names[i].param);
	}
	jcs_close(&j);
}

static int
record_exec(struct course *k, const struct model_call *call, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(8192);

	exec_fields(k, call, &fields);
	return broker_event(k->c->broker, "exec", buf_str(&fields),
	    call->fault == NULL ? call->args.text[0] : STR_NONE, err);
}

static int
record_result(struct course *k, const struct tool_done *d, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1024);

	result_fields(d, k->turn, k->call, &fields);
	return broker_event(k->c->broker, "result", buf_str(&fields), buf_str(&d->text), err);
}

/* --- the calls ------------------------------------------------------------------- */

int
tools_refuse(struct tool_done *d, const char *why)
{
	buf_reset(&d->text);
	buf_put_z(&d->text, why);
	d->cause = "not_started";
	d->failed = true;
	return 0;
}

uint32_t
tools_seconds(const struct course *k, uint64_t wanted, uint64_t usual)
{
	uint64_t left = budget_left_seconds(k), s = wanted != 0 ? wanted : usual;

	if (k->c->exec_s != 0 && s > k->c->exec_s)
		s = k->c->exec_s;
	s = s < left ? s : left;
	return (uint32_t)(s != 0 ? s : 1);
}

uint64_t
tools_wait_seconds(const struct course *k, uint64_t wanted)
{
	uint64_t left = budget_left_seconds(k);

	return wanted < left ? wanted : left;
}

static int
finish(
    struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err UNUSED)
{
	k->finished = str_dup(call->args.text[0]);
	k->outcome = str_eqz(call->args.text[1], "not_done") ? "not_done" : "done";
	ret->cause = "ok";
	return 0;
}

static const struct {
	enum tool_id id;
	tool_fn *fn;
} handlers[] = {
    {TOOL_RUN_CODE, tool_run_code},
    {TOOL_RUN_COMMAND, tool_run_command},
    {TOOL_READ_FILE, tool_read_file},
    {TOOL_WRITE_FILE, tool_write_file},
    {TOOL_ASK, tool_ask},
    {TOOL_WAIT_APPROVAL, tool_wait_approval},
    {TOOL_SUBAGENT, tool_subagent},
    {TOOL_FINISH, finish},
};

static int
call_do(struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err)
{
	if (call->fault != NULL)
		return tools_refuse(ret, call->fault);
	if (k->finished != NULL)
		return tools_refuse(ret, "not done: finish was called before it");
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++)
		if (handlers[i].id == call->tool->id)
			return handlers[i].fn(k, call, ret, err);
	return err_set(err, ERR_INTERNAL, "no handler of %s", call->tool->name);
}

static void
shown(const struct course *k, const struct model_call *call)
{
	const struct transcript *t = &k->c->out;
	const struct tool *tool = call->tool;

	if (call->fault != NULL) {
		transcript_line(t, "$ %s", tool != NULL ? tool->name : "?");
		return;
	}
	/* Code stands under its language, as it always did; other tools under their name. */
	if (tool->id == TOOL_RUN_CODE || tool->id == TOOL_RUN_COMMAND) {
		struct str language = call->args.text[1];

		transcript_line(t, "$ %.*s", STR_ARG(language.n != 0 ? language : STR("bash")));
	} else if (tool->id == TOOL_WRITE_FILE) {
		transcript_line(t, "$ %s %.*s", tool->name, STR_ARG(call->args.text[1]));
	} else {
		transcript_line(t, "$ %s", tool->name);
	}
	transcript_text(t, "  ", call->args.text[0]);
}

static void
answer_show(const struct course *k, const struct tool_done *d)
{
	transcript_text(&k->c->out, "> ", buf_str(&d->text));
	if (d->words != NULL)
		transcript_line(&k->c->out, "= %s, %llu bytes, %llu.%03llu s", d->words,
		    (unsigned long long)d->total, (unsigned long long)(d->duration_us / 1000000),
		    (unsigned long long)(d->duration_us / 1000 % 1000));
}

/* What was refused meanwhile: a program may have swallowed it, and the model is to know. */
static void
refused_put(struct course *k, struct buf *answer)
{
	AUTO_FREE char *lines = broker_take_refused(k->c->broker);

	if (lines[0] == '\0')
		return;
	transcript_text(&k->c->out, "! ", str_z(lines));
	buf_printf(answer, "\n[the broker refused meanwhile:\n%s]\n", lines);
}

static int
call_run(struct course *k, const struct model_call *call, struct err *err)
{
	AUTO_BUF struct buf answer = BUF((size_t)2 << 20);
	struct tool_done d = {.text = BUF((size_t)1 << 20), .cause = "ok"};
	int rc = record_exec(k, call, err);

	budget_call(k);
	if (rc == 0)
		rc = call_do(k, call, &d, err);
	/* What was ended from outside has no result: the run is over. */
	if (rc == 0 && broker_killed(k->c->broker) != NULL)
		rc = err_set(err, ERR_STATE, "%s", broker_killed(k->c->broker));
	if (rc == 0) {
		budget_output(k, d.total);
		answer_show(k, &d);
		rc = record_result(k, &d, err);
	}
	if (rc == 0) {
		buf_put_str(&answer, buf_str(&d.text));
		if (d.words != NULL)
			buf_printf(&answer, "\n[%s]\n", d.words);
		refused_put(k, &answer);
		context_answer(k, buf_str(&answer), d.failed);
	}
	buf_free(&d.text);
	free(d.words);
	return rc;
}

int
tools_run(struct course *k, const struct model_turn *t, struct err *err)
{
	for (size_t i = 0; i < t->ncalls; i++) {
		int rc;

		k->call = t->ncalls > 1 ? i + 1 : 0;
		if ((rc = broker_hold(k->c->broker, err)) != 0)
			return rc;
		shown(k, &t->calls[i]);
		if ((rc = call_run(k, &t->calls[i], err)) != 0)
			return rc;
	}
	return 0;
}

void
tools_end(struct course *k)
{
	for (size_t i = 0; i < COURSE_CONTEXTS; i++) {
		sandbox_context_close(k->contexts[i].context);
		k->contexts[i].context = NULL;
	}
	cleanup_free_ptr(&k->finished);
}
