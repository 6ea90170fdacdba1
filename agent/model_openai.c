/*
 * OpenAI Chat Completions (process: cofferdam-agent). Many servers speak it, each with its own
 * gaps: ids, indices and usage may be missing, arguments may come whole. What is unknown is passed
 * over; no field is sent that the published API does not have.
 */
#include "agent/model_openai.h"

#include "common/jcs.h"

#include "common/banned.h"

/* --- stream ---------------------------------------------------------------------- */

static void
usage_take(struct reply *r, const struct json *usage)
{
	int64_t in = json_int(json_get(usage, "prompt_tokens"));
	int64_t out = json_int(json_get(usage, "completion_tokens")), cached;

	if (json_type(usage) != JSON_OBJECT)
		return;
	r->usage = true;
	r->tokens_in = in > 0 ? (uint64_t)in : 0;
	r->tokens_out = out > 0 ? (uint64_t)out : 0;
	cached = json_int(json_get(json_get(usage, "prompt_tokens_details"), "cached_tokens"));
	r->cache_read = cached > 0 ? (uint64_t)cached : 0;
}

static struct reply_block *
last_call(struct reply *r)
{
	for (size_t i = r->n; i > 0; i--)
		if (r->blocks[i - 1].kind == REPLY_TOOL)
			return &r->blocks[i - 1];
	return NULL;
}

/* By index; without one, a new id or name begins a call and all else belongs to the last. */
static int
call_find(struct reply *r, const struct json *c, struct reply_block **ret, struct err *err)
{
	const struct json *index = json_get(c, "index");
	struct str id = json_str(json_get(c, "id"));
	struct str name = json_str(json_get(json_get(c, "function"), "name"));
	struct reply_block *last = last_call(r);

	if (json_type(index) == JSON_INT && json_int(index) >= 0)
		return reply_block(r, REPLY_TOOL, json_int(index), ret, err);
	if (last != NULL && (id.n == 0 || (last->id != NULL && str_eqz(id, last->id))) &&
	    (id.n != 0 || name.n == 0)) {
		*ret = last;
		return 0;
	}
	return reply_block(r, REPLY_TOOL, -1, ret, err);
}

static int
call_take(struct reply *r, const struct json *c, struct err *err)
{
	const struct json *f = json_get(c, "function"), *args = json_get(f, "arguments");
	struct reply_block *b;
	struct jcs j;
	int rc = call_find(r, c, &b, err);

	if (rc != 0)
		return rc;
	reply_set(&b->id, json_str(json_get(c, "id")));
	reply_set(&b->name, json_str(json_get(f, "name")));
	if (json_type(args) != JSON_OBJECT)
		return reply_add(r, &b->text, json_str(args), err);
	/* An object where the API has a string: said whole. */
	buf_reset(&b->text);
	jcs_init(&j, &b->text);
	if (jcs_value(&j, NULL, args, err) != 0)
		buf_reset(&b->text);
	return 0;
}

static enum reply_stop
stop_of(struct str reason)
{
	if (str_eqz(reason, "length"))
		return REPLY_LENGTH;
	if (str_eqz(reason, "content_filter"))
		return REPLY_REFUSED;
	if (str_eqz(reason, "tool_calls") || str_eqz(reason, "function_call"))
		return REPLY_CALLS;
	return REPLY_END;
}

static int
text_take(struct reply *r, struct str more, struct err *err)
{
	struct reply_block *b;
	int rc;

	if (more.n == 0)
		return 0;
	rc = reply_block(r, REPLY_TEXT, 0, &b, err);
	return rc != 0 ? rc : reply_add(r, &b->text, more, err);
}

static int
choice_take(struct reply *r, const struct json *c, struct err *err)
{
	const struct json *d = json_get(c, "delta"), *calls;
	struct str reason = json_str(json_get(c, "finish_reason")), no;
	int rc;

	if (json_type(d) != JSON_OBJECT)
		d = json_get(c, "message");
	no = json_str(json_get(d, "refusal"));
	calls = json_get(d, "tool_calls");
	if ((rc = text_take(r, json_str(json_get(d, "content")), err)) != 0 ||
	    (rc = text_take(r, no, err)) != 0)
		return rc;
	for (size_t i = 0; json_type(calls) == JSON_ARRAY && i < json_count(calls); i++)
		if ((rc = call_take(r, json_at(calls, i), err)) != 0)
			return rc;
	if (no.n != 0)
		r->stop = REPLY_REFUSED;
	else if (reason.n != 0 && r->stop != REPLY_REFUSED)
		r->stop = stop_of(reason);
	return 0;
}

static void
error_take(struct reply *r, const struct json *e)
{
	struct str type = json_str(json_get(e, "type"));

	if (json_type(e) == JSON_STRING)
		reply_error(r, STR("error"), json_str(e));
	else
		reply_error(r, type.n != 0 ? type : json_str(json_get(e, "code")),
		    json_str(json_get(e, "message")));
}

static int
chunk_take(struct reply *r, const struct json *ev, struct err *err)
{
	const struct json *e = json_get(ev, "error"), *choices = json_get(ev, "choices");

	if (json_type(e) != JSON_NULL) {
		error_take(r, e);
		return 1;
	}
	usage_take(r, json_get(ev, "usage"));
	if (json_type(choices) != JSON_ARRAY || json_count(choices) == 0)
		return 0;
	return choice_take(r, json_at(choices, 0), err);
}

