/* Anthropic Messages: streams to turns, turns to requests, errors to retries or an end. */
#include "tests/unit/model_help.h"

#include "agent/model_anthropic.h"
#include "agent/model_remote_int.h"

#include "common/banned.h"

#define EV(name, json) "event: " name "\ndata: " json "\n\n"
#define START                                                                                    \
	EV("message_start",                                                                      \
	    "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{"              \
	    "\"input_tokens\":10,\"cache_creation_input_tokens\":5,\"cache_read_input_tokens\":" \
	    "100,\"output_tokens\":1}}}")
#define STOP(reason)                                                                           \
	EV("message_delta", "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason \
			    "\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":20}}")    \
	EV("message_stop", "{\"type\":\"message_stop\"}")
#define BLOCK(i, block)           \
	EV("content_block_start", \
	    "{\"type\":\"content_block_start\",\"index\":" i ",\"content_block\":" block "}")
#define DELTA(i, delta)           \
	EV("content_block_delta", \
	    "{\"type\":\"content_block_delta\",\"index\":" i ",\"delta\":" delta "}")
#define END(i) EV("content_block_stop", "{\"type\":\"content_block_stop\",\"index\":" i "}")
#define TEXT(i, text)                                 \
	BLOCK(i, "{\"type\":\"text\",\"text\":\"\"}") \
	DELTA(i, "{\"type\":\"text_delta\",\"text\":\"" text "\"}") END(i)
#define TOOL(i, id, name) \
	BLOCK(i, "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"" name "\",\"input\":{}}")
#define PART(i, json) DELTA(i, "{\"type\":\"input_json_delta\",\"partial_json\":\"" json "\"}")

/* Thinking, words and two calls, the first in pieces; what nobody knows in between. */
static const char rich[] = SSE_OK START EV("ping", "{\"type\":\"ping\"}")
    BLOCK("0", "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}")
	DELTA("0", "{\"type\":\"thinking_delta\",\"thinking\":\"hm \\u00e4\"}")
	    DELTA("0", "{\"type\":\"thinking_delta\",\"thinking\":\"m\"}") DELTA(
		"0", "{\"type\":\"signature_delta\",\"signature\":\"c2ln+/==\"}") END("0")
		BLOCK("1", "{\"type\":\"redacted_thinking\",\"data\":\"c2VhbGVk\"}") END("1") TEXT(
		    "2", "I look.") EV("brand_new", "{\"type\":\"brand_new\",\"x\":1.5e3}")
		    BLOCK("3", "{\"type\":\"hologram\",\"stuff\":null}") END("3") TOOL("4",
			"toolu_1", "run_code") PART("4", "") PART("4", "{\\\"language\\\": \\\"ba")
			PART("4", "sh\\\",\\\"code\\\":\\\"echo \\\\\\\"1\\\\\\\"\\\\n\\\"}")
			    END("4") TOOL("5", "toolu_2", "run_code") PART("5",
				"{\\\"language\\\":\\\"python\\\",\\\"code\\\":\\\"print(2)\\\"}")
				END("5") STOP("tool_use");
static const char bye[] = SSE_OK START TEXT("0", "Done.") STOP("end_turn");

static void
turn_is_rich(const struct model_turn *t)
{
	assert_true(str_eqz(t->words, "I look."));
	assert_false(t->done);
	assert_int_equal(t->ncalls, 2);
	assert_true(str_eqz(t->calls[0].args.text[1], "bash"));
	assert_true(str_eqz(t->calls[0].args.text[0], "echo \"1\"\n"));
	assert_true(str_eqz(t->calls[1].args.text[0], "print(2)"));
	assert_int_equal(t->tokens_in + t->tokens_out, 135);
}

static void
two_turns(struct server *s)
{
	static const struct model_answer a[] = {{STR("1\n[exit 0]"), false}, {STR("no"), true}};
	AUTO(model) struct model *m = remote_open(s, "anthropic:claude-x", 0);
	struct model_turn t;
	struct err e = {0};

	if (remote_turn(m, NULL, 0, &t, &e) != 0)
		fail_msg("%s", e.msg);
	turn_is_rich(&t);
	if (remote_turn(m, a, 2, &t, &e) != 0)
		fail_msg("%s", e.msg);
	assert_true(t.done);
	assert_true(str_eqz(t.words, "Done."));
}

