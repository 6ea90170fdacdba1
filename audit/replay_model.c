/*
 * Reads model traffic of the log for people. Runs in the command line. The bytes were written by an
 * agent and by a foreign server: read strictly, shown by the caller's rules, believed in nothing.
 */
#include "audit/replay_model.h"

#include "common/json.h"

#include "common/banned.h"

/* --- blocks ------------------------------------------------------------------------ */

static void
text_put(struct buf *b, const char *label, struct str text)
{
	if (text.n == 0)
		return;
	if (b->n != 0 && b->p[b->n - 1] != '\n')
		buf_put_c(b, '\n');
	buf_put_z(b, label);
	buf_put_str(b, text);
}

static struct str
member(const struct json *o, const char *key)
{
	return json_str(json_get(o, key));
}

static const struct json *
first(const struct json *list)
{
	return json_count(list) != 0 ? json_at(list, 0) : NULL;
}

/* A tool's input is an object, which has no text of its own: its string members stand for it. */
static void
input_put(struct buf *b, const struct json *input)
{
	for (size_t i = 0; json_type(input) == JSON_OBJECT && i < json_count(input); i++) {
		text_put(b, "  ", json_key(input, i));
		buf_put_z(b, " = ");
		buf_put_str(b, json_str(json_at(input, i)));
	}
}

static void content_put(struct buf *b, const struct json *content, unsigned depth);

static void
block_put(struct buf *b, const struct json *o, unsigned depth)
{
	struct str type = member(o, "type");

	text_put(b, "", member(o, "text"));
	text_put(b, "(thinking) ", member(o, "thinking"));
	if (str_eqz(type, "tool_use") || str_eqz(type, "function_call")) {
		text_put(b, "[tool] ", member(o, "name"));
		input_put(b, json_get(o, "input"));
		text_put(b, "  ", member(o, "arguments"));
	}
	if (str_eqz(type, "function_call_output"))
		text_put(b, "[result] ", member(o, "output"));
	if (str_eqz(type, "tool_result"))
		text_put(b, "", STR("[result]"));
	content_put(b, json_get(o, "content"), depth + 1);
}

/* A string, or blocks; a result holds blocks of its own, and no deeper. */
static void
content_put(struct buf *b, const struct json *content, unsigned depth)
{
	text_put(b, "", json_str(content));
	for (size_t i = 0; depth < 3 && json_type(content) == JSON_ARRAY && i < json_count(content);
	     i++)
		block_put(b, json_at(content, i), depth);
}

static void
calls_put(struct buf *b, const struct json *calls)
{
	for (size_t i = 0; i < json_count(calls); i++) {
		const struct json *f = json_get(json_at(calls, i), "function");

		text_put(b, "[tool] ", member(f, "name"));
		text_put(b, "  ", member(f, "arguments"));
	}
}

/* --- prompts ----------------------------------------------------------------------- */

bool
replay_model_prompt(struct str exchange, struct buf *out)
{
	AUTO(json) struct json_doc *d = NULL;
	const char *end = memmem(exchange.p, exchange.n, "\r\n\r\n", 4);
	const struct json *o, *list;
	size_t n;

	if (end == NULL ||
	    json_parse_numbers(str_mem(end + 4, exchange.n - (size_t)(end + 4 - exchange.p)),
		"prompt", &d, NULL) != 0)
		return false;
	o = json_root(d);
	list = json_get(o, "messages");
	if (list == NULL)
		list = json_get(o, "input");
	n = json_type(list) == JSON_ARRAY ? json_count(list) : 0;
	if (n == 0 && json_type(list) != JSON_STRING)
		return false;
	buf_put_z(out, "to ");
	buf_put_str(out, member(o, "model"));
	buf_printf(out, ", message %zu", n != 0 ? n : 1);
	if (n == 0) {
		text_put(out, "", json_str(list));
		return true;
	}
	list = json_at(list, n - 1);
	text_put(out, "by ", member(list, "role"));
	block_put(out, list, 0);
	return true;
}

/* --- answers ----------------------------------------------------------------------- */

/* One event of a stream: what it adds to the text. */
static void
event_put(struct buf *b, const struct json *o)
{
	const struct json *delta = json_get(o, "delta");
	const struct json *choice = first(json_get(o, "choices"));
	const struct json *start = json_get(o, "content_block");

	if (start == NULL)
		start = json_get(o, "item");
	if (str_eqz(member(start, "type"), "tool_use") ||
	    str_eqz(member(start, "type"), "function_call"))
		if (!str_eqz(member(o, "type"), "response.output_item.done"))
			text_put(b, "[tool] ", member(start, "name"));
	buf_put_str(b, json_str(delta));
	buf_put_str(b, member(delta, "text"));
	buf_put_str(b, member(delta, "thinking"));
	buf_put_str(b, member(delta, "partial_json"));
	delta = json_get(choice, "delta");
	buf_put_str(b, member(delta, "content"));
	for (size_t i = 0; i < json_count(json_get(delta, "tool_calls")); i++) {
		const struct json *f =
		    json_get(json_at(json_get(delta, "tool_calls"), i), "function");

		text_put(b, "[tool] ", member(f, "name"));
		buf_put_str(b, member(f, "arguments"));
	}
}

bool
replay_model_event(struct str *left, struct str *ret)
{
	struct str line;

	while (left->n != 0) {
		if (!str_cut(left, '\n', &line)) {
			line = *left;
			*left = STR_NONE;
		}
		if (!str_has_prefix(line, "data:"))
			continue;
		*ret = str_trim(str_mem(line.p + 5, line.n - 5));
		return true;
	}
	return false;
}

static void
stream_put(struct buf *b, struct str body)
{
	struct str event;

	while (replay_model_event(&body, &event)) {
		AUTO(json) struct json_doc *d = NULL;

		if (json_parse_numbers(event, "event", &d, NULL) == 0)
			event_put(b, json_root(d));
	}
}

bool
replay_model_answer(struct str body, struct buf *out)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *o, *message;

	if (body.n == 0 || body.p[0] != '{') {
		stream_put(out, body);
		return out->n != 0;
	}
	if (json_parse_numbers(body, "answer", &d, NULL) != 0)
		return false;
	o = json_root(d);
	message = json_get(first(json_get(o, "choices")), "message");
	content_put(out, json_get(o, "content"), 0);
	content_put(out, json_get(o, "output"), 0);
	content_put(out, json_get(message, "content"), 0);
	calls_put(out, json_get(message, "tool_calls"));
	text_put(out, "error: ", member(json_get(o, "error"), "message"));
	return out->n != 0;
}
