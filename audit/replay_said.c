/*
 * Takes a model's answer apart. Runs in the command line. Anthropic Messages, OpenAI Chat
 * Completions and Responses, streamed or not; foreign bytes, read strictly. What is not understood
 * makes the answer partial: then nothing is said to be missing from it.
 */
#include "audit/replay_said.h"

#include "audit/replay_model.h"
#include "common/json.h"

#include "common/banned.h"

#define SAID_MAX ((size_t)8 << 20)

void
said_init(struct said *s)
{
	*s = (struct said){.words = BUF(SAID_MAX), .code = BUF(SAID_MAX), .call = BUF(SAID_MAX)};
}

void
said_free(struct said *s)
{
	buf_free(&s->words);
	buf_free(&s->code);
	buf_free(&s->call);
}

static void
squeeze(struct buf *b, struct str text)
{
	for (size_t i = 0; i < text.n; i++)
		if (strchr(" \t\r\n\v\f", text.p[i]) == NULL || text.p[i] == '\0')
			buf_put_c(b, text.p[i]);
}

static struct str
member(const struct json *o, const char *key)
{
	return json_str(json_get(o, key));
}

static void
input_put(struct said *s, const struct json *input)
{
	for (size_t i = 0; json_type(input) == JSON_OBJECT && i < json_count(input); i++)
		squeeze(&s->code, json_str(json_at(input, i)));
}

/* Arguments as text, which are JSON again. */
static void
arguments_put(struct said *s, struct str text)
{
	AUTO(json) struct json_doc *d = NULL;

	if (text.n == 0)
		return;
	if (json_parse_numbers(text, "arguments", &d, NULL) != 0)
		s->partial = true;
	else
		input_put(s, json_root(d));
}

static void
call_end(struct said *s)
{
	arguments_put(s, buf_str(&s->call));
	buf_reset(&s->call);
}

/* --- a whole answer --------------------------------------------------------------------------- */

static void
blocks_put(struct said *s, const struct json *list, unsigned depth)
{
	squeeze(&s->words, json_str(list));
	for (size_t i = 0; depth < 3 && json_type(list) == JSON_ARRAY && i < json_count(list);
	     i++) {
		const struct json *o = json_at(list, i);

		squeeze(&s->words, member(o, "text"));
		input_put(s, json_get(o, "input"));
		arguments_put(s, member(o, "arguments"));
		blocks_put(s, json_get(o, "content"), depth + 1);
	}
}

static void
calls_put(struct said *s, const struct json *calls)
{
	for (size_t i = 0; i < json_count(calls); i++)
		arguments_put(s, member(json_get(json_at(calls, i), "function"), "arguments"));
}

static bool
whole_read(struct said *s, struct str body)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *o, *choices, *message;

	if (json_parse_numbers(body, "answer", &d, NULL) != 0)
		return false;
	o = json_root(d);
	choices = json_get(o, "choices");
	message = json_count(choices) != 0 ? json_get(json_at(choices, 0), "message") : NULL;
	if (json_get(o, "content") == NULL && json_get(o, "output") == NULL && message == NULL)
		return false;
	blocks_put(s, json_get(o, "content"), 0);
	blocks_put(s, json_get(o, "output"), 0);
	blocks_put(s, json_get(message, "content"), 0);
	calls_put(s, json_get(message, "tool_calls"));
	return true;
}

/* --- a stream --------------------------------------------------------------------------------- */

static void
delta_calls(struct said *s, const struct json *calls)
{
	for (size_t i = 0; i < json_count(calls); i++) {
		const struct json *f = json_get(json_at(calls, i), "function");

		if (member(f, "name").n != 0)
			call_end(s);
		buf_put_str(&s->call, member(f, "arguments"));
	}
}

static void
event_put(struct said *s, const struct json *o)
{
	struct str type = member(o, "type");
	const struct json *delta = json_get(o, "delta"), *choices = json_get(o, "choices");

	if (str_eqz(type, "content_block_stop") ||
	    str_eqz(type, "response.function_call_arguments.done"))
		call_end(s);
	else if (str_eqz(type, "response.output_text.delta"))
		squeeze(&s->words, json_str(delta));
	else if (str_eqz(type, "response.function_call_arguments.delta"))
		buf_put_str(&s->call, json_str(delta));
	squeeze(&s->words, member(delta, "text"));
	buf_put_str(&s->call, member(delta, "partial_json"));
	squeeze(&s->words, member(json_get(o, "content_block"), "text"));
	if (json_count(choices) == 0)
		return;
	delta = json_get(json_at(choices, 0), "delta");
	squeeze(&s->words, member(delta, "content"));
	delta_calls(s, json_get(delta, "tool_calls"));
}

static bool
stream_read(struct said *s, struct str body)
{
	struct str event;
	bool any = false;

	while (replay_model_event(&body, &event)) {
		AUTO(json) struct json_doc *d = NULL;

		if (str_eqz(event, "[DONE]"))
			continue;
		if (json_parse_numbers(event, "event", &d, NULL) != 0) {
			s->partial = true;
			continue;
		}
		any = true;
		event_put(s, json_root(d));
	}
	call_end(s);
	return any;
}

/* --- the answer ------------------------------------------------------------------------------- */

bool
said_read(struct said *s, struct str body)
{
	bool ok;

	buf_reset(&s->words);
	buf_reset(&s->code);
	buf_reset(&s->call);
	s->partial = false;
	ok = body.n != 0 && (body.p[0] == '{' ? whole_read(s, body) : stream_read(s, body));
	if (buf_over(&s->words) || buf_over(&s->code) || buf_over(&s->call))
		s->partial = true;
	return ok;
}

static bool
holds(const struct buf *b, const struct buf *part)
{
	return part->n == 0 || (b->n != 0 && memmem(b->p, b->n, part->p, part->n) != NULL);
}

bool
said_words(const struct said *s, struct str text)
{
	AUTO_BUF struct buf part = BUF(SAID_MAX);

	squeeze(&part, text);
	return s->partial || buf_over(&part) || holds(&s->words, &part);
}

bool
said_code(const struct said *s, struct str text)
{
	AUTO_BUF struct buf part = BUF(SAID_MAX);

	squeeze(&part, text);
	return s->partial || buf_over(&part) || holds(&s->code, &part) || holds(&s->words, &part);
}
