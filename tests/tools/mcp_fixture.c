/*
 * For interop tests: the tools, prompts and resources that the MCP conformance suite asks for, on
 * the protocol core of cofferdam-mcp, over HTTP (argument LISTEN) or stdio (none). It has no run,
 * no sandbox and no broker, and asks nobody who they are: test code.
 */
#include <stdio.h>
#include <string.h>

#include "tests/tools/mcp_fixture.h"

#include "agent/mcp_http.h"
#include "agent/mcp_stdio.h"
#include "common/hash.h"
#include "common/log.h"

#include "common/banned.h"

/* --- what is asked of the client, 2026-07-28 -------------------------------------------- */

/* A state that only we can have made: the round, and a hash over a secret and it. */
static void
state_put(struct buf *b, unsigned round)
{
	static uint8_t secret[32];
	static bool made;
	struct str parts[2] = {str_mem(secret, sizeof(secret)), str_mem(&round, sizeof(round))};
	struct hash h;
	char hex[HASH_HEX_SIZE];

	if (!made)
		rand_bytes(secret, sizeof(secret));
	made = true;
	h = hash_sha256_parts(parts, 2);
	hash_hex(&h, hex);
	buf_printf(b, "%u.%s", round, hex);
}

static void
input_ask(struct mcp_call *c, const struct round *r, unsigned round, bool stateful)
{
	AUTO_BUF struct buf b = BUF(8192);

	buf_printf(&b, "{\"inputRequests\":{%s}", r->requests);
	if (stateful) {
		buf_put_z(&b, ",\"requestState\":\"");
		state_put(&b, round);
		buf_put_c(&b, '"');
	}
	buf_put_c(&b, '}');
	mcp_call_result_as(c, "input_required", buf_str(&b));
}

static bool
answered(struct mcp_call *c, const struct round *r)
{
	const struct json *in = json_get(c->m.params, "inputResponses");

	for (size_t i = 0; i < ARRAY_LEN(r->keys) && r->keys[i] != NULL; i++)
		if (json_type(json_get(in, r->keys[i])) != JSON_OBJECT)
			return false;
	return true;
}

/* Rounds one after the other; true: all were answered. */
static bool
rounds(struct mcp_call *c, const struct round *r, size_t n, bool stateful)
{
	struct str state = json_str(json_get(c->m.params, "requestState"));
	unsigned at = 0;

	for (; state.n != 0 && at < n; at++) {
		AUTO_BUF struct buf want = BUF(256);

		state_put(&want, at);
		if (str_eq(buf_str(&want), state))
			break;
	}
	if (stateful && state.n != 0 && at == n) {
		mcp_call_error(
		    c, MCP_INVALID_PARAMS, "requestState is not one of this server's", STR(""));
		return false;
	}
	if (!stateful)
		at = 0;
	if (json_get(c->m.params, "inputResponses") == NULL || !answered(c, &r[at])) {
		input_ask(c, &r[at], at, stateful);
		return false;
	}
	if (at + 1 < n) {
		input_ask(c, &r[at + 1], at + 1, stateful);
		return false;
	}
	return true;
}

/* --- what is asked of the client, before ------------------------------------------------ */

static void
reply_text(struct mcp_call *c, const char *before, const struct json *v)
{
	AUTO_BUF struct buf text = BUF(8192), b = BUF(32768);

	buf_put_z(&text, before);
	(void)mcp_value_put(&text, v);
	buf_put_z(&b, "{\"content\":[{\"type\":\"text\",\"text\":");
	mcp_text_put(&b, buf_str(&text));
	buf_put_z(&b, "}]}");
	mcp_call_result(c, buf_str(&b));
}

static void
sampled(struct mcp_call *c, const struct json *result)
{
	reply_text(c, "LLM response: ", json_get(json_get(result, "content"), "text"));
}

static void
elicited(struct mcp_call *c, const struct json *result)
{
	AUTO_BUF struct buf b = BUF(256);

	buf_printf(&b, "Elicitation completed: action=%.*s, content=",
	    STR_ARG(json_str(json_get(result, "action"))));
	buf_put_c(&b, '\0');
	reply_text(c, (const char *)b.p, json_get(result, "content"));
}