static void
a_stream_is_the_same_turn_for_every_cut(void **state UNUSED)
{
	for (size_t step = 1; step < 60; step += 1) {
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

/* Everything that was said goes back: thinking with its seal, in its order, and all results. */
static void
what_was_said_goes_back_verbatim_and_every_call_is_answered(void **state UNUSED)
{
	struct played p[] = {{.text = rich}, {.text = bye}};
	AUTO_SERVER struct server s;
	AUTO(json) struct json_doc *first = NULL, *second = NULL;
	const struct json *msgs, *c;

	server_start(&s, p, 2);
	two_turns(&s);
	first = server_body(&s, 0);
	msgs = json_get(json_root(first), "messages");
	assert_int_equal(json_count(msgs), 1);
	assert_true(str_eqz(json_str(member(member(msgs, 0, "content"), 0, "text")), "do it"));
	assert_non_null(member(member(msgs, 0, "content"), 0, "cache_control"));
	assert_true(json_bool(json_get(json_root(first), "stream")));
	assert_int_equal(json_int(json_get(json_root(first), "max_tokens")), 16384);
	second = server_body(&s, 1);
	msgs = json_get(json_root(second), "messages");
	assert_int_equal(json_count(msgs), 3);
	assert_null(member(member(msgs, 0, "content"), 0, "cache_control"));
	c = member(msgs, 1, "content");
	assert_int_equal(json_count(c), 5); /* not the hologram */
	assert_true(str_eqz(json_str(member(c, 0, "thinking")), "hm \xc3\xa4m"));
	assert_true(str_eqz(json_str(member(c, 0, "signature")), "c2ln+/=="));
	assert_true(str_eqz(json_str(member(c, 1, "data")), "c2VhbGVk"));
	assert_true(str_eqz(json_str(member(c, 2, "text")), "I look."));
	assert_true(str_eqz(json_str(member(c, 3, "id")), "toolu_1"));
	assert_true(str_eqz(json_str(json_get(member(c, 3, "input"), "code")), "echo \"1\"\n"));
	c = member(msgs, 2, "content");
	assert_int_equal(json_count(c), 2);
	assert_true(str_eqz(json_str(member(c, 0, "tool_use_id")), "toolu_1"));
	assert_true(str_eqz(json_str(member(c, 0, "content")), "1\n[exit 0]"));
	assert_null(member(c, 0, "is_error"));
	assert_null(member(c, 0, "cache_control"));
	assert_true(str_eqz(json_str(member(c, 1, "tool_use_id")), "toolu_2"));
	assert_true(json_bool(member(c, 1, "is_error")));
	assert_non_null(member(c, 1, "cache_control"));
}

/* A provider's cache holds only if what was sent is sent again byte for byte. */
static void
system_tools_and_past_messages_keep_their_bytes(void **state UNUSED)
{
	struct played p[] = {{.text = rich}, {.text = bye}};
	AUTO_SERVER struct server s;
	AUTO_FREE char *log = NULL;
	char *one, *two, *end;

	server_start(&s, p, 2);
	two_turns(&s);
	log = server_log(&s);
	one = strstr(log, "\"model\":");
	end = strstr(one, "\n== ");
	assert_non_null(end);
	*end = '\0';
	two = strstr(end + 1, "\"model\":");
	assert_string_equal(one, two); /* model, stream, system, tools */
	assert_non_null(strstr(two, "run_code"));
}

static void
one_turn_is(const char *text, const char *words, bool done, size_t ncalls)
{
	struct played p = {.text = text};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, &p, 1);
	m = remote_open(&s, "anthropic:x", 0);
	if (remote_turn(m, NULL, 0, &t, &e) != 0)
		fail_msg("%s", e.msg);
	if (!str_eqz(t.words, words))
		fail_msg("\"%.*s\"", STR_ARG(t.words));
	assert_int_equal(t.done, done);
	assert_int_equal(t.ncalls, ncalls);
	for (size_t i = 0; i < ncalls; i++)
		if (t.calls[i].fault != NULL || !str_eqz(t.calls[i].args.text[0], "ls"))
			fail_msg("%zu: %s", i, t.calls[i].fault);
}

/* Sums of them must still be numbers that a record has. */
static void
counts_beyond_all_reason_are_cut(void **state UNUSED)
{
	const struct reply usual = {
	    .usage = true, .tokens_in = 115, .cache_read = 100, .tokens_out = 20};
	const struct reply none = {.usage = true,
	    .tokens_in = UINT64_C(3) << 53,
	    .cache_read = UINT64_C(1) << 53,
	    .cache_write = UINT64_C(1) << 53,
	    .tokens_out = UINT64_C(1) << 53};
	struct remote r = {.reply = usual};
	struct model_turn t = {0};

	remote_usage(&r, &t);
	assert_true(t.tokens_in == 115 && t.cache_read == 100 && t.tokens_out == 20);
	r.reply = none;
	remote_usage(&r, &t);
	assert_true(t.tokens_in <= UINT64_C(1) << 36 && t.tokens_out <= UINT64_C(1) << 36);
	assert_true(t.cache_read + t.cache_write <= t.tokens_in);
}

static void
gaps_of_other_servers_are_tolerated(void **state UNUSED)
{
	/* No event names, no usage, no id, all of the input at once, no message_stop. */
	one_turn_is(SSE_OK "data: {\"type\":\"message_start\",\"message\":{}}\n\n"
			   "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":"
			   "{\"type\":\"tool_use\",\"name\":\"run_code\",\"input\":{\"language\":"
			   "\"bash\",\"code\":\"ls\"}}}\n\n"
			   "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
			   "\"tool_use\"}}\n\n",
	    "", false, 1);
	/* Input at the begin, and then once more in pieces: the pieces count. */
	one_turn_is(SSE_OK START BLOCK(
			"0", "{\"type\":\"tool_use\",\"name\":\"run_code\",\"input\":{\"x\":1}}")
			PART("0", "{\\\"language\\\":\\\"sh\\\",\\\"code\\\":\\\"ls\\\"}") END("0")
			    STOP("tool_use"),
	    "", false, 1);
	/* Two pieces of text; no stop reason of any known kind. */
	one_turn_is(SSE_OK START TEXT("0", "a") TEXT("1", "b") STOP("newly_made"), "a\nb", true, 0);
	one_turn_is(SSE_OK START STOP("end_turn"), "", true, 0);
}

/* A fault is an answer to the model; the other call of the turn runs. */
static void
a_call_that_cannot_be_read_is_answered_not_run(void **state UNUSED)
{
	static const char text[] =
	    SSE_OK START TOOL("0", "t0", "drop_table") END("0") TOOL("1", "t1", "run_code")
		PART("1", "{\\\"language\\\":\\\"bash\\\",") END("1") TOOL("2", "t2", "run_code")
		    PART("2", "{\\\"code\\\":\\\"ls\\\"}") END("2") TOOL("3", "t3", "run_code")
			PART("3", "[1]") END("3") TOOL("4", "t4", "run_code")
			    PART("4", "{\\\"language\\\":\\\"sh\\\",\\\"code\\\":\\\"ls\\\"}")
				END("4") STOP("tool_use");
	static const char *const want[] = {"there is no tool \"drop_table\"", "no JSON",
	    "\"language\" is missing", "must be an object", NULL};
	static const struct model_answer a[5] = {{.failed = true}};
	struct played p[] = {{.text = text}, {.text = bye}};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	AUTO(json) struct json_doc *d = NULL;
	const struct json *c;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, p, 2);
	m = remote_open(&s, "anthropic:x", 0);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
	assert_int_equal(t.ncalls, 5);
	for (size_t i = 0; i < 5; i++)
		if (want[i] == NULL ? t.calls[i].fault != NULL
				    : strstr(t.calls[i].fault, want[i]) == NULL)
			fail_msg("%zu: %s", i, t.calls[i].fault);
	assert_int_equal(remote_turn(m, a, 5, &t, &e), 0);
	d = server_body(&s, 1);
	c = member(json_get(json_root(d), "messages"), 1, "content");
	assert_true(str_eqz(
	    json_str(json_get(member(c, 1, "input"), "INVALID_JSON")), "{\"language\":\"bash\","));
	assert_int_equal(json_count(member(json_get(json_root(d), "messages"), 2, "content")), 5);
}

