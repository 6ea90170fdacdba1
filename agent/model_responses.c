/*
 * OpenAI Responses (process: cofferdam-agent). Nothing is stored at the provider: each request has
 * the whole conversation, reasoning as it was sealed. The stream comes from outside: what is
 * unknown in it is passed over.
 */
#include "agent/model_responses.h"

#include "common/jcs.h"
#include "agent/model_openai.h"

#include "common/banned.h"

/* --- stream ---------------------------------------------------------------------- */

static uint64_t
count(const struct json *o, const char *key)
{
	int64_t n = json_int(json_get(o, key));

	return n > 0 ? (uint64_t)n : 0;
}

static void
usage_take(struct reply *r, const struct json *usage)
{
	if (json_type(usage) != JSON_OBJECT)
		return;
	r->usage = true;
	r->tokens_in = count(usage, "input_tokens");
	r->tokens_out = count(usage, "output_tokens");
	r->cache_read = count(json_get(usage, "input_tokens_details"), "cached_tokens");
}

static enum reply_kind
kind_of(struct str type)
{
	return str_eqz(type, "message")		? REPLY_TEXT
	       : str_eqz(type, "function_call") ? REPLY_TOOL
	       : str_eqz(type, "reasoning")	? REPLY_THINKING
						: REPLY_UNKNOWN;
}

static int
text_replace(struct reply *r, struct buf *to, struct str text, struct err *err)
{
	if (text.n == 0)
		return 0;
	buf_reset(to);
	return reply_add(r, to, text, err);
}

/* The parts of a message, if they did not come piece by piece. */
static int
parts_take(struct reply *r, struct reply_block *b, const struct json *parts, struct err *err)
{
	bool said = b->text.n != 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && json_type(parts) == JSON_ARRAY && i < json_count(parts);
	     i++) {
		const struct json *p = json_at(parts, i);
		struct str no = json_str(json_get(p, "refusal"));

		if (no.n != 0)
			r->stop = REPLY_REFUSED;
		if (!said)
			rc = reply_add(
			    r, &b->text, no.n != 0 ? no : json_str(json_get(p, "text")), err);
	}
	return rc;
}

/* Reasoning is kept as far as it can be said again: its summary, and what is sealed. */
static int
reasoning_take(struct reply *r, struct reply_block *b, const struct json *item, struct err *err)
{
	const struct json *list = json_get(item, "summary");
	struct jcs j;

	buf_reset(&b->text);
	jcs_init(&j, &b->text);
	jcs_array(&j, NULL);
	for (size_t i = 0; json_type(list) == JSON_ARRAY && i < json_count(list); i++) {
		jcs_open(&j, NULL);
		jcs_str(&j, "text", json_str(json_get(json_at(list, i), "text")));
		jcs_z(&j, "type", "summary_text");
		jcs_close(&j);
	}
	jcs_array_end(&j);
	if (buf_over(&b->text))
		return err_set(err, ERR_TOO_LARGE, "a block of the model's answer is too large");
	return text_replace(r, &b->signature, json_str(json_get(item, "encrypted_content")), err);
}

static int
item_take(struct reply *r, int64_t index, const struct json *item, struct err *err)
{
	enum reply_kind kind = kind_of(json_str(json_get(item, "type")));
	const struct json *args = json_get(item, "arguments");
	struct str id = json_str(json_get(item, kind == REPLY_TOOL ? "call_id" : "id"));
	struct reply_block *b;
	int rc = reply_block(r, kind, index, &b, err);

	if (rc != 0)
		return rc;
	reply_set(&b->id, id.n != 0 ? id : json_str(json_get(item, "id")));
	reply_set(&b->name, json_str(json_get(item, "name")));
	switch (kind) {
	case REPLY_TEXT: return parts_take(r, b, json_get(item, "content"), err);
	case REPLY_TOOL: return text_replace(r, &b->text, json_str(args), err);
	case REPLY_THINKING: return reasoning_take(r, b, item, err);
	case REPLY_REDACTED:
	case REPLY_UNKNOWN: break;
	}
	return 0;
}