static void
ask_sampling(struct mcp_call *c)
{
	AUTO_BUF struct buf b = BUF(8192);

	buf_put_z(&b, "{\"maxTokens\":100,\"messages\":[{\"role\":\"user\",\"content\":{\"type\":"
		      "\"text\",\"text\":");
	mcp_text_put(&b, json_str(json_get(json_get(c->m.params, "arguments"), "prompt")));
	buf_put_z(&b, "}}]}");
	mcp_call_ask(c, "sampling/createMessage", buf_str(&b), sampled);
}

static void
ask_person(struct mcp_call *c)
{
	AUTO_BUF struct buf b = BUF(8192);

	buf_put_z(&b, "{\"mode\":\"form\",\"message\":");
	mcp_text_put(&b, json_str(json_get(json_get(c->m.params, "arguments"), "message")));
	buf_put_z(&b,
	    ",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"response\":{\"type\":"
	    "\"string\",\"description\":\"User's response\"}},\"required\":[\"response\"]}}");
	mcp_call_ask(c, "elicitation/create", buf_str(&b), elicited);
}

static void
ask_defaults(struct mcp_call *c)
{
	mcp_call_ask(c, "elicitation/create", str_z(defaults_form), elicited);
}

static void
ask_enums(struct mcp_call *c)
{
	mcp_call_ask(c, "elicitation/create", str_z(enums_form), elicited);
}

/* --- tools ------------------------------------------------------------------------------ */

static void
logs(struct mcp_call *c)
{
	static const char *const lines[] = {
	    "Tool execution started", "Tool processing data", "Tool execution completed"};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		AUTO_BUF struct buf b = BUF(512);

		/* A modern client says in its request whether it wants any. */
		if (c->era == MCP_ERA_MODERN && json_get(c->m.meta, MCP_META "logLevel") == NULL)
			break;
		buf_printf(&b, "{\"data\":\"%s\",\"level\":\"info\"}", lines[i]);
		mcp_call_notify(c, "notifications/message", buf_str(&b));
	}
	mcp_call_result(c, STR(TEXT("Tool with logging executed successfully")));
}

static void
progress(struct mcp_call *c)
{
	for (unsigned i = 0; i <= 100; i += 50)
		mcp_call_progress(c, i, 100, "a step");
	mcp_call_result(c, STR(TEXT("done")));
}

static void
lacking(struct mcp_call *c)
{
	if (!mcp_session_declares(c, "sampling"))
		mcp_call_lacks(c, "{\"sampling\":{}}");
	else
		mcp_call_result(c, STR(TEXT("the client can sample")));
}

static void
capable(struct mcp_call *c)
{
	if (mcp_session_declares(c, "elicitation") ? rounds(c, elicitation, 1, false)
						   : rounds(c, sampling, 1, false))
		mcp_call_result(c, STR(TEXT("done")));
}

static void
broken(struct mcp_call *c)
{
	mcp_call_failed(c, "This tool intentionally returns an error for testing");
}

