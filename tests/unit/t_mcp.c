/* The protocol core of cofferdam-mcp: messages, both eras, arguments of tools, header values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/mcp_session.h"
#include "agent/mcp_tools.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define META                                    \
	"\"_meta\":{\"io.modelcontextprotocol/" \
	"protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}"

static struct {
	char *sent, *answered;
	unsigned status, answers, cancels;
	struct mcp_call *call; /* that waits */
	int exchange;
} t;

static void
out_send(void *exchange, struct str m)
{
	assert_ptr_equal(exchange, &t.exchange);
	free(t.sent);
	t.sent = str_dup(m);
}

static void
out_answer(void *exchange, unsigned status, struct str m)
{
	assert_ptr_equal(exchange, &t.exchange);
	free(t.answered);
	t.answered = str_dup(m);
	t.status = status;
	t.answers++;
}

static void
on_call(struct mcp_call *c, const struct mcp_tool *tool, const struct json *arguments)
{
	(void)tool;
	(void)arguments;
	t.call = c;
}

static void
on_cancel(struct mcp_call *c)
{
	(void)c;
	t.cancels++;
	t.call = NULL;
}

static const struct mcp_out out = {.send = out_send, .answer = out_answer};
static struct mcp_server server = {.name = "n",
    .title = "t",
    .version = "1",
    .legacy = "{\"tools\":{}}",
    .modern = "{\"tools\":{}}",
    .ntools = MCP_TOOLS,
    .call = on_call,
    .cancel = on_cancel};

static struct mcp_session *
session(void)
{
	free(t.sent);
	free(t.answered);
	memset(&t, 0, sizeof(t));
	server.tools = mcp_tools();
	return mcp_session_new(&server, &out, NULL);
}

static void
take(struct mcp_session *s, const char *text)
{
	mcp_session_take(s, str_z(text), NULL, &t.exchange);
}

#define has(part) assert_non_null(strstr(t.answered, part))
#define lacks(part) assert_null(strstr(t.answered, part))
#define INITIALIZE                                                                                 \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":" \
	"\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\\u001b[31m\","            \
	"\"version\":\"2\"}}}"
#define CALL(id, meta)                                           \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/" \
	"call\",\"params\":{\"name\":\"run_code\",\"arguments\":{\"code\":\"1\"}" meta "}}"

static void
what_is_no_message_is_answered_with_its_code(void **state)
{
	static const struct {
		const char *text, *code;
	} rows[] = {{"", "-32700"}, {"nul", "-32700"}, {"7", "-32600"}, {"[]", "-32600"},
	    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
		"\"id\":1,\"error\":{\"code\":-32600"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
		"\"id\":null,\"error\":{\"code\":-32600"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", "-32600"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", "-32602"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}", "-32600"}};
	struct mcp_session *s = session();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		take(s, rows[i].text);
		has(rows[i].code);
		assert_int_equal(t.status, 400);
	}
	take(s, "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\",\"method\":\"ping\"}");
	has("\"id\":\"a\\\"b\",\"result\":{}");
	mcp_session_free(s);
}

static void
an_initialized_client_is_answered_in_its_version(void **state)
{
	struct mcp_session *s = session();

	(void)state;
	take(s, INITIALIZE);
	has("\"protocolVersion\":\"2025-06-18\"");
	lacks("resultType");
	assert_string_equal(mcp_session_client(s), "c?[31m 2");
	take(s, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	assert_int_equal(t.status, 202);
	take(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
	has("\"name\":\"approval_status\"");
	lacks("ttlMs");
	take(s, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"server/frob\"}");
	has("-32601");
	mcp_session_free(s);
}

static void
a_stateless_request_needs_its_version_and_capabilities(void **state)
{
	struct mcp_session *s = session();

	(void)state;
	take(s,
	    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" META "}}}");
	has("\"supportedVersions\":[\"2026-07-28\"");
	has("\"resultType\":\"complete\"");
	take(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}");
	has("-32602");
	take(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
		"list\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/"
		"protocolVersion\":\"2026-07-28\"}}}");
	has("-32602");
	take(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
		"list\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/"
		"protocolVersion\":\"2027-01-01\",\"io.modelcontextprotocol/"
		"clientCapabilities\":{}}}}");
	has("-32022");
	has("\"requested\":\"2027-01-01\"");
	take(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" META "}}}");
	has("-32601");
	assert_int_equal(t.status, 404);
	take(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
	has("-32602");
	mcp_session_free(s);
}

