/*
 * Executions of cofferdam-mcp: a call's work from the moment that it is accepted until somebody has
 * its result. Runs in the hub. A call waits a bounded time; the work goes on behind it.
 */
#include "agent/mcp_client.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define RESULT_MAX ((size_t)12 << 20)

static bool
is_execution(const struct mcp_work *w)
{
	return w->order.tool == MCP_RUN_CODE || w->order.tool == MCP_RUN_COMMAND;
}

void
mcp_work_free(struct mcp_work *w)
{
	struct mcp_client *c = w->c;

	if (w->id[0] != '\0') {
		TAILQ_REMOVE(&c->works, w, link);
		*(w->state == MCP_ENDED ? &c->nkept : &c->nlive) -= 1;
	}
	if (w->call != NULL)
		w->call->work = NULL;
	if (w->context != NULL && w->state == MCP_RUNS)
		w->context->busy = false;
	loop_timer_del(w->timer);
	mcp_wire_free(w->wire);
	json_free(w->doc);
	for (size_t i = 0; i < ARRAY_LEN(w->said); i++)
		free(w->said[i]);
	free(w->result);
	free(w->failure);
	free(w);
}

struct mcp_work *
mcp_work_find(struct mcp_client *c, struct str id)
{
	struct mcp_work *w;

	TAILQ_FOREACH (w, &c->works, link)
		if (str_eqz(id, w->id))
			return w;
	return NULL;
}

/* --- who waits ------------------------------------------------------------------------- */

struct mcp_call *
mcp_work_leave(struct mcp_work *w)
{
	struct mcp_call *call = TAKE_PTR(w->call);

	loop_timer_del(w->timer);
	w->timer = NULL;
	call->work = NULL;
	return call;
}

static void
answer(struct mcp_work *w)
{
	AUTO_BUF struct buf b = BUF(RESULT_MAX);
	struct mcp_call *call = mcp_work_leave(w);

	if (w->failure != NULL) {
		mcp_call_failed(call, w->failure);
	} else if (is_execution(w)) {
		buf_printf(
		    &b, "{\"execution_id\":\"%s\",\"state\":\"ended\",%s", w->id, w->result + 1);
		mcp_call_structured(call, buf_str(&b), w->failed);
	} else {
		mcp_call_structured(call, str_z(w->result), w->failed);
	}
	mcp_work_free(w);
}

/* It takes longer than a call may: the work goes on. */
static void
on_wait_over(void *arg)
{
	struct mcp_work *w = arg;
	AUTO_BUF struct buf b = BUF(1024);
	struct mcp_call *call;

	w->timer = NULL;
	call = mcp_work_leave(w);
	if (is_execution(w)) {
		buf_printf(&b,
		    "{\"execution_id\":\"%s\",\"hint\":\"it goes on: ask execution_status, which "
		    "waits "
		    "for its end\",\"state\":\"running\"}",
		    w->id);
		mcp_call_structured(call, buf_str(&b), false);
		return;
	}
	buf_printf(
	    &b, "this takes longer than a call may: it goes on; ask execution_status of %s", w->id);
	buf_put_c(&b, '\0');
	mcp_call_failed(call, (const char *)b.p);
}

void
mcp_work_wait(struct mcp_work *w, struct mcp_call *call)
{
	w->call = call;
	call->work = w;
	if (w->state == MCP_ENDED)
		answer(w);
	else
		w->timer = loop_timer_add(w->c->loop, w->c->config->wait_ms, on_wait_over, w);
}

/* --- its end --------------------------------------------------------------------------- */

static void
forget_oldest(struct mcp_client *c)
{
	struct mcp_work *w;

	TAILQ_FOREACH (w, &c->works, link)
		if (w->state == MCP_ENDED) {
			mcp_work_free(w);
			return;
		}
}

void
mcp_work_ended(struct mcp_work *w)
{
	struct mcp_client *c = w->c;

	if (w->context != NULL && w->state == MCP_RUNS)
		w->context->busy = false;
	w->context = NULL;
	w->state = MCP_ENDED;
	c->nlive--;
	c->nkept++;
	/* Kept in the order of their ends: the one that a caller has in hand is never the oldest.
	 */
	TAILQ_REMOVE(&c->works, w, link);
	TAILQ_INSERT_TAIL(&c->works, w, link);
	mcp_wire_free(TAKE_PTR(w->wire));
	if (w->call != NULL)
		answer(w);
	else if (c->nkept > MCP_KEPT_MAX)
		forget_oldest(c);
}

void
mcp_work_fail(struct mcp_work *w, const char *words)
{
	free(w->failure);
	w->failure = xstrdup(words);
	mcp_work_ended(w);
}

void
mcp_work_stop(struct mcp_work *w)
{
	struct mcp_client *c = w->c;

	if (w->stopped || w->state == MCP_ENDED)
		return;
	w->stopped = true;
	if (w->state == MCP_WAITS) {
		mcp_work_fail(w, "it was stopped before it began");
		return;
	}
	mcp_wire_send(w->wire, MCP_F_STOP, STR(""));
	mcp_client_turn(c);
}

/* --- what its job says ------------------------------------------------------------------ */

static void
on_progress(struct mcp_work *w, struct str body)
{
	struct rd r = rd_init(body);
	uint64_t n = rd_u64(&r);
	AUTO_FREE char *line = str_dup(rd_lstr(&r));

	if (!rd_end(&r) || n <= w->progress || w->call == NULL)
		return;
	w->progress = n;
	mcp_call_progress(w->call, n, 0, line);
}