static void
a_cut_answer_goes_on_without_its_half_call(void **state UNUSED)
{
	static const char text[] = SSE_OK START TEXT("0", "Long") TOOL("1", "t1", "run_code")
	    PART("1", "{\\\"language\\\":\\\"ba") END("1") STOP("max_tokens");
	struct played p[] = {{.text = text}, {.text = bye}};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	AUTO(json) struct json_doc *d = NULL;
	const struct json *msgs;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, p, 2);
	m = remote_open(&s, "anthropic:x", 0);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
	assert_false(t.done);
	assert_int_equal(t.ncalls, 0);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
	assert_true(t.done);
	d = server_body(&s, 1);
	msgs = json_get(json_root(d), "messages");
	assert_int_equal(json_count(msgs), 3);
	assert_int_equal(json_count(member(msgs, 1, "content")), 1);
	assert_non_null(
	    memmem(json_str(member(member(msgs, 2, "content"), 0, "text")).p, 30, "cut off", 7));
}

static void
a_paused_answer_is_sent_back_as_it_is(void **state UNUSED)
{
	static const char text[] = SSE_OK START TEXT("0", "Wait") STOP("pause_turn");
	struct played p[] = {{.text = text}, {.text = bye}};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	AUTO(json) struct json_doc *d = NULL;
	const struct json *msgs;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, p, 2);
	m = remote_open(&s, "anthropic:x", 0);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
	assert_false(t.done);
	assert_int_equal(remote_turn(m, NULL, 0, &t, &e), 0);
	d = server_body(&s, 1);
	msgs = json_get(json_root(d), "messages");
	assert_int_equal(json_count(msgs), 2);
	assert_true(str_eqz(json_str(member(msgs, 1, "role")), "assistant"));
}

