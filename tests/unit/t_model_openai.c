/* OpenAI Chat Completions: streams to turns, turns to requests; gaps of other servers. */
#include "tests/unit/model_help.h"

#include "agent/model_openai.h"

#include "common/banned.h"

#define D(json) "data: " json "\n\n"
#define CHUNK(delta, reason)                                                              \
	D("{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0," \
	  "\"delta\":" delta ",\"logprobs\":null,\"finish_reason\":" reason "}],\"usage\":null}")
#define USAGE                                                                                  \
	D("{\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,\"total_" \
	  "tokens\":120}}")
#define DONE D("[DONE]")

/* Words and two calls whose pieces are mixed. */
static const char rich[] = SSE_OK CHUNK("{\"role\":\"assistant\",\"content\":null}", "null")
    CHUNK("{\"content\":\"I \"}", "null") CHUNK("{\"content\":\"look.\"}", "null")
	CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"call_a\",\"type\":\"function\",\"function\":{"
	      "\"name\":\"run_code\",\"arguments\":\"\"}}]}",
	    "null") CHUNK("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
			  "\"{\\\"language\\\":\\\"bash\\\",\"}}]}",
	    "null") CHUNK("{\"tool_calls\":[{\"index\":1,\"id\":\"call_b\",\"type\":\"function\","
			  "\"function\":{\"name\":\"run_code\",\"arguments\":\"{\\\"language\\\":"
			  "\\\"python\\\",\\\"code\\\":\\\"print(2)\\\"}\"}}]}",
	    "null") CHUNK("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
			  "\"\\\"code\\\":\\\"echo 1\\\"}\"}}]}",
	    "null") CHUNK("{}", "\"tool_calls\"") USAGE DONE;
static const char bye[] = SSE_OK CHUNK("{\"role\":\"assistant\",\"content\":\"Done.\"}", "null")
    CHUNK("{}", "\"stop\"") USAGE DONE;

static void
two_turns(struct server *s)
{
	static const struct model_answer a[] = {{STR("1\n[exit 0]"), false}, {STR("2"), false}};
	AUTO(model) struct model *m = remote_open(s, "openai:gpt-x", 0);
	struct model_turn t;
	struct err e = {0};

	if (remote_turn(m, NULL, 0, &t, &e) != 0)
		fail_msg("%s", e.msg);
	assert_true(str_eqz(t.words, "I look."));
	assert_false(t.done);
	assert_int_equal(t.ncalls, 2);
	assert_true(str_eqz(t.calls[0].args.text[1], "bash"));
	assert_true(str_eqz(t.calls[0].args.text[0], "echo 1"));
	assert_true(str_eqz(t.calls[1].args.text[0], "print(2)"));
	assert_int_equal(t.tokens_in + t.tokens_out, 120);
	if (remote_turn(m, a, 2, &t, &e) != 0)
		fail_msg("%s", e.msg);
	assert_true(t.done);
	assert_true(str_eqz(t.words, "Done."));
}

static void
a_stream_is_the_same_turn_for_every_cut(void **state UNUSED)
{
	for (size_t step = 1; step < 60; step++) {
		struct played p[] = {{.text = rich, .step = step}, {.text = bye, .step = step}};
		AUTO_SERVER struct server s;

		server_start(&s, p, 2);
		two_turns(&s);
	}
}

static const struct json *
member(const struct json *v, size_t i, const char *key)
{
	return json_get(json_at(v, i), key);
}

