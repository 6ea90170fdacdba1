/*
 * Anthropic Messages (process: cofferdam-agent). The stream comes from outside: what is unknown in
 * it is passed over, what is known is limited by model_reply. Thinking blocks go back as they came,
 * signature included; the API refuses a conversation without them.
 */
#include "agent/model_anthropic.h"

#include <string.h>

#include "common/jcs.h"

#include "common/banned.h"

#define OUTPUT_DEFAULT 16384

/* --- stream ---------------------------------------------------------------------- */

static uint64_t
count(const struct json *usage, const char *key)
{
	int64_t n = json_int(json_get(usage, key));

	return n > 0 ? (uint64_t)n : 0;
}

static void
usage_take(struct reply *r, const struct json *usage)
{
	uint64_t in = count(usage, "input_tokens") + count(usage, "cache_creation_input_tokens") +
		      count(usage, "cache_read_input_tokens");
	uint64_t out = count(usage, "output_tokens");

	if (json_type(usage) != JSON_OBJECT)
		return;
	r->usage = true;
	if (in != 0) {
		r->tokens_in = in;
		r->cache_read = count(usage, "cache_read_input_tokens");
		r->cache_write = count(usage, "cache_creation_input_tokens");
	}
	if (out != 0)
		r->tokens_out = out;
}

static enum reply_kind
kind_of(struct str type)
{
	static const struct {
		const char *name;
		enum reply_kind kind;
	} kinds[] = {{"text", REPLY_TEXT}, {"tool_use", REPLY_TOOL}, {"thinking", REPLY_THINKING},
	    {"redacted_thinking", REPLY_REDACTED}};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eqz(type, kinds[i].name))
			return kinds[i].kind;
	return REPLY_UNKNOWN;
}

/* Some servers give all of a call's input at once. */
static void
input_take(struct reply_block *b, const struct json *input)
{
	struct jcs j;
	struct err ignored;

	if (json_type(input) != JSON_OBJECT || json_count(input) == 0)
		return;
	jcs_init(&j, &b->text);
	b->given = jcs_value(&j, NULL, input, &ignored) == 0;
	if (!b->given)
		buf_reset(&b->text);
}

static int
block_start(struct reply *r, const struct json *ev, struct err *err)
{
	const struct json *c = json_get(ev, "content_block");
	struct reply_block *b;
	int rc = reply_block(
	    r, kind_of(json_str(json_get(c, "type"))), json_int(json_get(ev, "index")), &b, err);

	if (rc != 0)
		return rc;
	reply_set(&b->id, json_str(json_get(c, "id")));
	reply_set(&b->name, json_str(json_get(c, "name")));
	if (b->kind == REPLY_TOOL)
		input_take(b, json_get(c, "input"));
	if ((rc = reply_add(r, &b->text, json_str(json_get(c, "text")), err)) != 0 ||
	    (rc = reply_add(r, &b->text, json_str(json_get(c, "thinking")), err)) != 0 ||
	    (rc = reply_add(r, &b->text, json_str(json_get(c, "data")), err)) != 0)
		return rc;
	return reply_add(r, &b->signature, json_str(json_get(c, "signature")), err);
}

static int
block_delta(struct reply *r, const struct json *ev, struct err *err)
{
	static const struct {
		const char *type, *member;
		enum reply_kind of;
	} deltas[] = {{"text_delta", "text", REPLY_TEXT},
	    {"input_json_delta", "partial_json", REPLY_TOOL},
	    {"thinking_delta", "thinking", REPLY_THINKING},
	    {"signature_delta", "signature", REPLY_THINKING}};
	const struct json *d = json_get(ev, "delta");
	struct str type = json_str(json_get(d, "type"));
	struct reply_block *b = reply_find(r, json_int(json_get(ev, "index")));

	for (size_t i = 0; b != NULL && i < ARRAY_LEN(deltas); i++) {
		struct str more = json_str(json_get(d, deltas[i].member));

		if (!str_eqz(type, deltas[i].type) || b->kind != deltas[i].of)
			continue;
		if (b->given && more.n != 0)
			buf_reset(&b->text);
		b->given = b->given && more.n == 0;
		return reply_add(
		    r, str_eqz(type, "signature_delta") ? &b->signature : &b->text, more, err);
	}
	return 0;
}

static enum reply_stop
stop_of(struct str reason)
{
	static const struct {
		const char *name;
		enum reply_stop stop;
	} stops[] = {{"tool_use", REPLY_CALLS}, {"max_tokens", REPLY_LENGTH},
	    {"pause_turn", REPLY_PAUSE}, {"refusal", REPLY_REFUSED},
	    {"model_context_window_exceeded", REPLY_FULL}};

	for (size_t i = 0; i < ARRAY_LEN(stops); i++)
		if (str_eqz(reason, stops[i].name))
			return stops[i].stop;
	return REPLY_END; /* end_turn, stop_sequence, and what is new */
}

