/* What a model said, taken apart: an agent's account is held against it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/replay_said.h"

#include "common/banned.h"

static void
assert_said(const char *body, const char *words, const char *code)
{
	struct said s;

	said_init(&s);
	assert_true(said_read(&s, str_z(body)));
	assert_false(s.partial);
	assert_true(said_words(&s, str_z(words)));
	assert_true(said_code(&s, str_z(code)));
	assert_false(said_words(&s, STR("something else")));
	assert_false(said_code(&s, STR("rm -rf /")));
	said_free(&s);
}

static void
whole_answers_of_each_provider_give_words_and_code(void **state)
{
	(void)state;
	assert_said("{\"content\":[{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":\"tool_use\","
		    "\"name\":\"run\",\"input\":{\"code\":\"ls\\n\"}}]}",
	    " I  look.\n", "ls");
	assert_said("{\"choices\":[{\"message\":{\"content\":\"I look.\",\"tool_calls\":[{"
		    "\"function\":{\"name\":\"run\",\"arguments\":\"{\\\"code\\\":\\\"echo "
		    "\\\\u00e9\\\"}\"}}]}}]}",
	    "I look.", "echo \xc3\xa9");
	assert_said("{\"output\":[{\"type\":\"message\",\"content\":[{\"text\":\"I look.\"}]},{"
		    "\"type\":\"function_call\",\"arguments\":\"{\\\"code\\\":\\\"ls\\\"}\"}]}",
	    "I look.", "ls");
}

static void
streams_are_put_together_before_they_are_compared(void **state)
{
	(void)state;
	assert_said(
	    "event: x\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"I lo\"}}\n\n"
	    "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"ok.\"}}\n\n"
	    "data: {\"delta\":{\"partial_json\":\"{\\\"code\\\":\\\"l\"}}\n"
	    "data: {\"delta\":{\"partial_json\":\"s -l\\\"}\"}}\n"
	    "data: {\"type\":\"content_block_stop\"}\n",
	    "I look.", "ls -l");
	assert_said("data: {\"choices\":[{\"delta\":{\"content\":\"I look.\"}}]}\n\n"
		    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"r\","
		    "\"arguments\":\"{\\\"code\\\":\"}}]}}]}\n\n"
		    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":"
		    "\"\\\"ls\\\"}\"}}]}}]}\n\ndata: [DONE]\n\n",
	    "I look.", "ls");
	assert_said("data: {\"type\":\"response.output_text.delta\",\"delta\":\"I look.\"}\n"
		    "data: {\"type\":\"response.function_call_arguments.delta\",\"delta\":\"{"
		    "\\\"code\\\":\\\"ls\\\"}\"}\n"
		    "data: {\"type\":\"response.function_call_arguments.done\"}\n",
	    "I look.", "ls");
}

static void
of_an_answer_that_is_not_understood_nothing_is_missing(void **state)
{
	struct said s;

	(void)state;
	said_init(&s);
	assert_false(said_read(&s, STR("")));
	assert_false(said_read(&s, STR("{\"error\":1}")));
	assert_false(said_read(&s, STR("<html>")));
	assert_true(said_read(&s, STR("data: {\"delta\":{\"text\":\"I\"}}\ndata: {cut")));
	assert_true(s.partial);
	assert_true(said_words(&s, STR("anything")));
	assert_true(said_read(&s, STR("data: {\"delta\":{\"partial_json\":\"{\\\"code\"}}\n")));
	assert_true(said_code(&s, STR("anything")));
	said_free(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whole_answers_of_each_provider_give_words_and_code),
	    cmocka_unit_test(streams_are_put_together_before_they_are_compared),
	    cmocka_unit_test(of_an_answer_that_is_not_understood_nothing_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