static void
calls_go_back_with_one_tool_message_each(void **state UNUSED)
{
	struct played p[] = {{.text = rich}, {.text = bye}};
	AUTO_SERVER struct server s;
	AUTO(json) struct json_doc *d = NULL;
	AUTO_FREE char *log = NULL;
	const struct json *msgs, *c;

	server_start(&s, p, 2);
	two_turns(&s);
	log = server_log(&s);
	assert_non_null(strstr(log, "POST /v1/chat/completions HTTP/1.1\r\n"));
	d = server_body(&s, 1);
	assert_true(json_bool(json_get(json_get(json_root(d), "stream_options"), "include_usage")));
	assert_null(json_get(json_root(d), "max_completion_tokens"));
	assert_null(json_get(json_root(d), "max_tokens"));
	msgs = json_get(json_root(d), "messages");
	assert_int_equal(json_count(msgs), 5);
	assert_true(str_eqz(json_str(member(msgs, 0, "role")), "system"));
	assert_true(str_eqz(json_str(member(msgs, 1, "content")), "do it"));
	assert_true(str_eqz(json_str(member(msgs, 2, "content")), "I look."));
	c = member(msgs, 2, "tool_calls");
	assert_int_equal(json_count(c), 2);
	assert_true(str_eqz(json_str(member(c, 0, "id")), "call_a"));
	assert_true(str_eqz(json_str(json_get(member(c, 0, "function"), "arguments")),
	    "{\"language\":\"bash\",\"code\":\"echo 1\"}"));
	assert_true(str_eqz(json_str(member(msgs, 3, "role")), "tool"));
	assert_true(str_eqz(json_str(member(msgs, 3, "tool_call_id")), "call_a"));
	assert_true(str_eqz(json_str(member(msgs, 3, "content")), "1\n[exit 0]"));
	assert_true(str_eqz(json_str(member(msgs, 4, "tool_call_id")), "call_b"));
}

static void
one_turn_is(const char *text, const char *words, bool done, size_t ncalls, const char *code)
{
	struct played p = {.text = text};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, &p, 1);
	m = remote_open(&s, "openai:x", 0);
	if (remote_turn(m, NULL, 0, &t, &e) != 0)
		fail_msg("%s", e.msg);
	if (!str_eqz(t.words, words))
		fail_msg("\"%.*s\"", STR_ARG(t.words));
	assert_int_equal(t.done, done);
	assert_int_equal(t.ncalls, ncalls);
	for (size_t i = 0; i < ncalls; i++)
		if (t.calls[i].fault != NULL || !str_eqz(t.calls[i].args.text[0], code))
			fail_msg("%zu: %s", i, t.calls[i].fault);
	assert_true(t.tokens_in != 0 && t.tokens_out != 0);
}

#define CALL(more, args) \
	"{\"tool_calls\":[{" more "\"function\":{\"name\":\"run_code\",\"arguments\":" args "}}]}"
#define ARGS "\"{\\\"language\\\":\\\"sh\\\",\\\"code\\\":\\\"ls\\\"}\""

static void
gaps_of_other_servers_are_tolerated(void **state UNUSED)
{
	/* No index, no id: each name begins a call. */
	one_turn_is(SSE_OK CHUNK(CALL("", ARGS), "null") CHUNK(CALL("", ARGS), "\"tool_calls\"")
			DONE,
	    "", false, 2, "ls");
	/* No index, the id again with each piece. */
	one_turn_is(SSE_OK CHUNK(CALL("\"id\":\"a\",", "\"{\\\"language\\\":\\\"sh\\\",\""), "null")
			CHUNK(CALL("\"id\":\"a\",", "\"\\\"code\\\":\\\"ls\\\"}\""), "null")
			    CHUNK(CALL("\"id\":\"b\",", ARGS), "\"tool_calls\"") DONE,
	    "", false, 2, "ls");
	/* Arguments as an object; "stop" although there is a call; no [DONE], no usage. */
	one_turn_is(SSE_OK D("{\"choices\":[{\"delta\":" CALL("\"index\":0,",
			"{\"language\":\"sh\",\"code\":\"ls\"}") ",\"finish_reason\":\"stop\"}]}"),
	    "", false, 1, "ls");
	/* A whole message in one chunk. */
	one_turn_is(SSE_OK D("{\"choices\":[{\"message\":{\"content\":\"Hi.\"},\"finish_reason\":"
			     "\"stop\"}]}"),
	    "Hi.", true, 0, "");
	/* What reasoning servers send besides, and a usage with fractions. */
	one_turn_is(
	    SSE_OK CHUNK("{\"reasoning_content\":\"hm\"}", "null")
		CHUNK("{\"content\":\"Hi.\"}", "\"stop\"")
		    D("{\"choices\":[],\"timings\":{\"t\":1.5e-3},\"usage\":{\"prompt_tokens\":1,"
		      "\"completion_tokens\":2}}") DONE,
	    "Hi.", true, 0, "");
}