static void
a_call_is_answered_once_and_a_cancelled_one_never(void **state)
{
	struct mcp_session *s = session();
	unsigned before;

	(void)state;
	take(s, CALL("5", "," META ",\"progressToken\":\"p\"}"));
	assert_non_null(t.call);
	assert_int_equal(t.answers, 0);
	mcp_call_progress(t.call, 3, 0, "line");
	assert_string_equal(t.sent,
	    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
	    "progress\",\"params\":{\"progressToken\":\"p\",\"progress\":3,\"message\":\"line\"}}");
	take(s, CALL("5", "," META "}"));
	has("-32600"); /* the id waits still */
	mcp_call_structured(t.call, STR("{\"a\":1}"), true);
	has("\"text\":\"{\\\"a\\\":1}\"");
	has("\"isError\":true,\"structuredContent\":{\"a\":1}");
	take(s, CALL("6", "," META "}"));
	before = t.answers;
	take(s, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
		"cancelled\",\"params\":{\"requestId\":6}}");
	assert_int_equal(t.cancels, 1);
	assert_int_equal(
	    t.answers, before + 2); /* its end without a text, and the notification's 202 */
	assert_string_equal(t.answered, "");
	mcp_session_free(s);
}

static void
a_client_that_goes_has_cancelled_only_in_the_stateless_era(void **state)
{
	struct mcp_session *s = session();

	(void)state;
	take(s, CALL("1", "," META "}"));
	mcp_session_gone(s, &t.exchange);
	assert_int_equal(t.cancels, 1);
	take(s, INITIALIZE);
	take(s, CALL("2", ""));
	mcp_session_gone(s, &t.exchange);
	assert_int_equal(t.cancels, 1);
	assert_non_null(t.call);
	mcp_call_structured(t.call, STR("{}"), false); /* to nobody */
	mcp_session_free(s);
}

static struct str
no_param(const void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return STR("");
}

static void
fields_must_say_what_the_body_says(void **state)
{
	static const struct {
		const char *version, *method, *name, *want;
	} rows[] = {{"2026-07-28", "tools/call", "run_code", NULL},
	    {"2026-07-28", "tools/call", "=?base64?cnVuX2NvZGU=?=", NULL},
	    {"2026-07-28", "tools/call", "=?base64?cnVuX2NvZGU?=", "-32020"},
	    {"2026-07-28", "tools/call", "read_file", "-32020"},
	    {"2026-07-28", "tools/call", "", "-32020"},
	    {"2026-07-28", "TOOLS/CALL", "run_code", "-32020"},
	    {"2026-07-28", "", "run_code", "-32020"},
	    {"2025-11-25", "tools/call", "run_code", "-32020"},
	    {"", "tools/call", "run_code", "-32020"}};
	struct mcp_session *s = session();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct mcp_http h = {.version = str_z(rows[i].version),
		    .method = str_z(rows[i].method),
		    .name = str_z(rows[i].name),
		    .param = no_param};

		t.call = NULL;
		mcp_session_take(s, STR(CALL("1", "," META "}")), &h, &t.exchange);
		if (rows[i].want == NULL) {
			assert_non_null(t.call);
			mcp_call_failed(t.call, "x");
			assert_int_equal(t.status, 200);
		} else {
			assert_null(t.call);
			has(rows[i].want);
			assert_int_equal(t.status, 400);
		}
	}
	mcp_session_free(s);
}

