/* Messages to MCP servers to effects: tools by what the policy says of them, the rest by method. */
#include "tests/unit/kind_help.h"

#include "common/banned.h"

#define JSON "Content-Type: application/json\r\n"
#define CALL(name)                                                                             \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" name \
	"\"}}"
#define ASK(method, params) \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"

static void
a_tool_does_what_the_policy_says(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"POST /mcp", JSON, CALL("list_rows"), "read", "tool/list_rows"},
	    {"POST /mcp", JSON, CALL("drop_table"), "drop schema", "tool/drop_table"},
	    {"POST /mcp", JSON, CALL("Drop_table"), "opaque", "tool/Drop_table"},
	    {"POST /mcp", JSON, CALL("send_mail"), "opaque", "tool/send_mail"},
	    {"POST /mcp", JSON, ASK("tools/call", ""), "opaque", "tool/"},
	};

	KIND_ROWS("m", rows);
}

static void
other_methods_read_or_are_not_known(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"POST /mcp", JSON, ASK("initialize", "\"protocolVersion\":\"2025-11-25\""), "read",
		""},
	    {"POST /mcp", JSON, ASK("server/discover", ""), "read", ""},
	    {"POST /mcp", JSON, ASK("tools/list", ""), "read", ""},
	    {"POST /mcp", JSON, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
		"read", ""},
	    {"POST /mcp", JSON, ASK("resources/read", "\"uri\":\"file:///a\""), "read",
		"resource/file:///a"},
	    {"POST /mcp", JSON, ASK("prompts/get", "\"name\":\"p\""), "read", "prompt/p"},
	    {"POST /mcp", JSON, ASK("tasks/update", ""), "opaque", ""},
	    {"POST /mcp", JSON, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\"}}",
		"opaque", ""},
	    {"GET /mcp", "Accept: text/event-stream\r\n", NULL, "read", ""},
	    {"DELETE /mcp", NULL, NULL, "txn", ""},
	    {"PUT /mcp", JSON, CALL("list_rows"), "opaque", ""},
	};

	KIND_ROWS("m", rows);
}

static void
a_message_of_two_meanings_is_refused(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"POST /mcp", JSON "Mcp-Method: tools/call\r\nMcp-Name: list_rows\r\n",
		CALL("list_rows"), "read", NULL},
	    {"POST /mcp", JSON "Mcp-Name: =?base64?bGlzdF9yb3dz?=\r\n", CALL("list_rows"), "read",
		NULL},
	    {"POST /mcp", JSON "Mcp-Name: list_rows\r\n", CALL("drop_table"), "drop opaque schema",
		NULL},
	    {"POST /mcp", JSON "Mcp-Method: tools/list\r\n", CALL("list_rows"), "opaque read",
		NULL},
	    {"POST /mcp", JSON "Mcp-Name: list_rows\r\nMcp-Name: list_rows\r\n", CALL("list_rows"),
		"opaque", NULL},
	    {"POST /mcp", JSON "Mcp-Name: =?base64?*?=\r\n", CALL("list_rows"), "opaque", NULL},
	    {"POST /mcp", JSON, "[" CALL("list_rows") "]", "invalid", NULL},
	    {"POST /mcp", JSON,
		"{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\",\"method\":\"tools/call\"}",
		"invalid", NULL},
	    {"POST /mcp", JSON, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"result\":{}}",
		"invalid", NULL},
	    {"POST /mcp", JSON, "{\"method\":\"ping\"}", "invalid", NULL},
	    {"POST /mcp", JSON, "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":[1]}",
		"invalid", NULL},
	    {"POST /mcp", JSON "Content-Encoding: gzip\r\n", "x", "opaque", NULL},
	    {"POST /mcp", "Content-Type: text/plain\r\n", CALL("list_rows"), "opaque", NULL},
	};

	KIND_ROWS("m", rows);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_tool_does_what_the_policy_says),
	    cmocka_unit_test(other_methods_read_or_are_not_known),
	    cmocka_unit_test(a_message_of_two_meanings_is_refused),
	};

	return cmocka_run_group_tests(tests, kind_setup, kind_teardown);
}