static void
end_is(const char *text, unsigned retries, unsigned want_asked, int want, const char *why)
{
	struct played p[4] = {{.text = text}, {.text = text}, {.text = text}, {.text = text}};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	AUTO_FREE char *log = NULL;
	struct model_turn t;
	struct err e = {0};
	unsigned asked = 0;
	int rc;

	server_start(&s, p, 4);
	m = remote_open(&s, "openai:x", retries);
	rc = remote_turn(m, NULL, 0, &t, &e);
	if (rc != want || strstr(e.msg, why) == NULL)
		fail_msg("%d \"%s\", wanted %d \"%s\"", rc, e.msg, want, why);
	log = server_log(&s);
	for (const char *at = log; (at = strstr(at, "== ")) != NULL; at++)
		asked++;
	if (asked != want_asked)
		fail_msg("%s: asked %u times, not %u", why, asked, want_asked);
}

#define SOON "retry-after-ms: 1\r\n"
#define ERR_BODY(type, code)                                                                       \
	"{\"error\":{\"message\":\"so it is\",\"type\":\"" type "\",\"param\":null,\"code\":" code \
	"}}"

static void
errors_are_tried_again_or_final(void **state UNUSED)
{
	end_is(JSON_STATUS("429 Many", SOON, ERR_BODY("requests", "\"rate_limit_exceeded\"")), 2, 3,
	    ERR_UPSTREAM, "HTTP 429 requests: so it is");
	end_is(
	    JSON_STATUS("429 Many", SOON, ERR_BODY("insufficient_quota", "\"insufficient_quota\"")),
	    2, 1, ERR_UPSTREAM, "insufficient_quota");
	end_is(JSON_STATUS("404 No", SOON, "{\"error\":\"model not found\"}"), 2, 1, ERR_UPSTREAM,
	    "model not found");
	end_is(SSE_OK D("{\"error\":{\"message\":\"busy\",\"type\":\"server_error\"}}"), 1, 2,
	    ERR_UPSTREAM, "server_error: busy");
	end_is(SSE_OK D("{\"error\":\"broken\"}"), 1, 1, ERR_UPSTREAM, "broken");
	end_is(SSE_OK CHUNK("{\"content\":\"half\"}", "null"), 1, 2, ERR_UPSTREAM, "in the middle");
	end_is(SSE_OK CHUNK("{\"refusal\":\"I will not.\"}", "null") CHUNK("{}", "\"stop\"") DONE,
	    2, 1, ERR_DENIED, "refuses to go on: I will not.");
	end_is(SSE_OK CHUNK("{}", "\"content_filter\"") DONE, 2, 1, ERR_DENIED, "refuses");
}

static void
a_cut_answer_goes_on_without_its_half_call(void **state UNUSED)
{
	static const char text[] =
	    SSE_OK CHUNK(CALL("\"index\":0,", "\"{\\\"lang\""), "\"length\"") DONE;
	struct played p[] = {{.text = text}, {.text = bye}};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	AUTO(json) struct json_doc *d = NULL;
	const struct json *msgs;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, p, 2);
	m = remote_open(&s, "openai:x", 0);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
	assert_false(t.done);
	assert_int_equal(t.ncalls, 0);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
	d = server_body(&s, 1);
	msgs = json_get(json_root(d), "messages");
	assert_int_equal(json_count(msgs), 3); /* system, task, our note */
	assert_true(str_eqz(json_str(member(msgs, 2, "role")), "user"));
}

static void
as_many_answers_as_calls_are_wanted(void **state UNUSED)
{
	static const struct model_answer one = {STR("x"), false};
	struct played p[] = {{.text = rich}};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, p, 1);
	m = remote_open(&s, "openai:x", 0);
	assert_int_equal(remote_turn(m, &one, 1, &t, &e), ERR_INTERNAL);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
	assert_int_equal(remote_turn(m, &one, 1, &t, &e), ERR_INTERNAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_stream_is_the_same_turn_for_every_cut),
	    cmocka_unit_test(calls_go_back_with_one_tool_message_each),
	    cmocka_unit_test(gaps_of_other_servers_are_tolerated),
	    cmocka_unit_test(errors_are_tried_again_or_final),
	    cmocka_unit_test(a_cut_answer_goes_on_without_its_half_call),
	    cmocka_unit_test(as_many_answers_as_calls_are_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