int
openai_event(void *reply, struct str name UNUSED, struct str data, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	struct reply *r = reply;
	int rc;

	rc = model_event_read(data, &d, err);
	r->ended = r->ended || rc == 1;
	return rc != 0 ? rc : chunk_take(r, json_root(d), err);
}

/* --- requests -------------------------------------------------------------------- */

static void
path(const char *base_path, struct buf *out)
{
	buf_printf(out, "%s/chat/completions", base_path[0] != '\0' ? base_path : "/v1");
}

static void
words(struct buf *out, struct str text)
{
	model_text_put(out, "user", text, NULL);
}

static void
task(struct model_talk *t, struct str text)
{
	model_text_put(model_talk_next(t), "system", str_z(t->system), NULL);
	model_text_put(&t->last, "user", text, NULL);
}

static void
tool_put(struct jcs *j, const struct tool *t)
{
	AUTO_BUF struct buf schema = BUF(8192);

	tool_schema(t, &schema);
	jcs_open(j, NULL);
	jcs_open(j, "function");
	jcs_z(j, "description", t->what);
	jcs_z(j, "name", t->name);
	jcs_raw(j, "parameters", buf_str(&schema));
	jcs_close(j);
	jcs_z(j, "type", "function");
	jcs_close(j);
}

static void
request(const struct model_talk *t, struct buf *out)
{
	AUTO_BUF struct buf messages = BUF(MODEL_REQUEST_MAX);
	struct jcs j;

	model_talk_messages(t, &messages);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if (t->max_output != 0)
		jcs_int(&j, "max_completion_tokens", (int64_t)t->max_output);
	jcs_raw(&j, "messages", buf_str(&messages));
	jcs_z(&j, "model", t->model);
	jcs_bool(&j, "stream", true);
	jcs_open(&j, "stream_options");
	jcs_bool(&j, "include_usage", true);
	jcs_close(&j);
	jcs_array(&j, "tools");
	for (size_t i = 0; i < tool_count(); i++)
		tool_put(&j, tool_at(i));
	jcs_array_end(&j);
	jcs_close(&j);
	if (buf_over(&messages))
		out->over = true;
}

/* --- the conversation ------------------------------------------------------------ */

static void
call_put(struct jcs *j, const struct reply_block *b)
{
	jcs_open(j, NULL);
	jcs_open(j, "function");
	jcs_str_lossy(j, "arguments", b->text.n != 0 ? buf_str(&b->text) : STR("{}"));
	jcs_z(j, "name", b->name);
	jcs_close(j);
	jcs_z(j, "id", b->id);
	jcs_z(j, "type", "function");
	jcs_close(j);
}

static void
said(struct model_talk *t, const struct reply *r)
{
	struct str text = STR_NONE;
	size_t calls = 0;
	struct jcs j;

	for (size_t i = 0; i < r->n; i++) {
		calls += r->blocks[i].kind == REPLY_TOOL;
		if (r->blocks[i].kind == REPLY_TEXT)
			text = buf_str(&r->blocks[i].text);
	}
	if (calls == 0 && text.n == 0)
		return;
	jcs_init(&j, model_talk_next(t));
	jcs_open(&j, NULL);
	if (text.n != 0)
		jcs_str_lossy(&j, "content", text);
	jcs_z(&j, "role", "assistant");
	if (calls != 0) {
		jcs_array(&j, "tool_calls");
		for (size_t i = 0; i < r->n; i++)
			if (r->blocks[i].kind == REPLY_TOOL)
				call_put(&j, &r->blocks[i]);
		jcs_array_end(&j);
	}
	jcs_close(&j);
}

static void
answers(struct model_talk *t, const struct reply *r, const struct model_ask *ask, struct str note)
{
	struct buf *out = model_talk_next(t);
	size_t at = 0;

	for (size_t i = 0; i < r->n && at < ask->nanswers; i++)
		if (r->blocks[i].kind == REPLY_TOOL)
			model_text_put(out, "tool", ask->answers[at++].text, r->blocks[i].id);
	if (note.n != 0)
		model_text_put(out, "user", note, NULL);
}

bool
openai_error(struct str body, char **ret_type, char **ret_text, bool *ret_final)
{
	static const char *const spent[] = {
	    "insufficient_quota", "billing_hard_limit_reached", "enforced_spend_limit_reached"};
	AUTO(json) struct json_doc *d = NULL;
	const struct json *e;
	struct str type, code;
	struct err ignored;

	if (json_parse_numbers(body, "error", &d, &ignored) != 0)
		return false;
	e = json_get(json_root(d), "error");
	type = json_str(json_get(e, "type"));
	code = json_str(json_get(e, "code"));
	if (json_type(e) != JSON_OBJECT && json_type(e) != JSON_STRING)
		return false;
	/* The code says more, where there is one. */
	reply_set(ret_type, str_eqz(code, "context_length_exceeded") || type.n == 0 ? code : type);
	reply_set(
	    ret_text, json_type(e) == JSON_STRING ? json_str(e) : json_str(json_get(e, "message")));
	for (size_t i = 0; i < ARRAY_LEN(spent); i++)
		*ret_final = *ret_final || str_eqz(code, spent[i]) || str_eqz(type, spent[i]);
	return true;
}

const struct model_provider model_openai = {.name = "openai",
    .default_base = "https://api.openai.com/v1",
    .context = 128000,
    .path = path,
    .task = task,
    .request = request,
    .event = openai_event,
    .said = said,
    .answers = answers,
    .words = words,
    .error = openai_error};
