/*
 * The calls of one turn (process: cofferdam-agent). Code goes nowhere but into the sandbox, and is
 * on the record before it runs. What cannot be recorded is not run.
 */
#include "agent/agent_tools.h"

#include "common/jcs.h"
#include "common/xalloc.h"
#include "agent/agent_budget.h"
#include "agent/agent_context.h"

#include "common/banned.h"

static void
result_fields(const struct sandbox_result *r, uint64_t turn, size_t call, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if (call != 0)
		jcs_int(&j, "call", (int64_t)call);
	jcs_z(&j, "cause", sandbox_cause_name(r->cause));
	jcs_int(&j, "duration_us", (int64_t)r->duration_us);
	jcs_int(&j, "kept_bytes", (int64_t)(r->head.n + r->tail.n));
	jcs_int(&j, "total_bytes", (int64_t)r->total);
	jcs_int(&j, "turn", (int64_t)turn);
	jcs_int(&j, "value", r->value);
	jcs_close(&j);
}

void
loop_result_fields(const struct sandbox_result *r, uint64_t turn, struct buf *out)
{
	result_fields(r, turn, 0, out);
}

static int
record_exec(struct course *k, const struct model_call *call, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1024);
	struct jcs j;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	if (k->call != 0)
		jcs_int(&j, "call", (int64_t)k->call);
	jcs_str(&j, "language", call->language);
	jcs_int(&j, "turn", (int64_t)k->turn);
	jcs_close(&j);
	return broker_event(k->c->broker, "exec", buf_str(&fields), call->code, err);
}

/* The output as the model and the record get it; bytes that are no text are for nobody's eyes. */
static int
record_result(struct course *k, const struct sandbox_result *r, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1024), text = BUF((size_t)1 << 20);
	AUTO_FREE char *words = sandbox_result_words(r);
	int rc;

	result_fields(r, k->turn, k->call, &fields);
	sandbox_result_text(r, &text);
	transcript_text(&k->c->out, "> ", buf_str(&text));
	transcript_line(&k->c->out, "= %s, %llu bytes, %llu.%03llu s", words,
	    (unsigned long long)r->total, (unsigned long long)(r->duration_us / 1000000),
	    (unsigned long long)(r->duration_us / 1000 % 1000));
	rc = broker_event(k->c->broker, "result", buf_str(&fields), buf_str(&text), err);
	if (rc != 0)
		return rc;
	buf_printf(&text, "\n[%s]\n", words);
	context_answer(k, buf_str(&text), false);
	return 0;
}

/* What cannot be run (no such language, no such tool) is an answer to the model, not the end. */
static int
refused(struct course *k, const char *why, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(256);
	struct jcs j;
	int rc;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	if (k->call != 0)
		jcs_int(&j, "call", (int64_t)k->call);
	jcs_z(&j, "cause", "not_started");
	jcs_int(&j, "turn", (int64_t)k->turn);
	jcs_close(&j);
	transcript_text(&k->c->out, "> ", str_z(why));
	rc = broker_event(k->c->broker, "result", buf_str(&fields), str_z(why), err);
	if (rc == 0)
		context_answer(k, str_z(why), true);
	return rc;
}

static int
exec_one(
    struct course *k, const struct model_call *call, struct sandbox_result *ret, struct err *err)
{
	const struct loop_config *c = k->c;
	AUTO_FREE char *language = str_dup(call->language);
	uint64_t limit = c->exec_s != 0 ? c->exec_s : LOOP_EXEC_DEFAULT,
		 left = budget_left_seconds(k);
	struct sandbox_exec x = {.language = language,
	    .code = call->code,
	    .stdin_fd = -1,
	    .timeout_s = (uint32_t)(left == 0	   ? 1
				    : limit < left ? limit
						   : left),
	    .merge = true,
	    .env = (const char *const *)*c->env,
	    .head = LOOP_HEAD,
	    .tail = LOOP_TAIL,
	    .watch = broker_watch,
	    .watch_arg = c->broker,
	    .watch_fd = broker_fd(c->broker)};

	return sandbox_exec(c->sandbox, &x, ret, err);
}

static int
run_code(struct course *k, const struct model_call *call, struct err *err)
{
	const struct loop_config *c = k->c;
	struct sandbox_result r;
	struct err e = {0};
	int rc = record_exec(k, call, err);

	if (rc != 0)
		return rc;
	if (call->fault != NULL)
		return refused(k, call->fault, err);
	rc = exec_one(k, call, &r, &e);
	if (rc == ERR_NOT_FOUND || rc == ERR_TOO_LARGE)
		return refused(k, e.msg, err);
	if (rc != 0)
		return err_set(err, rc, "%s", e.msg);
	if (broker_killed(c->broker) != NULL)
		rc = err_set(err, ERR_STATE, "%s", broker_killed(c->broker));
	else
		rc = record_result(k, &r, err);
	if (rc == 0 && r.cause == SANDBOX_UNAVAILABLE)
		rc = err_set(err, ERR_UNAVAILABLE, "the sandbox went away");
	sandbox_result_free(&r);
	return rc;
}

int
tools_run(struct course *k, const struct model_turn *t, struct err *err)
{
	for (size_t i = 0; i < t->ncalls; i++) {
		int rc;

		k->call = t->ncalls > 1 ? i + 1 : 0;
		transcript_line(&k->c->out, "$ %.*s", STR_ARG(t->calls[i].language));
		transcript_text(&k->c->out, "  ", t->calls[i].code);
		if ((rc = run_code(k, &t->calls[i], err)) != 0)
			return rc;
	}
	return 0;
}