static int
event_take(struct reply *r, const struct json *ev, struct err *err)
{
	struct str type = json_str(json_get(ev, "type"));
	const struct json *sub;

	if (str_eqz(type, "message_start")) {
		usage_take(r, json_get(json_get(ev, "message"), "usage"));
	} else if (str_eqz(type, "content_block_start")) {
		return block_start(r, ev, err);
	} else if (str_eqz(type, "content_block_delta")) {
		return block_delta(r, ev, err);
	} else if (str_eqz(type, "message_delta")) {
		struct str reason = json_str(json_get(json_get(ev, "delta"), "stop_reason"));

		usage_take(r, json_get(ev, "usage"));
		if (reason.n != 0)
			r->stop = stop_of(reason);
	} else if (str_eqz(type, "message_stop")) {
		r->ended = true;
		return 1;
	} else if (str_eqz(type, "error")) {
		sub = json_get(ev, "error");
		reply_error(r, json_str(json_get(sub, "type")), json_str(json_get(sub, "message")));
		return 1;
	}
	return 0;
}

int
anthropic_event(void *reply, struct str name UNUSED, struct str data, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	int rc = json_parse_numbers(data, "the model's stream", &d, err);

	return rc != 0 ? rc : event_take(reply, json_root(d), err);
}

/* --- requests -------------------------------------------------------------------- */

static void
path(const char *base_path, struct buf *out)
{
	bool versioned = str_has_suffix(str_z(base_path), "/v1");

	buf_printf(out, "%s%s/messages", base_path, versioned ? "" : "/v1");
}

static void
mark(struct jcs *j, bool marked)
{
	if (!marked)
		return;
	jcs_open(j, "cache_control");
	jcs_z(j, "type", "ephemeral");
	jcs_close(j);
}

static void
text_block(struct jcs *j, struct str text, bool marked)
{
	jcs_open(j, NULL);
	mark(j, marked);
	jcs_str_lossy(j, "text", text);
	jcs_z(j, "type", "text");
	jcs_close(j);
}

static void
message_open(struct jcs *j, struct buf *out)
{
	jcs_init(j, out);
	jcs_open(j, NULL);
	jcs_array(j, "content");
}

static void
message_close(struct jcs *j, const char *role)
{
	jcs_array_end(j);
	jcs_z(j, "role", role);
	jcs_close(j);
}

static void
words(struct buf *out, struct str text)
{
	struct jcs j;

	if (out->n != 0)
		buf_put_c(out, ',');
	message_open(&j, out);
	text_block(&j, text, false);
	message_close(&j, "user");
}

static void
task(struct model_talk *t, struct str text)
{
	struct buf *out = model_talk_next(t);
	struct jcs j;

	for (int marked = 0; marked < 2; marked++) {
		struct buf *to = marked != 0 ? &t->last_marked : out;

		message_open(&j, to);
		text_block(&j, text, marked != 0);
		message_close(&j, "user");
	}
}

static void
tools_put(struct jcs *j)
{
	jcs_array(j, "tools");
	for (size_t i = 0; i < tool_count(); i++) {
		AUTO_BUF struct buf schema = BUF(8192);

		tool_schema(tool_at(i), &schema);
		jcs_open(j, NULL);
		jcs_z(j, "description", tool_at(i)->what);
		jcs_raw(j, "input_schema", buf_str(&schema));
		jcs_z(j, "name", tool_at(i)->name);
		jcs_close(j);
	}
	jcs_array_end(j);
}

static void
request(const struct model_talk *t, struct buf *out)
{
	AUTO_BUF struct buf messages = BUF(MODEL_REQUEST_MAX);
	struct jcs j;

	model_talk_messages(t, &messages);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_int(&j, "max_tokens", t->max_output != 0 ? (int64_t)t->max_output : OUTPUT_DEFAULT);
	jcs_raw(&j, "messages", buf_str(&messages));
	jcs_z(&j, "model", t->model);
	jcs_bool(&j, "stream", true);
	jcs_array(&j, "system");
	text_block(&j, str_z(t->system), true);
	jcs_array_end(&j);
	tools_put(&j);
	jcs_close(&j);
	if (buf_over(&messages))
		out->over = true;
}

/* --- the conversation ------------------------------------------------------------ */

/* An input that is no JSON goes back as a string in an object, so that the model sees what it
 * wrote. */