static const struct tool {
	const char *name, *json, *result; /* result NULL: fn, or rounds */
	void (*fn)(struct mcp_call *c);
	const struct round *rounds;
	size_t nrounds;
	bool stateful;
	const char *header, *argument;
} tools[] = {
    {"json_schema_2020_12_tool",
	"\"description\":\"a schema with all of "
	"it\",\"inputSchema\":{\"$schema\":\"https://json-schema.org/draft/2020-12/"
	"schema\",\"type\":\"object\",\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":"
	"\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}"
	"}}},\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/"
	"address\"},\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
	"\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},\"allOf\":[{\"anyOf\":[{"
	"\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{\"properties\":{"
	"\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},\"then\":{"
	"\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},\"additionalProperties\":"
	"false}",
	TEXT("called"), NULL, NULL, 0, false, NULL, NULL},
    {"test_audio_content", "\"description\":\"a sound\"," NONE,
	"{\"content\":[{\"type\":\"audio\",\"data\":\"" WAV "\",\"mimeType\":\"audio/wav\"}]}",
	NULL, NULL, 0, false, NULL, NULL},
    {"test_custom_header",
	"\"description\":\"an argument that a field repeats\"," SCHEMA(
	    "\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}"),
	TEXT("called"), NULL, NULL, 0, false, "Region", "region"},
    {"test_elicitation",
	"\"description\":\"asks the user\"," SCHEMA("\"message\":{\"type\":\"string\"}"), NULL,
	ask_person, NULL, 0, false, NULL, NULL},
    {"test_elicitation_sep1034_defaults", "\"description\":\"asks with defaults\"," NONE, NULL,
	ask_defaults, NULL, 0, false, NULL, NULL},
    {"test_elicitation_sep1330_enums", "\"description\":\"asks with choices\"," NONE, NULL,
	ask_enums, NULL, 0, false, NULL, NULL},
    {"test_embedded_resource", "\"description\":\"a resource\"," NONE,
	"{\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":\"test://"
	"embedded-resource\",\"mimeType\":\"text/plain\",\"text\":\"This is an embedded resource "
	"content.\"}}]}",
	NULL, NULL, 0, false, NULL, NULL},
    {"test_error_handling", "\"description\":\"fails\"," NONE, NULL, broken, NULL, 0, false, NULL,
	NULL},
    {"test_image_content", "\"description\":\"an image\"," NONE,
	"{\"content\":[{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}]}",
	NULL, NULL, 0, false, NULL, NULL},
    {"test_input_required_result_capabilities",
	"\"description\":\"asks what the client can\"," NONE, NULL, capable, NULL, 0, false, NULL,
	NULL},
    {"test_input_required_result_elicitation", "\"description\":\"asks the user\"," NONE,
	TEXT("Hello, Alice!"), NULL, elicitation, 1, false, NULL, NULL},
    {"test_input_required_result_list_roots", "\"description\":\"asks for roots\"," NONE,
	TEXT("roots"), NULL, roots, 1, false, NULL, NULL},
    {"test_input_required_result_multi_round", "\"description\":\"asks twice\"," NONE, TEXT("done"),
	NULL, steps, 2, true, NULL, NULL},
    {"test_input_required_result_multiple_inputs", "\"description\":\"asks all at once\"," NONE,
	TEXT("done"), NULL, several, 1, true, NULL, NULL},
    {"test_input_required_result_request_state", "\"description\":\"asks with a state\"," NONE,
	TEXT("state-ok"), NULL, confirm, 1, true, NULL, NULL},
    {"test_input_required_result_sampling", "\"description\":\"asks a model\"," NONE, TEXT("Paris"),
	NULL, sampling, 1, false, NULL, NULL},
    {"test_input_required_result_tampered_state", "\"description\":\"asks with a state\"," NONE,
	TEXT("state-ok"), NULL, confirm, 1, true, NULL, NULL},
    {"test_logging_tool", "\"description\":\"logs\"," NONE, NULL, logs, NULL, 0, false, NULL, NULL},
    {"test_missing_capability", "\"description\":\"needs sampling\"," NONE, NULL, lacking, NULL, 0,
	false, NULL, NULL},
    {"test_multiple_content_types", "\"description\":\"several\"," NONE,
	"{\"content\":[{\"type\":\"text\",\"text\":\"Multiple content types "
	"test:\"},{\"type\":\"image\",\"data\":\"" PNG
	"\",\"mimeType\":\"image/png\"},{\"type\":\"resource\",\"resource\":{\"uri\":\"test://"
	"mixed-content-resource\",\"mimeType\":\"application/"
	"json\",\"text\":\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]}",
	NULL, NULL, 0, false, NULL, NULL},
    {"test_sampling",
	"\"description\":\"asks a model\"," SCHEMA("\"prompt\":{\"type\":\"string\"}"), NULL,
	ask_sampling, NULL, 0, false, NULL, NULL},
    {"test_simple_text", "\"description\":\"text\"," NONE,
	TEXT("This is a simple text response for testing."), NULL, NULL, 0, false, NULL, NULL},
    {"test_streaming_elicitation", "\"description\":\"asks the user\"," NONE, TEXT("done"), NULL,
	elicitation, 1, false, NULL, NULL},
    {"test_tool_with_logging", "\"description\":\"logs\"," NONE, NULL, logs, NULL, 0, false, NULL,
	NULL},
    {"test_tool_with_progress", "\"description\":\"tells how far it is\"," NONE, NULL, progress,
	NULL, 0, false, NULL, NULL},
};
static struct mcp_tool listed[ARRAY_LEN(tools)];

