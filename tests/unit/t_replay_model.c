/* Model traffic as a timeline shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "audit/replay_model.h"
#include "common/banned.h"

#define HEAD "POST /v1/messages HTTP/1.1\r\nHost: m.test\r\n\r\n"

static void
assert_text(const struct buf *b, const char *want)
{
	if (!str_eqz(buf_str(b), want))
		fail_msg("is \"%.*s\", wanted \"%s\"", STR_ARG(buf_str(b)), want);
}

static void
prompt(const char *body, const char *want)
{
	AUTO_BUF struct buf in = BUF(1 << 16);
	AUTO_BUF struct buf out = BUF(1 << 16);

	buf_put_z(&in, HEAD);
	buf_put_z(&in, body);
	assert_true(replay_model_prompt(buf_str(&in), &out) == (want != NULL));
	assert_text(&out, want != NULL ? want : "");
}

static void
answer(const char *body, const char *want)
{
	AUTO_BUF struct buf out = BUF(1 << 16);

	assert_true(replay_model_answer(str_z(body), &out) == (want != NULL));
	assert_text(&out, want != NULL ? want : "");
}

static void
the_last_message_of_a_prompt_is_told(void **state)
{
	(void)state;
	prompt("{\"model\":\"m\",\"temperature\":0.5,\"messages\":[{\"role\":\"user\",\"content\":"
	       "\"hi\"}]}",
	    "to m, message 1\nby user\nhi");
	prompt("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
	       "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\","
	       "\"content\":[{\"type\":\"text\",\"text\":\"out\"}]}]}]}",
	    "to m, message 2\nby user\n[result]\nout");
	prompt("{\"model\":\"m\",\"input\":\"go\"}", "to m, message 1\ngo");
	prompt("{\"model\":\"m\",\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"c\","
	       "\"output\":\"42\"}]}",
	    "to m, message 1\n[result] 42");
}

static void
what_is_no_prompt_is_not_told_as_one(void **state)
{
	(void)state;
	prompt("{\"model\":\"m\"}", NULL);
	prompt("not json", NULL);
	prompt("{\"messages\":7}", NULL);
}

static void
answers_are_told_streamed_or_whole(void **state)
{
	(void)state;
	answer("{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"tool_use\",\"name\":"
	       "\"run\","
	       "\"input\":{\"code\":\"ls\"}}]}",
	    "a\n[tool] run\n  code = ls");
	answer(
	    "event: x\ndata: "
	    "{\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"name\":"
	    "\"run\"}}\n\n"
	    "data: {\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\"}}\n"
	    "data: {\"delta\":{\"partial_json\":\"1}\"}}\ndata: [DONE]\n",
	    "[tool] run{\"a\":1}");
	answer("data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n"
	       "data: {\"choices\":[{\"delta\":{\"content\":\"llo\"}}]}\n\ndata: {\"choices\":[]}",
	    "hello");
	answer("{\"choices\":[{\"message\":{\"content\":\"x\",\"tool_calls\":[{\"function\":{"
	       "\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}",
	    "x\n[tool] f\n  {}");
	answer("data: {\"type\":\"response.output_text.delta\",\"delta\":\"ok\"}", "ok");
	answer("{\"error\":{\"message\":\"overloaded\"}}", "error: overloaded");
	answer("", NULL);
	answer("{}", NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_last_message_of_a_prompt_is_told),
	    cmocka_unit_test(what_is_no_prompt_is_not_told_as_one),
	    cmocka_unit_test(answers_are_told_streamed_or_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