static void
no_more_than_64_calls_wait(void **state)
{
	struct mcp_session *s = session();

	(void)state;
	for (int i = 0; i < MCP_CALLS_MAX; i++) {
		AUTO_FREE char *text = xasprintf(CALL("%d", "," META "}"), i);

		take(s, text);
	}
	assert_int_equal(t.answers, 0);
	take(s, CALL("1000", "," META "}"));
	has("-32603");
	mcp_session_free(s);
	assert_int_equal(t.cancels, MCP_CALLS_MAX);
}

static int
args_of(
    enum mcp_tool_id id, const char *text, struct mcp_args *ret, struct json_doc **d, struct err *e)
{
	assert_int_equal(json_parse_numbers(str_z(text), "args", d, e), 0);
	return mcp_tools_args(id, json_root(*d), ret, e);
}

static void
arguments_that_do_not_fit_are_told_in_words(void **state)
{
	static const struct {
		enum mcp_tool_id id;
		const char *text, *why; /* NULL: it fits */
	} rows[] = {{MCP_RUN_CODE, "{\"code\":\"1\"}", NULL},
	    {MCP_RUN_CODE, "{}", "code is missing"}, {MCP_RUN_CODE, "{\"code\":\"\"}", "0 bytes"},
	    {MCP_RUN_CODE, "{\"code\":null}", "must be a string"},
	    {MCP_RUN_CODE, "{\"code\":\"1\",\"language\":\"bash\"}", NULL},
	    {MCP_RUN_CODE, "{\"code\":\"1\",\"language\":\"bas\"}", "python|javascript|bash"},
	    {MCP_RUN_CODE, "{\"code\":\"1\",\"timeout_s\":86400}", NULL},
	    {MCP_RUN_CODE, "{\"code\":\"1\",\"timeout_s\":86401}", "1 to 86400"},
	    {MCP_RUN_CODE, "{\"code\":\"1\",\"timeout_s\":1.5}", "must be an integer"},
	    {MCP_RUN_CODE, "{\"code\":\"1\",\"restart\":1}", "true or false"},
	    {MCP_RUN_CODE, "{\"code\":\"1\",\"approve\":true}", "no argument \"approve\""},
	    {MCP_LIST_TARGETS, "{}", NULL}, {MCP_LIST_TARGETS, "{\"x\":1}", "no argument"},
	    {MCP_WRITE_FILE, "{\"path\":\"a\",\"content\":\"\"}", NULL},
	    {MCP_EXECUTION_STATUS, "{}", "execution_id is missing"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(json) struct json_doc *d = NULL;
		struct mcp_args a;
		struct err e = {0};
		int rc = args_of(rows[i].id, rows[i].text, &a, &d, &e);

		assert_int_equal(rc, rows[i].why == NULL ? 0 : ERR_INVALID);
		if (rows[i].why != NULL)
			assert_non_null(strstr(e.msg, rows[i].why));
	}
}

static void
the_list_of_tools_is_json_and_sorted(void **state)
{
	const struct mcp_tool *tools = mcp_tools();

	(void)state;
	for (size_t i = 0; i < MCP_TOOLS; i++) {
		AUTO_FREE char *text = xasprintf("{%s}", tools[i].json);
		AUTO(json) struct json_doc *d = NULL;
		struct err e = {0};

		assert_int_equal(json_parse(str_z(text), tools[i].name, &d, &e), 0);
		assert_true(i == 0 || strcmp(tools[i - 1].name, tools[i].name) < 0);
		assert_int_equal(mcp_tools_id(&tools[i]), i);
		assert_null(strstr(tools[i].name, "sign"));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_no_message_is_answered_with_its_code),
	    cmocka_unit_test(an_initialized_client_is_answered_in_its_version),
	    cmocka_unit_test(a_stateless_request_needs_its_version_and_capabilities),
	    cmocka_unit_test(a_call_is_answered_once_and_a_cancelled_one_never),
	    cmocka_unit_test(a_client_that_goes_has_cancelled_only_in_the_stateless_era),
	    cmocka_unit_test(fields_must_say_what_the_body_says),
	    cmocka_unit_test(no_more_than_64_calls_wait),
	    cmocka_unit_test(arguments_that_do_not_fit_are_told_in_words),
	    cmocka_unit_test(the_list_of_tools_is_json_and_sorted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