static void
on_call(struct mcp_call *c, const struct mcp_tool *t, const struct json *arguments UNUSED)
{
	const struct tool *my = &tools[t - listed];

	if (my->fn != NULL)
		my->fn(c);
	else if (my->rounds == NULL || rounds(c, my->rounds, my->nrounds, my->stateful))
		mcp_call_result(c, str_z(my->result));
}

/* --- prompts, resources, and the rest ---------------------------------------------------- */

static void
prompt_get(struct mcp_call *c)
{
	struct str name = json_str(json_get(c->m.params, "name"));
	const struct json *args = json_get(c->m.params, "arguments");
	AUTO_BUF struct buf b = BUF(8192), text = BUF(4096);

	if (str_eqz(name, "test_input_required_result_prompt")) {
		if (!rounds(c, context, 1, false))
			return;
		buf_put_z(&b, "{\"messages\":[" SAYS("With that context.") "]}");
	} else if (str_eqz(name, "test_simple_prompt")) {
		buf_put_z(&b, "{\"messages\":[" SAYS("This is a simple prompt for testing.") "]}");
	} else if (str_eqz(name, "test_prompt_with_image")) {
		buf_put_z(&b, "{\"messages\":[" USER(
				  "{\"type\":\"image\",\"data\":\"" PNG
				  "\",\"mimeType\":\"image/png\"}") "," SAYS("Please analyze the "
									     "image above.") "]}");
	} else if (str_eqz(name, "test_prompt_with_arguments")) {
		buf_printf(&text, "Prompt with arguments: arg1='%.*s', arg2='%.*s'",
		    STR_ARG(json_str(json_get(args, "arg1"))),
		    STR_ARG(json_str(json_get(args, "arg2"))));
		buf_put_z(&b,
		    "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":");
		mcp_text_put(&b, buf_str(&text));
		buf_put_z(&b, "}}]}");
	} else if (str_eqz(name, "test_prompt_with_embedded_resource")) {
		buf_put_z(&b,
		    "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"resource\","
		    "\"resource\":{\"mimeType\":\"text/plain\",\"text\":\"Embedded resource "
		    "content for testing.\",\"uri\":");
		mcp_text_put(&b, json_str(json_get(args, "resourceUri")));
		buf_put_z(&b, "}}}," SAYS("Please process the embedded resource above.") "]}");
	} else {
		mcp_call_error(c, MCP_INVALID_PARAMS, "unknown prompt", STR(""));
		return;
	}
	mcp_call_result(c, buf_str(&b));
}

static void
resource_read(struct mcp_call *c)
{
	struct str uri = json_str(json_get(c->m.params, "uri")), id;
	AUTO_BUF struct buf b = BUF(8192), data = BUF(4096), text = BUF(2048);

	buf_put_z(&data, "{\"uri\":");
	mcp_text_put(&data, uri);
	buf_put_z(&b, "{\"contents\":[");
	buf_put_str(&b, buf_str(&data));
	buf_put_c(&data, '}');
	id = str_has_prefix(uri, "test://template/") ? str_mem(uri.p + 16, uri.n - 16) : STR("");
	if (str_eqz(uri, "test://static-text") || str_eqz(uri, "test://watched-resource")) {
		buf_put_z(&b, ",\"mimeType\":\"text/plain\",\"text\":\"This is the content of the "
			      "static text resource.\"}]}");
	} else if (str_eqz(uri, "test://static-binary")) {
		buf_put_z(&b, ",\"mimeType\":\"image/png\",\"blob\":\"" PNG "\"}]}");
	} else if (str_has_suffix(id, "/data")) {
		id.n -= 5;
		buf_printf(&text,
		    "{\"id\":\"%.*s\",\"templateTest\":true,\"data\":\"Data for ID: %.*s\"}",
		    STR_ARG(id), STR_ARG(id));
		buf_put_z(&b, ",\"mimeType\":\"application/json\",\"text\":");
		mcp_text_put(&b, buf_str(&text));
		buf_put_z(&b, "}]}");
	} else {
		mcp_call_error(c, c->era == MCP_ERA_MODERN ? MCP_INVALID_PARAMS : -32002,
		    "Resource not found", buf_str(&data));
		return;
	}
	mcp_call_list(c, buf_str(&b));
}

static const struct {
	const char *method, *result;
	void (*fn)(struct mcp_call *c);
	bool list, legacy_only;
} others[] = {
    {"completion/complete", "{\"completion\":{\"values\":[],\"total\":0,\"hasMore\":false}}", NULL,
	false, false},
    {"logging/setLevel", "{}", NULL, false, true},
    {"prompts/get", NULL, prompt_get, false, false},
    {"prompts/list", prompts, NULL, true, false},
    {"resources/list", resources, NULL, true, false},
    {"resources/read", NULL, resource_read, false, false},
    {"resources/subscribe", "{}", NULL, false, true},
    {"resources/templates/list", templates, NULL, true, false},
    {"resources/unsubscribe", "{}", NULL, false, true},
};

static bool
on_other(struct mcp_call *c)
{
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		if (!str_eqz(c->m.method, others[i].method) ||
		    (others[i].legacy_only && c->era == MCP_ERA_MODERN))
			continue;
		if (others[i].fn != NULL)
			others[i].fn(c);
		else if (others[i].list)
			mcp_call_list(c, str_z(others[i].result));
		else
			mcp_call_result(c, str_z(others[i].result));
		return true;
	}
	return false;
}

