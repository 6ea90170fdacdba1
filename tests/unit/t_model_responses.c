/*
 * Unit tests of agent/model_responses over a played server: what is said again, what is tolerated,
 * each way an answer ends.
 */
#include "model_help.h"

#include "common/banned.h"

#define EV(x) "data: " x "\n\n"
#define DONE(r) EV("{\"type\":\"response.completed\",\"response\":{\"output\":[" r "]}}")
#define CALL                                                                                  \
	"{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"run_code\",\"arguments\":" \
	"\"{\\\"language\\\":\\\"sh\\\",\\\"code\\\":\\\"ls\\\"}\"}"
#define SAYS(t) "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"" t "\"}]}"
#define THINKS                                                                                     \
	"{\"type\":\"reasoning\",\"id\":\"rs1\",\"summary\":[{\"type\":\"summary_text\",\"text\":" \
	"\"hm\"}],\"encrypted_content\":\"c2Vh\"}"

static void
an_answer_in_pieces_is_said_again_with_its_sealed_reasoning(void **state UNUSED)
{
	static const char rich[] = SSE_OK EV("{\"type\":\"response.created\"}") EV(
	    "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":" THINKS
	    "}") EV("{\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"I \"}")
	    EV("{\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"look\"}")
		EV("{\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":" SAYS(
		    "I look") "}")
		    EV("{\"type\":\"response.output_item.done\",\"output_index\":2,\"item\":" CALL
		       "}") EV("{\"type\":\"response.completed\",\"response\":{\"usage\":{"
			       "\"input_tokens\":9,\"output_tokens\":4,"
			       "\"input_tokens_details\":{\"cached_tokens\":5}}}}");
	static const struct model_answer a[1] = {{.text = STR("a file")}};

	for (size_t step = 1; step < 40; step += 13) {
		struct played p[] = {
		    {.text = rich, .step = step}, {.text = SSE_OK DONE(SAYS("bye"))}};
		AUTO_SERVER struct server s;
		AUTO(model) struct model *m = NULL;
		AUTO(json) struct json_doc *d = NULL;
		const struct json *in;
		struct model_turn t;
		struct err e = {0};

		server_start(&s, p, 2);
		m = remote_open(&s, "openai-responses:x", 0);
		assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
		assert_true(
		    str_eqz(t.words, "I look") && t.ncalls == 1 && t.calls[0].fault == NULL);
		assert_true(t.tokens_in == 9 && t.tokens_out == 4 && t.cache_read == 5);
		assert_int_equal(remote_turn(m, a, 1, &t, &e), 0);
		assert_true(t.done && str_eqz(t.words, "bye"));
		d = server_body(&s, 1);
		in = json_get(json_root(d), "input");
		assert_int_equal(json_count(in), 5);
		assert_true(
		    str_eqz(json_str(json_get(json_at(in, 1), "encrypted_content")), "c2Vh"));
		assert_true(str_eqz(json_str(json_get(json_at(in, 3), "call_id")), "c1"));
		assert_true(str_eqz(json_str(json_get(json_at(in, 4), "output")), "a file"));
		assert_true(str_eqz(json_str(json_get(json_root(d), "instructions")), "be good"));
	}
}

static void
ends(const char *text, int code, const char *why)
{
	struct played p[] = {{.text = text}};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, p, 1);
	m = remote_open(&s, "openai-responses:x", 0);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), code);
	if (strstr(e.msg, why) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", e.msg, why);
}

static void
each_way_an_answer_can_fail_has_its_words(void **state UNUSED)
{
	ends(SSE_OK EV("{\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"bad\","
		       "\"message\":\"no such\"}}}"),
	    ERR_UPSTREAM, "bad: no such");
	ends(SSE_OK EV("{\"type\":\"error\",\"code\":\"x\",\"message\":\"y\"}"), ERR_UPSTREAM,
	    "x: y");
	ends(SSE_OK EV("{\"type\":\"response.refusal.delta\",\"output_index\":0,\"delta\":\"I will "
		       "not\"}") DONE(""),
	    ERR_DENIED, "I will not");
	ends(SSE_OK EV("{\"type\":\"response.incomplete\",\"response\":{\"incomplete_details\":{"
		       "\"reason\":\"content_filter\"}}}"),
	    ERR_DENIED, "refuses");
	ends(SSE_OK EV("{\"type\":\"response.created\"}"), ERR_UPSTREAM, "ended in the middle");
	ends(SSE_OK EV("{\"type\":"), ERR_SYNTAX, "stream");
	ends(SSE_OK DONE(SAYS("fine")), 0, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_answer_in_pieces_is_said_again_with_its_sealed_reasoning),
	    cmocka_unit_test(each_way_an_answer_can_fail_has_its_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