static void
on_context(struct mcp_work *w, struct str body)
{
	if (w->context != NULL && body.n <= KEEPER_ID_MAX) {
		(void)memcpy(w->context->id, body.p, body.n);
		w->context->id[body.n] = '\0';
	}
}

/* Its interpreter is not there any more: the next one of that name begins another. */
static void
on_failure(struct mcp_work *w, struct str body)
{
	struct rd r = rd_init(body);
	int code = -(int)rd_u32(&r);
	AUTO_FREE char *words = str_dup(rd_lstr(&r));

	if (w->context != NULL && code == ERR_NOT_FOUND)
		w->context->id[0] = '\0';
	mcp_work_fail(w, rd_end(&r) ? words : "the job's answer is malformed");
}

static void
on_result(struct mcp_work *w, struct str body)
{
	struct rd r = rd_init(body);
	bool failed = rd_u8(&r) != 0;
	struct str s = rd_lstr(&r);

	if (!rd_end(&r) || s.n < 2) {
		mcp_work_fail(w, "the job's answer is malformed");
		return;
	}
	w->failed = failed;
	w->result = str_dup(s);
	if (w->order.tool == MCP_END) {
		w->c->ends = true;
		mcp_client_run_over(w->c, "");
	}
	mcp_work_ended(w);
}

static void
on_frame(void *arg, enum mcp_frame type, struct str body)
{
	struct mcp_work *w = arg;
	struct mcp_client *c = w->c;

	if (type == MCP_F_PROGRESS) {
		on_progress(w, body);
		return;
	}
	if (type == MCP_F_CONTEXT) {
		on_context(w, body);
		return;
	}
	if (type == MCP_F_FAILURE)
		on_failure(w, body);
	else if (type == MCP_F_RESULT)
		on_result(w, body);
	else
		mcp_work_fail(w, w->stopped ? "it was stopped" : "the job that did it has ended");
	mcp_client_turn(c);
}

/* --- its beginning ---------------------------------------------------------------------- */

static void
on_child(void *arg UNUSED, pid_t pid UNUSED, int status UNUSED)
{
}

void
mcp_work_begin(struct mcp_work *w)
{
	struct err e = {0};
	int fd;

	w->order.keeper = w->c->keeper;
	w->order.context = w->context != NULL ? w->context->id : "";
	if (mcp_job_begin(&w->order, &w->pid, &fd, &e) != 0) {
		mcp_work_fail(w, e.msg);
		return;
	}
	loop_child_add(w->c->loop, w->pid, on_child, NULL);
	w->state = MCP_RUNS;
	if (w->context != NULL)
		w->context->busy = true;
	w->wire = mcp_wire_new(w->c->loop, fd, on_frame, w);
}

static struct mcp_context *
context_for(struct mcp_client *c, const struct mcp_args *a)
{
	struct str name = a->context.n != 0 ? a->context : a->language;

	for (size_t i = 0; i < c->ncontexts; i++)
		if (str_eqz(name, c->contexts[i].name) &&
		    str_eqz(a->language, c->contexts[i].language))
			return &c->contexts[i];
	if (c->ncontexts == MCP_CONTEXTS_MAX)
		return NULL;
	c->contexts[c->ncontexts] =
	    (struct mcp_context){.language = str_dup(a->language), .name = str_dup(name)};
	return &c->contexts[c->ncontexts++];
}

/* A text as it is, all else as JSON. */
static char *
said(const struct json *v)
{
	AUTO_BUF struct buf b = BUF(4096);

	if (json_type(v) == JSON_STRING)
		return str_dup(json_str(v));
	if (v != NULL)
		(void)mcp_value_put(&b, v);
	return buf_over(&b) ? xstrdup("(too long)") : buf_dup_z(&b);
}

/* What its client calls this call: it goes on the record with what is executed. */
static void
caller_note(struct mcp_work *w, const struct mcp_message *m)
{
	/* As clients send them that are known to (Claude Code; Codex). */
	const struct json *use = json_get(m->meta, "claudecode/toolUseId");

	w->said[0] = said(m->id_value);
	w->said[1] = said(json_get(m->meta, "progressToken"));
	w->said[2] = said(use != NULL ? use : json_get(m->meta, "callId"));
	w->said[3] = said(json_get(m->meta, "x-codex-turn-metadata"));
	w->order.caller =
	    (struct keeper_caller){w->said[0], w->said[1], w->said[2], w->said[3], w->id};
}

void
mcp_work_new(
    struct mcp_client *c, enum mcp_tool_id tool, const struct mcp_args *args, struct mcp_call *call)
{
	struct mcp_context *x = tool == MCP_RUN_CODE ? context_for(c, args) : NULL;
	struct mcp_work *w;

	if (tool == MCP_RUN_CODE && x == NULL) {
		mcp_call_failed(call, "16 contexts are open, the limit of a run: use one of them");
		return;
	}
	w = xcalloc(1, sizeof(*w));
	*w = (struct mcp_work){.c = c,
	    .state = MCP_WAITS,
	    .order = {.tool = tool, .args = *args, .life_fd = -1},
	    .context = x};
	caller_note(w, &call->m);
	w->doc = TAKE_PTR(call->m.doc);
	(void)snprintf(w->id, sizeof(w->id), "x%llu", (unsigned long long)++c->numbers);
	TAILQ_INSERT_TAIL(&c->works, w, link);
	c->nlive++;
	mcp_work_wait(w, call);
	mcp_client_turn(c);
}