static const struct mcp_server server = {
    .name = "mcp-fixture",
    .title = "MCP fixture",
    .version = "1",
    .legacy = "{\"completions\":{},\"logging\":{},\"prompts\":{},\"resources\":{\"subscribe\":true}"
	      ",\"tools\":{}}",
    .modern = "{\"completions\":{},\"prompts\":{},\"resources\":{},\"tools\":{}}",
    .tools = listed,
    .ntools = ARRAY_LEN(listed),
    .call = on_call,
    .other = on_other,
};

static struct mcp_session *
app_open(void *arg, struct loop *loop UNUSED, const struct mcp_out *out, const char *who UNUSED)
{
	return mcp_session_new(&server, out, arg);
}

static void
app_close(void *arg UNUSED, struct mcp_session *s, const char *said UNUSED)
{
	mcp_session_free(s);
}

static bool
app_idle(void *arg UNUSED, const struct mcp_session *s UNUSED)
{
	return true;
}

int
main(int argc, char **argv)
{
	struct mcp_http_config c = {
	    .serve = {.listen = argc > 1 ? argv[1] : NULL, .option = "LISTEN"},
	    .idle_ms = 60000,
	    .anybody = true,
	    .app = {app_open, app_close, app_idle, NULL}};
	struct loop *loop = NULL;
	struct err e = {0};
	int rc;

	log_init("mcp_fixture", LOG_INFO_);
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		listed[i] = (struct mcp_tool){
		    tools[i].name, tools[i].json, tools[i].header, tools[i].argument};
	if (argc > 1) {
		rc = mcp_http_serve(&c, &e);
	} else {
		struct mcp_session *s;

		loop = loop_new();
		s = mcp_session_new(&server, &mcp_stdio_out, NULL);
		rc = mcp_stdio_run(loop, s, &e);
		mcp_session_free(s);
		loop_free(loop);
	}
	if (rc != 0)
		fatal_err(&e);
	return 0;
}