static int
delta_take(struct reply *r, const struct json *ev, enum reply_kind kind, struct err *err)
{
	struct reply_block *b;
	int rc = reply_block(r, kind, json_int(json_get(ev, "output_index")), &b, err);

	return rc != 0 ? rc : reply_add(r, &b->text, json_str(json_get(ev, "delta")), err);
}

static int
error_take(struct reply *r, const struct json *e)
{
	struct str type = json_str(json_get(e, "code"));

	if (type.n == 0)
		type = json_str(json_get(e, "type"));
	reply_error(r, type, json_str(json_get(e, "message")));
	return 1;
}

/* The end of it; some servers tell the items only here. */
static int
response_take(struct reply *r, const struct json *o, struct err *err)
{
	struct str why = json_str(json_get(json_get(o, "incomplete_details"), "reason"));
	const struct json *items = json_get(o, "output");
	bool none = r->n == 0;
	int rc = 0;

	usage_take(r, json_get(o, "usage"));
	for (size_t i = 0;
	     none && rc == 0 && json_type(items) == JSON_ARRAY && i < json_count(items); i++)
		rc = item_take(r, (int64_t)i, json_at(items, i), err);
	if (rc != 0)
		return rc;
	r->ended = true;
	if (r->stop != REPLY_REFUSED)
		r->stop = str_eqz(why, "max_output_tokens") ? REPLY_LENGTH
			  : str_eqz(why, "content_filter")  ? REPLY_REFUSED
							    : REPLY_END;
	return 1;
}

static int
event_take(struct reply *r, const struct json *ev, struct err *err)
{
	struct str type = json_str(json_get(ev, "type"));
	const struct json *response = json_get(ev, "response");

	if (str_eqz(type, "response.output_item.added") ||
	    str_eqz(type, "response.output_item.done"))
		return item_take(
		    r, json_int(json_get(ev, "output_index")), json_get(ev, "item"), err);
	if (str_eqz(type, "response.output_text.delta"))
		return delta_take(r, ev, REPLY_TEXT, err);
	if (str_eqz(type, "response.refusal.delta")) {
		r->stop = REPLY_REFUSED;
		return delta_take(r, ev, REPLY_TEXT, err);
	}
	if (str_eqz(type, "response.function_call_arguments.delta"))
		return delta_take(r, ev, REPLY_TOOL, err);
	if (str_eqz(type, "response.completed") || str_eqz(type, "response.incomplete"))
		return response_take(r, response, err);
	if (str_eqz(type, "response.failed"))
		return error_take(r, json_get(response, "error"));
	if (str_eqz(type, "error"))
		return error_take(r,
		    json_type(json_get(ev, "error")) == JSON_OBJECT ? json_get(ev, "error") : ev);
	return 0;
}

int
responses_event(void *reply, struct str name UNUSED, struct str data, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	int rc = model_event_read(data, &d, err);

	return rc != 0 ? rc : event_take(reply, json_root(d), err);
}

/* --- requests -------------------------------------------------------------------- */

static void
path(const char *base_path, struct buf *out)
{
	buf_printf(out, "%s/responses", base_path[0] != '\0' ? base_path : "/v1");
}

static void
words(struct buf *out, struct str text)
{
	model_text_put(out, "user", text, NULL);
}

static void
task(struct model_talk *t, struct str text)
{
	words(model_talk_next(t), text);
}

static void
tool_put(struct jcs *j, const struct tool *t)
{
	AUTO_BUF struct buf schema = BUF(8192);

	tool_schema(t, &schema);
	jcs_open(j, NULL);
	jcs_z(j, "description", t->what);
	jcs_z(j, "name", t->name);
	jcs_raw(j, "parameters", buf_str(&schema));
	jcs_bool(j, "strict", false);
	jcs_z(j, "type", "function");
	jcs_close(j);
}