static void
input_put(struct jcs *j, const struct reply_block *b)
{
	AUTO(json) struct json_doc *d = NULL;
	struct err ignored;

	if (b->text.n == 0) {
		jcs_raw(j, "input", STR("{}"));
	} else if (json_parse_numbers(buf_str(&b->text), "input", &d, &ignored) == 0 &&
		   json_type(json_root(d)) == JSON_OBJECT) {
		jcs_raw(j, "input", buf_str(&b->text));
	} else {
		jcs_open(j, "input");
		jcs_str_lossy(j, "INVALID_JSON", buf_str(&b->text));
		jcs_close(j);
	}
}

static void
block_put(struct jcs *j, const struct reply_block *b)
{
	if (b->kind == REPLY_TEXT) {
		text_block(j, buf_str(&b->text), false);
		return;
	}
	jcs_open(j, NULL);
	switch (b->kind) {
	case REPLY_TOOL:
		jcs_z(j, "id", b->id);
		input_put(j, b);
		jcs_z(j, "name", b->name);
		jcs_z(j, "type", "tool_use");
		break;
	case REPLY_THINKING:
		jcs_str(j, "signature", buf_str(&b->signature));
		jcs_str(j, "thinking", buf_str(&b->text));
		jcs_z(j, "type", "thinking");
		break;
	case REPLY_REDACTED:
		jcs_str(j, "data", buf_str(&b->text));
		jcs_z(j, "type", "redacted_thinking");
		break;
	case REPLY_TEXT:
	case REPLY_UNKNOWN: break;
	}
	jcs_close(j);
}

/* The API refuses a text of white space alone. */
static bool
is_said(const struct reply_block *b)
{
	struct str s = str_trim(buf_str(&b->text));

	return b->kind != REPLY_UNKNOWN && (b->kind != REPLY_TEXT || s.n != 0);
}

static void
said(struct model_talk *t, const struct reply *r)
{
	struct buf *out;
	struct jcs j;
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += is_said(&r->blocks[i]);
	if (n == 0)
		return;
	out = model_talk_next(t);
	message_open(&j, out);
	for (size_t i = 0; i < r->n; i++)
		if (is_said(&r->blocks[i]))
			block_put(&j, &r->blocks[i]);
	message_close(&j, "assistant");
}

static void
result_put(struct jcs *j, const char *id, const struct model_answer *a, bool marked)
{
	jcs_open(j, NULL);
	mark(j, marked);
	jcs_str_lossy(j, "content", a->text);
	if (a->failed)
		jcs_bool(j, "is_error", true);
	jcs_z(j, "tool_use_id", id);
	jcs_z(j, "type", "tool_result");
	jcs_close(j);
}

/* Results come first, one for each call; the last block of the message carries the mark. */
static void
answers(struct model_talk *t, const struct reply *r, const struct model_ask *ask, struct str note)
{
	struct buf *out = model_talk_next(t);
	struct jcs j;

	for (int marked = 0; marked < 2; marked++) {
		size_t at = 0;

		message_open(&j, marked != 0 ? &t->last_marked : out);
		for (size_t i = 0; i < r->n && at < ask->nanswers; i++) {
			if (r->blocks[i].kind != REPLY_TOOL)
				continue;
			result_put(&j, r->blocks[i].id, &ask->answers[at],
			    marked != 0 && note.n == 0 && at + 1 == ask->nanswers);
			at++;
		}
		if (note.n != 0)
			text_block(&j, note, marked != 0);
		message_close(&j, "user");
	}
}

static bool
error(struct str body, char **ret_type, char **ret_text, bool *ret_final)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *e;
	struct err ignored;

	if (json_parse_numbers(body, "error", &d, &ignored) != 0)
		return false;
	e = json_get(json_root(d), "error");
	if (json_type(e) != JSON_OBJECT)
		return false;
	reply_set(ret_type, json_str(json_get(e, "type")));
	reply_set(ret_text, json_str(json_get(e, "message")));
	*ret_final = str_eqz(json_str(json_get(json_get(e, "details"), "error_code")),
	    "enforced_spend_limit_reached");
	return true;
}

static const struct http_field fields[] = {
    {{"anthropic-version", 17}, {"2023-06-01", 10}},
};

const struct model_provider model_anthropic = {.name = "anthropic",
    .default_base = "https://api.anthropic.com",
    .context = 200000,
    .path = path,
    .fields = fields,
    .nfields = ARRAY_LEN(fields),
    .task = task,
    .request = request,
    .event = anthropic_event,
    .said = said,
    .answers = answers,
    .words = words,
    .error = error};