/* How often a server that always says the same is asked, and what the end says. */
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
	m = remote_open(&s, "anthropic:x", retries);
	rc = remote_turn(m, NULL, 0, &t, &e);
	if (rc != want || strstr(e.msg, why) == NULL)
		fail_msg("%d \"%s\", wanted %d \"%s\"", rc, e.msg, want, why);
	log = server_log(&s);
	for (const char *at = log; (at = strstr(at, "== ")) != NULL; at++)
		asked++;
	if (asked != want_asked)
		fail_msg("%s: asked %u times, not %u", why, asked, want_asked);
}

#define ERR_BODY(type, more)                                                                 \
	"{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"so it is\"" more \
	"},\"request_id\":\"r\"}"
#define SOON "retry-after-ms: 1\r\n"

static void
passing_errors_are_tried_again_final_ones_are_not(void **state UNUSED)
{
	end_is(JSON_STATUS("529 Overloaded", SOON, ERR_BODY("overloaded_error", "")), 2, 3,
	    ERR_UPSTREAM, "HTTP 529 overloaded_error: so it is");
	end_is(JSON_STATUS("429 Many", SOON, ERR_BODY("rate_limit_error", "")), 1, 2, ERR_UPSTREAM,
	    "429");
	end_is(JSON_STATUS("500 Oh", SOON, ERR_BODY("api_error", "")), 0, 1, ERR_UPSTREAM, "500");
	end_is(JSON_STATUS("400 Bad", SOON, ERR_BODY("invalid_request_error", "")), 2, 1,
	    ERR_UPSTREAM, "invalid_request_error: so it is");
	end_is(JSON_STATUS(
		   "401 No", "x-should-retry: true\r\n" SOON, ERR_BODY("authentication_error", "")),
	    2, 3, ERR_UPSTREAM, "401");
	end_is(JSON_STATUS("500 Oh", "x-should-retry: false\r\n", ERR_BODY("api_error", "")), 2, 1,
	    ERR_UPSTREAM, "500");
	end_is(JSON_STATUS("429 Spent", SOON,
		   ERR_BODY("rate_limit_error",
		       ",\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}")),
	    2, 1, ERR_UPSTREAM, "429");
	end_is("HTTP/1.1 502 Bad Gateway\r\n" SOON "Content-Length: 4\r\n\r\noops", 1, 2,
	    ERR_UPSTREAM, "HTTP 502: oops");
}