static void
request(const struct model_talk *t, struct buf *out)
{
	AUTO_BUF struct buf input = BUF(MODEL_REQUEST_MAX);
	struct jcs j;

	model_talk_messages(t, &input);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_array(&j, "include");
	jcs_z(&j, NULL, "reasoning.encrypted_content");
	jcs_array_end(&j);
	jcs_raw(&j, "input", buf_str(&input));
	jcs_z(&j, "instructions", t->system);
	if (t->max_output != 0)
		jcs_int(&j, "max_output_tokens", (int64_t)t->max_output);
	jcs_z(&j, "model", t->model);
	jcs_bool(&j, "store", false);
	jcs_bool(&j, "stream", true);
	jcs_array(&j, "tools");
	for (size_t i = 0; i < tool_count(); i++)
		tool_put(&j, tool_at(i));
	jcs_array_end(&j);
	jcs_close(&j);
	if (buf_over(&input))
		out->over = true;
}

/* --- the conversation ------------------------------------------------------------ */

static bool
is_said(const struct reply_block *b)
{
	switch (b->kind) {
	case REPLY_TEXT: return b->text.n != 0;
	case REPLY_TOOL: return true;
	case REPLY_THINKING: return b->signature.n != 0 && b->id != NULL;
	case REPLY_REDACTED:
	case REPLY_UNKNOWN: break;
	}
	return false;
}

static void
block_put(struct buf *out, const struct reply_block *b)
{
	struct jcs j;

	if (out->n != 0)
		buf_put_c(out, ',');
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if (b->kind == REPLY_TOOL) {
		jcs_str_lossy(&j, "arguments", b->text.n != 0 ? buf_str(&b->text) : STR("{}"));
		jcs_str_lossy(&j, "call_id", str_z(b->id));
		jcs_str_lossy(&j, "name", str_z(b->name));
		jcs_z(&j, "type", "function_call");
	} else if (b->kind == REPLY_THINKING) {
		jcs_str(&j, "encrypted_content", buf_str(&b->signature));
		jcs_str_lossy(&j, "id", str_z(b->id));
		jcs_raw(&j, "summary", b->text.n != 0 ? buf_str(&b->text) : STR("[]"));
		jcs_z(&j, "type", "reasoning");
	} else {
		jcs_str_lossy(&j, "content", buf_str(&b->text));
		jcs_z(&j, "role", "assistant");
	}
	jcs_close(&j);
}

/* Reasoning that nothing follows is refused by the API. */
static void
said(struct model_talk *t, const struct reply *r)
{
	struct buf *out = NULL;
	size_t n = r->n;

	while (n > 0 && (r->blocks[n - 1].kind == REPLY_THINKING || !is_said(&r->blocks[n - 1])))
		n--;
	for (size_t i = 0; i < n; i++) {
		if (!is_said(&r->blocks[i]))
			continue;
		if (out == NULL)
			out = model_talk_next(t);
		block_put(out, &r->blocks[i]);
	}
}

static void
output_put(struct buf *out, const char *call, struct str text)
{
	struct jcs j;

	if (out->n != 0)
		buf_put_c(out, ',');
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "call_id", str_z(call));
	jcs_str_lossy(&j, "output", text);
	jcs_z(&j, "type", "function_call_output");
	jcs_close(&j);
}

static void
answers(struct model_talk *t, const struct reply *r, const struct model_ask *ask, struct str note)
{
	struct buf *out = model_talk_next(t);
	size_t at = 0;

	for (size_t i = 0; i < r->n && at < ask->nanswers; i++)
		if (r->blocks[i].kind == REPLY_TOOL)
			output_put(out, r->blocks[i].id, ask->answers[at++].text);
	if (note.n != 0)
		words(out, note);
}

const struct model_provider model_responses = {.name = "openai-responses",
    .default_base = "https://api.openai.com/v1",
    .context = 128000,
    .path = path,
    .task = task,
    .request = request,
    .event = responses_event,
    .said = said,
    .answers = answers,
    .words = words,
    .error = openai_error};
