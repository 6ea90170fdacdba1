/*
 * Code of the model's (process: cofferdam-agent): it goes nowhere but into the sandbox. What comes
 * back was written by that code, and is handed on as it is.
 */
#include <string.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "agent/agent_output.h"
#include "agent/agent_tools.h"

#include "common/banned.h"

#define DISPLAY_MAX ((size_t)64 << 10) /* of a last expression's value */

/* --- a program by itself --------------------------------------------------------- */

int
tool_run_command(
    struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err)
{
	const struct loop_config *c = k->c;
	AUTO_FREE char *language =
	    str_dup(call->args.text[1].n != 0 ? call->args.text[1] : STR("bash"));
	AUTO_OUTPUT struct output o;
	struct sandbox_exec x = {.language = language,
	    .code = call->args.text[0],
	    .stdin_fd = -1,
	    .timeout_s = tools_seconds(k, (uint64_t)call->args.number[2], LOOP_EXEC_DEFAULT),
	    .merge = true,
	    .env = (const char *const *)*c->env,
	    .output = output_take,
	    .output_arg = &o,
	    .head = LOOP_HEAD,
	    .tail = LOOP_TAIL,
	    .watch = broker_watch,
	    .watch_arg = c->broker,
	    .watch_fd = broker_fd(c->broker)};
	struct sandbox_result r;
	struct err e = {0};
	int rc;

	output_init(&o);
	rc = sandbox_exec(c->sandbox, &x, &r, &e);
	if (rc == ERR_NOT_FOUND || rc == ERR_TOO_LARGE)
		return tools_refuse(ret, e.msg);
	if (rc != 0)
		return err_set(err, rc, "%s", e.msg);
	output_tell(k, &o, &r, ret);
	ret->cause = sandbox_cause_name(r.cause);
	ret->value = r.value;
	ret->words = sandbox_result_words(&r);
	if (r.cause == SANDBOX_UNAVAILABLE)
		rc = err_set(err, ERR_UNAVAILABLE, "the sandbox went away");
	sandbox_result_free(&r);
	return rc;
}

/* --- a context that stays -------------------------------------------------------- */

struct cell {
	struct output output;
	struct buf shown; /* values of expressions */
};

static void
cell_output(void *arg, int stream, struct str bytes)
{
	output_take(&((struct cell *)arg)->output, stream, bytes);
}

static void
cell_display(void *arg, bool result UNUSED, struct str text)
{
	struct cell *c = arg;
	AUTO(json) struct json_doc *d = NULL;
	struct err ignored;
	struct str plain;

	if (json_parse_numbers(text, "display", &d, &ignored) != 0)
		return;
	plain = json_str(json_get(json_root(d), "text/plain"));
	if (plain.n != 0 && plain.n + 1 <= c->shown.max - c->shown.n) {
		buf_put_str(&c->shown, plain);
		buf_put_c(&c->shown, '\n');
	}
}

/* Its value if it names one; else why it has none. */
static int
context_of(struct course *k, struct str language, struct sandbox_context ***ret, struct err *err)
{
	static const char *const names[COURSE_CONTEXTS] = {"python", "bash", "javascript"};

	for (size_t i = 0; i < COURSE_CONTEXTS; i++) {
		if (!str_eqz(language, names[i]))
			continue;
		*ret = &k->contexts[i].context;
		if (**ret != NULL)
			return 0;
		return sandbox_context_open(k->c->sandbox, names[i], NULL, 0, *ret, err);
	}
	return err_set(err, ERR_NOT_FOUND, "there is no context of that language");
}

static void
line_begin(struct buf *b)
{
	if (b->n != 0 && b->p[b->n - 1] != '\n')
		buf_put_c(b, '\n');
}

static char *
end_words(const struct sandbox_cell_result *r)
{
	AUTO_FREE char *cause = sandbox_result_words(&r->out);

	switch (r->end) {
	case SANDBOX_CELL_OK: return xstrdup("ok");
	case SANDBOX_CELL_ERROR:
		if (strcmp(r->error_name, "exit") == 0)
			return xasprintf("exit %s", r->error_value);
		return xasprintf("error: %s", r->error_name);
	case SANDBOX_CELL_INTERRUPTED:
		return xasprintf("interrupted: %s; variables are still there",
		    r->cause == SANDBOX_TIMEOUT	 ? "time limit reached"
		    : r->cause == SANDBOX_OUTPUT ? "output limit reached"
						 : cause);
	case SANDBOX_CELL_LOST: break;
	}
	return xasprintf(
	    "%s: the interpreter ended, its variables are gone, the next call begins a "
	    "new one",
	    cause);
}

static const char *
end_cause(const struct sandbox_cell_result *r)
{
	switch (r->end) {
	case SANDBOX_CELL_OK: return "ok";
	case SANDBOX_CELL_ERROR: return "error";
	case SANDBOX_CELL_INTERRUPTED:
	case SANDBOX_CELL_LOST: break;
	}
	return sandbox_cause_name(r->cause);
}

static void
cell_tell(
    struct course *k, struct cell *c, const struct sandbox_cell_result *r, struct tool_done *d)
{
	output_tell(k, &c->output, &r->out, d);
	if (c->shown.n != 0) {
		line_begin(&d->text);
		buf_put_str(&d->text, buf_str(&c->shown));
	}
	if (r->traceback != NULL && r->traceback[0] != '\0') {
		line_begin(&d->text);
		buf_put_z(&d->text, r->traceback);
	}
	d->cause = end_cause(r);
	d->value = r->value;
	d->words = end_words(r);
}

int
tool_run_code(
    struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err)
{
	const struct loop_config *c = k->c;
	struct cell cell = {.shown = BUF(DISPLAY_MAX)};
	struct sandbox_cell x = {.code = call->args.text[0],
	    .timeout_ms =
		tools_seconds(k, (uint64_t)call->args.number[2], LOOP_EXEC_DEFAULT) * 1000,
	    .output = cell_output,
	    .display = cell_display,
	    .arg = &cell,
	    .watch_fd = broker_fd(c->broker),
	    .watch = broker_watch,
	    .watch_arg = c->broker,
	    .head = LOOP_HEAD,
	    .tail = LOOP_TAIL};
	struct sandbox_cell_result r;
	struct sandbox_context **context = NULL;
	struct err e = {0};
	int rc = context_of(k, call->args.text[1], &context, &e);

	output_init(&cell.output);
	if (rc == 0 && (rc = sandbox_context_run(*context, &x, &r, &e)) == 0) {
		cell_tell(k, &cell, &r, ret);
		if (r.cause == SANDBOX_UNAVAILABLE)
			rc = err_set(&e, ERR_UNAVAILABLE, "the sandbox went away");
		sandbox_cell_free(&r);
	} else if (rc == ERR_NOT_FOUND || rc == ERR_TOO_LARGE || rc == ERR_INVALID ||
		   rc == ERR_TIMEOUT) {
		rc = tools_refuse(ret, e.msg);
	}
	output_free(&cell.output);
	buf_free(&cell.shown);
	return rc != 0 ? err_set(err, rc, "%s", e.msg) : 0;
}