static void
the_brokers_own_refusal_is_shown_and_final(void **state UNUSED)
{
	end_is(
	    "HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
	    "Connection: close\r\n\r\n{\"title\":\"denied by policy\",\"detail\":\"rule "
	    "no-models\",\"status\":403}",
	    2, 1, ERR_DENIED, "the broker says: HTTP 403: denied by policy: rule no-models");
}

static void
an_error_after_200_counts_as_the_status_it_would_have_been(void **state UNUSED)
{
	end_is(SSE_OK START TEXT("0", "half")
		   EV("error", "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
			       "\"message\":\"busy\"}}"),
	    1, 2, ERR_UPSTREAM, "overloaded_error: busy");
	end_is(SSE_OK START EV("error",
		   "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
		   "\"message\":\"no\"}}"),
	    2, 1, ERR_UPSTREAM, "invalid_request_error: no");
	end_is(SSE_OK START TEXT("0", "half"), 1, 2, ERR_UPSTREAM, "ended in the middle");
	end_is(SSE_OK START "data: {\"type\":\n\n", 2, 1, ERR_SYNTAX, "the model's stream");
	end_is(JSON_STATUS("200 OK", "", "{}"), 2, 1, ERR_UPSTREAM, "no event stream");
}

static void
a_refusal_and_a_full_context_end_with_their_words(void **state UNUSED)
{
	end_is(SSE_OK START TEXT("0", "I will not.") STOP("refusal"), 2, 1, ERR_DENIED,
	    "refuses to go on: I will not.");
	end_is(SSE_OK START STOP("model_context_window_exceeded"), 2, 1, ERR_TOO_LARGE, "context");
}

static void
a_wait_beyond_the_runs_time_is_not_begun(void **state UNUSED)
{
	end_is(JSON_STATUS("429 Many", "retry-after: 3600\r\n", ERR_BODY("rate_limit_error", "")),
	    2, 1, ERR_UPSTREAM, "no time for another try in 3600.000 s");
}

static void
another_try_begins_with_nothing_of_the_last(void **state UNUSED)
{
	static const char half[] = SSE_OK START TEXT("0", "half") TOOL("1", "t", "run_code");
	struct played p[] = {{.text = half}, {.text = NULL}, {.text = bye}};
	AUTO_SERVER struct server s;
	AUTO(model) struct model *m = NULL;
	struct model_turn t;
	struct err e = {0};

	server_start(&s, p, 3);
	m = remote_open(&s, "anthropic:x", 2);
	if (remote_turn(m, NULL, 0, &t, &e) != 0)
		fail_msg("%s", e.msg);
	assert_true(str_eqz(t.words, "Done."));
	assert_int_equal(t.ncalls, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_stream_is_the_same_turn_for_every_cut),
	    cmocka_unit_test(what_was_said_goes_back_verbatim_and_every_call_is_answered),
	    cmocka_unit_test(system_tools_and_past_messages_keep_their_bytes),
	    cmocka_unit_test(counts_beyond_all_reason_are_cut),
	    cmocka_unit_test(gaps_of_other_servers_are_tolerated),
	    cmocka_unit_test(a_call_that_cannot_be_read_is_answered_not_run),
	    cmocka_unit_test(a_cut_answer_goes_on_without_its_half_call),
	    cmocka_unit_test(a_paused_answer_is_sent_back_as_it_is),
	    cmocka_unit_test(passing_errors_are_tried_again_final_ones_are_not),
	    cmocka_unit_test(the_brokers_own_refusal_is_shown_and_final),
	    cmocka_unit_test(an_error_after_200_counts_as_the_status_it_would_have_been),
	    cmocka_unit_test(a_refusal_and_a_full_context_end_with_their_words),
	    cmocka_unit_test(a_wait_beyond_the_runs_time_is_not_begun),
	    cmocka_unit_test(another_try_begins_with_nothing_of_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
