/*
 * HTTP requests to effects, through the reader of heads that core uses: the table of methods, what
 * makes a request doubtful, and beside each of these the nearest one that is not.
 */
#include "tests/unit/policy_help.h"

#include "common/xalloc.h"
#include "policy/effects_http.h"

#include "common/banned.h"

static const char policy_text[] =
    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,\"clock\":\"trusted\","
    "\"targets\":{"
    "\"api\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://api.test\","
    "\"read_posts\":[\"/v1/search\"],\"unsafe_gets\":[\"/jobs/run\"],"
    "\"graphql\":{\"paths\":[\"/backboard\"]}},"
    "\"chat\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://chat.test\","
    "\"unsafe_gets\":[\"/run\"],\"upgrade\":{\"websocket\":[\"write\"],\"spdy/3.1\":[\"delete\"]},"
    "\"upgrade_paths\":[\"/live\",\"/run\",\"/graphql\"]},"
    "\"any\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://any.test\","
    "\"upgrade\":{\"websocket\":[\"read\"]}},"
    "\"claude\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://claude.test\","
    "\"model\":\"anthropic\"},"
    "\"gemini\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://gemini.test\","
    "\"model\":\"google\"},"
    "\"gpt\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://gpt.test\","
    "\"model\":\"openai\"}},"
    "\"rules\":[{\"id\":\"r\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}]}";

static struct policy *policy;

static int
read_policy(void **state UNUSED)
{
	policy = help_policy(policy_text);
	return 0;
}

static int
free_policy(void **state UNUSED)
{
	policy_free(policy);
	return 0;
}

/* `head` without its first line's version, Host and the empty line. */
static struct http_view
view_of(const char *target, const char *line, const char *fields)
{
	AUTO_FREE char *head =
	    xasprintf("%s HTTP/1.1\r\nHost: %s.test\r\n%s\r\n", line, target, fields);
	AUTO_FREE struct http_request *r = xcalloc(1, sizeof(*r));
	struct http_view v = {0};
	struct err err = {0};

	if (http_request_parse(str_z(head), r, &err) != 0)
		effects_http_fault((struct str){line, (size_t)(strchr(line, ' ') - line)}, &v);
	else
		effects_http(policy_target(policy, str_z(target)), r, &v);
	assert_int_equal(v.statements, 1);
	return v;
}

static void
assert_effects(const char *target, const char *line, const char *fields, const char *want)
{
	struct http_view v = view_of(target, line, fields);
	AUTO_BUF struct buf got = BUF(256);

	effect_put(&got, v.effects);
	if (!str_eqz(buf_str(&got), want))
		fail_msg("%s: %s\n%s: \"%.*s\", wanted \"%s\" (%s)", target, line, fields,
		    STR_ARG(buf_str(&got)), want, v.fault != NULL ? v.fault : "no fault");
	if ((v.effects & (EFFECT_opaque | EFFECT_invalid)) != 0 && v.fault == NULL)
		fail_msg("%s: nothing says why", line);
}

struct row {
	const char *line, *effects;
};

static void
assert_rows(const char *target, const char *fields, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_effects(target, rows[i].line, fields, rows[i].effects);
}

static void
a_method_claims_its_effects(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"GET /v1/customers/7", "read"},
	    {"HEAD /v1/customers/7", "read"},
	    {"OPTIONS /v1/customers", "read"},
	    {"OPTIONS *", "read"},
	    {"POST /v1/customers", "write"},
	    {"PUT /v1/customers/7", "overwrite"},
	    {"PATCH /v1/customers/7", "write"},
	    {"DELETE /v1/customers/7", "delete"},
	    {"TRACE /", "net"},
	    {"FOO /v1/x", "invalid"},
	    {"get /v1/x", "invalid"},
	    {"PROPFIND /v1/x", "invalid"},
	};

	assert_rows("api", "", rows, ARRAY_LEN(rows));
}

/* The reader of heads refuses it already. */
static void
only_options_may_ask_for_no_path(void **state UNUSED)
{
	AUTO_FREE struct http_request *r = xcalloc(1, sizeof(*r));
	struct http_view v;

	r->form = HTTP_ASTERISK;
	r->method = STR("GET");
	effects_http(policy_target(policy, STR("api")), r, &v);
	assert_int_equal(v.effects, EFFECT_read | EFFECT_invalid);
	r->method = STR("OPTIONS");
	effects_http(policy_target(policy, STR("api")), r, &v);
	assert_int_equal(v.effects, EFFECT_read);
	r->form = HTTP_AUTHORITY;
	r->method = STR("CONNECT");
	effects_http(policy_target(policy, STR("api")), r, &v);
	assert_int_equal(v.effects, EFFECT_net);
}

static void
a_delete_is_bounded_only_where_an_id_stands_last(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"DELETE /v1/customers/7", "delete"},
	    {"DELETE /v1/customers/550e8400-e29b-41d4-a716-446655440000", "delete"},
	    {"DELETE /v1/customers/cus_9s6XKzkNRiz8i3", "delete"},
	    {"DELETE /v1/customers/5f4dcc3b5aa765d61d8327deb882cf99", "delete"},
	    {"DELETE /v1/volumes/vol-prod-1", "delete"},
	    {"DELETE /v1/users/user123456", "delete"},
	    {"DELETE /v1/customers", "bulk delete"},
	    {"DELETE /v1/customers/alice", "bulk delete"},
	    {"DELETE /v1/customers/7/", "bulk delete"},
	    {"DELETE /v1/customers/7/orders", "bulk delete"},
	    {"DELETE /v2", "bulk delete"},
	    {"DELETE /auth/oauth2", "bulk delete"},
	    {"DELETE /logs-2024*", "bulk delete"},
	    {"DELETE /v1/customers/1,2,3", "bulk delete"},
	    {"DELETE /v1/customers/1:all", "bulk delete"},
	    {"DELETE /", "bulk delete"},
	    {"DELETE /v1/customers/7?", "delete"},
	    {"DELETE /v1/customers/7?also=8", "bulk delete"},
	};

	assert_rows("api", "", rows, ARRAY_LEN(rows));
	assert_effects("api", "DELETE /v1/customers/7", "Content-Length: 0\r\n", "delete");
	assert_effects("api", "DELETE /v1/customers/7", "Content-Length: 9\r\n", "bulk delete");
}

static void
a_path_that_servers_read_differently_is_invalid(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"POST /v1/search/../customers", "invalid write"},
	    {"POST /v1/./search", "invalid write"},
	    {"POST /v1/%2e%2e/customers", "invalid write"},
	    {"POST /v1/%2E%2E/customers", "invalid write"},
	    {"GET /public/%252e%252e/secret", "invalid read"},
	    {"GET /public//../secret", "invalid read"},
	    {"GET //public", "invalid read"},
	    {"GET /public//secret", "invalid read"},
	    {"GET /public/..%2fsecret", "invalid read"},
	    {"GET /public/..\\secret", "invalid read"},
	    {"GET /public/%5csecret", "invalid read"},
	    {"GET /public/x;/../../secret", "invalid read"},
	    {"GET /public/x;v=1", "invalid read"},
	    {"GET /public/x%3b", "invalid read"},
	    {"GET /public/%00", "invalid read"},
	    {"GET /public/%0d%0aX:1", "invalid read"},
	    {"GET /public/%c0%ae%c0%ae/secret", "invalid read"},
	    {"GET /public/%", "invalid read"},
	    {"GET /public/%2", "invalid read"},
	    {"GET /..", "invalid read"},
	    {"GET *", "invalid read"},
	    {"FOO /..", "invalid"},
	    {"GET /public/a%20b?x=%2e%2e", "read"},
	    {"GET /public/x?a;b//..%2f%00%5c%25", "read"},
	    {"GET /.well-known/a..b/...", "read"},
	    {"GET /public/caf%c3%a9", "read"},
	    {"GET /public/", "read"},
	    {"GET /", "read"},
	};

	assert_rows("api", "", rows, ARRAY_LEN(rows));
}

static void
another_method_in_a_header_is_opaque(void **state UNUSED)
{
	static const char *const opaque[] = {"X-HTTP-Method-Override: DELETE\r\n",
	    "x-http-method-override: DELETE\r\n", "X-HTTP-Method: DELETE\r\n",
	    "X-Method-Override: GET\r\n", "X_HTTP_Method_Override: DELETE\r\n",
	    "X-HTTP-Method-Override:\r\n", "X-Original-URL: /admin\r\n",
	    "X-Rewrite-URL: /admin\r\n"};
	static const char *const plain[] = {"X-HTTP-Methods: DELETE\r\n", "X-Method: DELETE\r\n",
	    "X-Original-Host: a\r\n", "X-Forwarded-For: 1.2.3.4\r\n"};

	for (size_t i = 0; i < ARRAY_LEN(opaque); i++)
		assert_effects("api", "GET /v1/customers/7", opaque[i], "opaque read");
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		assert_effects("api", "GET /v1/customers/7", plain[i], "read");
	assert_effects(
	    "api", "POST /v1/search", "X-HTTP-Method-Override: DELETE\r\n", "opaque write");
}

static void
another_method_in_the_query_is_opaque(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"GET /x?_method=DELETE", "opaque read"},
	    {"GET /x?a=1&_method=DELETE", "opaque read"},
	    {"GET /x?a=1;_method=DELETE", "opaque read"},
	    {"GET /x?_METHOD=DELETE", "opaque read"},
	    {"GET /x?%5fmethod=DELETE", "opaque read"},
	    {"GET /x?%5F%6d%65%74%68%6f%64=DELETE", "opaque read"},
	    {"GET /x?%255fmethod=DELETE", "opaque read"},
	    {"GET /x?_method", "opaque read"},
	    {"GET /x?_method[]=DELETE", "opaque read"},
	    {"GET /x?_method%5b0%5d=DELETE", "opaque read"},
	    {"GET /x?_method%00=DELETE", "opaque read"},
	    {"GET /x?+_method=DELETE", "opaque read"},
	    {"GET /x?%20%20_method=DELETE", "opaque read"},
	    {"GET /x?.method=DELETE", "opaque read"},
	    {"GET /x?[method=DELETE", "opaque read"},
	    {"GET /x?%20method=GET", "read"},
	    {"GET /x?_HttpMethod=PATCH", "opaque read"},
	    {"GET /x?X-HTTP-Method-Override=PUT", "opaque read"},
	    {"GET /x?method=DELETE", "read"},
	    {"GET /x?_methods=DELETE", "read"},
	    {"GET /x?my_method=DELETE", "read"},
	    {"GET /x?a=_method", "read"},
	    {"GET /x?a=%26_method=1", "read"},
	    {"GET /_method?a=1", "read"},
	};

	assert_rows("api", "", rows, ARRAY_LEN(rows));
}

static void
an_upgrade_is_opaque(void **state UNUSED)
{
	assert_effects("api", "GET /v1/live", "Upgrade: websocket\r\n", "opaque read");
	assert_effects(
	    "api", "GET /v1/live", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "opaque read");
	assert_effects("api", "GET /v1/live", "Upgrade-Insecure-Requests: 1\r\n", "read");
}

#define WS                                                                           \
	"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define SPDY "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"

/* Each that is not beside the nearest that is. */
static void
an_upgrade_does_what_the_policy_says_where_it_says_so(void **state UNUSED)
{
	assert_effects("chat", "GET /live", WS, "read write");
	assert_effects("chat", "GET /live?a=b", WS, "read write");
	assert_effects("chat", "GET /liv%65", WS, "opaque read");
	assert_effects("chat", "GET /other", WS, "opaque read");
	assert_effects("any", "GET /other", WS, "read");
	assert_effects("api", "GET /live", WS, "opaque read");
	assert_effects("chat", "POST /live", SPDY "Content-Length: 0\r\n", "delete write");
	assert_effects("chat", "POST /live", SPDY "Content-Length: 1\r\n", "opaque write");
	assert_effects("any", "POST /live", SPDY "Content-Length: 0\r\n", "opaque write");
	assert_effects("chat", "GET /live", WS "Upgrade: spdy/3.1\r\n", "opaque read");
	assert_effects("chat", "GET /live", WS "X-HTTP-Method: PUT\r\n", "opaque read write");
	assert_effects("chat", "GET /live?_method=PUT", WS, "opaque read write");
	assert_effects("any", "GET /a/../live", WS, "invalid read");
	assert_effects("chat", "GET /run", WS, "read write");
	assert_effects("chat", "GET /run", "", "write");
	assert_effects("chat", "GET /graphql", WS, "read write");
	assert_effects("chat", "GET /graphql?query={a}", WS, "opaque read write");
	assert_true(view_of("chat", "GET /live", WS).upgrade);
	assert_false(view_of("chat", "GET /live", "").upgrade);
	assert_false(view_of("chat", "GET /other", WS).upgrade);
}

static void
assert_fault(const char *target, const char *line, const char *fields, const char *words)
{
	struct http_view v = view_of(target, line, fields);

	if (v.fault == NULL || strstr(v.fault, words) == NULL)
		fail_msg("%s: \"%s\", not \"%s\"", line, v.fault != NULL ? v.fault : "", words);
}

#define WS_OF(key, version)                                                            \
	"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: " version \
	"\r\nSec-WebSocket-Key: " key "\r\n"
#define KEY "dGhlIHNhbXBsZSBub25jZQ=="

static void
an_upgrade_that_does_not_pass_says_why(void **state UNUSED)
{
	assert_null(view_of("chat", "GET /live", WS).fault);
	assert_null(view_of("chat", "POST /live", SPDY "Content-Length: 0\r\n").fault);
	assert_fault("api", "GET /live", WS, "the target has no `upgrade`");
	assert_fault(
	    "chat", "GET /other", WS, "a path that is not in the target's `upgrade_paths`");
	assert_fault("any", "GET /live", SPDY, "than the target's `upgrade` names");
	assert_fault("chat", "POST /live", WS "Content-Length: 0\r\n", "method other than GET");
	assert_fault("chat", "GET /live", WS_OF(KEY, "8"), "Sec-WebSocket-Version 13");
	assert_fault("chat", "GET /live", WS_OF("c2hvcnQ=", "13"), "Sec-WebSocket-Key of 16 bytes");
	assert_fault("chat", "POST /live", SPDY "Content-Length: 1\r\n", "and has content");
	assert_fault("chat", "GET /live", WS "Expect: 100-continue\r\n", "has an Expect field");
	assert_fault("chat", "GET /live", WS "HTTP2-Settings: A\r\n", "an HTTP2-Settings field");
	assert_fault("chat", "GET /live", "Upgrade: websocket\r\n", "Connection does not name");
	assert_fault("chat", "GET /live", WS "Upgrade: spdy/3.1\r\n", "exactly one protocol");
	assert_fault("chat", "GET /live", "Connection: Upgrade\r\nUpgrade: h2c\r\n",
	    "not one protocol that may be switched to");
	assert_fault("chat", "HEAD /live", SPDY, "by HEAD");
}

static void
a_request_that_is_not_well_formed_is_invalid_beside_its_claim(void **state UNUSED)
{
	struct http_view v;

	assert_effects("api", "POST /v1/customers",
	    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "invalid write");
	assert_effects("api", "DELETE /v1/customers/7", "Host: other.test\r\n", "delete invalid");
	effects_http_fault(STR(""), &v);
	assert_int_equal(v.effects, EFFECT_invalid);
	effects_http_fault(STR("GET"), &v);
	assert_int_equal(v.effects, EFFECT_invalid | EFFECT_read);
}

static void
a_listed_post_reads_and_a_listed_get_writes(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"POST /v1/search", "read"},
	    {"POST /v1/search?page=2", "read"},
	    {"POST /v1/Search", "write"},
	    {"POST /v1/search/", "write"},
	    {"POST /v1/%73earch", "write"},
	    {"PUT /v1/search", "overwrite"},
	    {"GET /jobs/run", "write"},
	    {"HEAD /jobs/run", "write"},
	    {"GET /jobs/run?id=7", "write"},
	    {"GET /jobs/run/", "write"},
	    {"GET /JOBS/run", "write"},
	    {"GET /jobs/%72un", "write"},
	    {"GET /jobs/runs", "read"},
	    {"GET /jobs", "read"},
	    {"OPTIONS /jobs/run", "read"},
	};

	assert_rows("api", "", rows, ARRAY_LEN(rows));
}

static void
a_call_of_a_model_reads(void **state UNUSED)
{
	static const struct row claude[] = {
	    {"POST /v1/messages", "read"},
	    {"POST /v1/messages?beta=true", "read"},
	    {"POST /v1/messages/count_tokens", "read"},
	    {"POST /anthropic/v1/messages", "read"},
	    {"GET /v1/models", "read"},
	    {"HEAD /", "read"},
	    {"POST /v1/messages/batches", "write"},
	    {"POST /v1/chat/completions", "write"},
	    {"POST /xv1/messages/", "write"},
	    {"POST /v2/messages", "write"},
	    {"PUT /v1/messages", "overwrite"},
	    {"DELETE /v1/files/7", "delete"},
	    {"POST /v1/messages?_method=DELETE", "opaque write"},
	    {"POST /v1/../v1/messages", "invalid write"},
	};
	static const struct row gpt[] = {
	    {"POST /v1/chat/completions", "read"},
	    {"POST /openai/v1/chat/completions", "read"},
	    {"POST /v1/responses", "read"},
	    {"POST /v1/embeddings", "read"},
	    {"GET /v1/models/gpt-5", "read"},
	    {"POST /v1/messages", "write"},
	    {"POST /v1/responses/7/cancel", "write"},
	    {"DELETE /v1/models/ft-7", "delete"},
	};
	static const struct row gemini[] = {
	    {"POST /v1beta/models/gemini-3:generateContent", "read"},
	    {"POST /v1beta/models/gemini-3:streamGenerateContent?alt=sse", "read"},
	    {"POST /v1/models/gemini-3:countTokens", "read"},
	    {"POST /v1beta/models/gemini-3:predict", "write"},
	    {"POST /v1beta/models/:generateContent", "write"},
	    {"POST /v1beta/models/a:b:generateContent", "write"},
	    {"POST /v1beta/cachedContents", "write"},
	    {"GET /v1beta/models/gemini-3", "read"},
	    {"DELETE /v1beta/files/7", "delete"},
	};
	static const char json[] = "Content-Type: application/json\r\nContent-Length: 9\r\n";

	assert_rows("gemini", json + sizeof(json) - 1, gemini, ARRAY_LEN(gemini));
	assert_rows("claude", json + sizeof(json) - 1, claude, ARRAY_LEN(claude));
	assert_rows("gpt", json + sizeof(json) - 1, gpt, ARRAY_LEN(gpt));
	assert_int_equal(view_of("gpt", "POST /v1/responses", json).api, HTTP_API_MODEL);
	assert_int_equal(view_of("gpt", "GET /v1/models", "").api, HTTP_API_MODEL);
	assert_int_equal(view_of("gpt", "GET /v1/models/gpt-5", "").api, HTTP_API_MODEL);
	assert_int_equal(view_of("gpt", "GET /v1/models/gpt-5/x", "").api, HTTP_API_NONE);
	assert_int_equal(view_of("api", "POST /v1/responses", json).api, HTTP_API_NONE);
	assert_effects("api", "POST /v1/responses", json, "write");
}

/* --- what has to be judged --------------------------------------------------------- */

static void
assert_wanted(const char *line, const char *fields, enum http_api api, bool body, bool query)
{
	struct http_view v = view_of("api", line, fields);

	if (v.api != api || v.body_wanted != body || v.query_wanted != query)
		fail_msg("%s\n%s: api %s, body %d, query %d", line, fields, http_api_name(v.api),
		    v.body_wanted, v.query_wanted);
	if ((api == HTTP_API_GRAPHQL) != ((v.effects & EFFECT_opaque) != 0) || v.fault != NULL)
		fail_msg("%s\n%s: effects 0x%x", line, fields, v.effects);
}

#define JSON_BODY "Content-Type: application/json\r\nContent-Length: 9\r\n"

static void
a_graphql_request_is_judged_by_its_document(void **state UNUSED)
{
	static const char *const lines[] = {"POST /graphql", "POST /api/graphql",
	    "POST /api/GraphQL", "POST /graphql/", "POST /%67raphql", "POST /admin/graphql.json",
	    "POST /gql", "POST /backboard", "POST /Backboard/", "POST /graphql?v=2",
	    "POST /graphql/v2", "POST /graphql-beta", "POST /%67raphql/batch", "POST /gql/x"};
	static const char *const others[] = {
	    "POST /graphs/x", "POST /v1/graph", "POST /x-graphql", "PUT /graphql"};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_wanted(lines[i], JSON_BODY, HTTP_API_GRAPHQL, true, false);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_wanted(others[i], JSON_BODY, HTTP_API_NONE, false, false);
	assert_wanted("GET /graphql?query=%7Ba%7D", "", HTTP_API_GRAPHQL, false, true);
	assert_wanted("HEAD /graphql?query=%7Ba%7D", "", HTTP_API_GRAPHQL, false, true);
	assert_wanted("GET /graphql", "", HTTP_API_NONE, false, false);
	assert_wanted("OPTIONS /graphql", "", HTTP_API_NONE, false, false);
	assert_effects("api", "GET /graphql", "", "read");
}

static void
a_graphql_request_that_says_two_things_is_opaque(void **state UNUSED)
{
	static const char *const lines[] = {"POST /graphql?query=%7Ba%7D",
	    "POST /graphql?%71uery=%7Ba%7D", "POST /graphql?id=7", "POST /graphql?doc_id=7",
	    "POST /graphql?operationName=B", "POST /graphql?query[]=a",
	    "POST /graphql?extensions=%7B%7D"};
	static const char *const fields[] = {"Content-Type: text/plain\r\nContent-Length: 9\r\n",
	    "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 9\r\n",
	    "Content-Type: application/json; charset=utf-16\r\nContent-Length: 9\r\n",
	    "Content-Type: application/json;;\r\nContent-Length: 9\r\n", "Content-Length: 9\r\n",
	    JSON_BODY "Content-Encoding: gzip\r\n", "",
	    "Content-Type: application/json\r\nContent-Length: 0\r\n"};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_effects("api", lines[i], JSON_BODY, "opaque write");
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		assert_effects("api", "POST /graphql", fields[i], "opaque write");
	assert_wanted("POST /graphql",
	    "Content-Type: application/json;charset=\"UTF-8\"\r\nContent-Encoding: identity\r\n"
	    "Transfer-Encoding: chunked\r\n",
	    HTTP_API_GRAPHQL, true, false);
	assert_effects("api", "GET /graphql?query=%7Ba%7D", JSON_BODY, "opaque read");
}

/* A server that leaves the body where it is takes it for the next request. */
static void
a_body_where_the_method_has_none_is_opaque(void **state UNUSED)
{
	static const char *const methods[] = {"GET", "HEAD", "OPTIONS"};

	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		AUTO_FREE char *line = xasprintf("%s /v1/items", methods[i]);

		assert_effects("api", line, "Content-Length: 9\r\n", "opaque read");
		assert_effects("api", line, "Transfer-Encoding: chunked\r\n", "opaque read");
		assert_effects("api", line, "Content-Length: 0\r\n", "read");
		assert_effects("api", line, "", "read");
	}
	assert_effects("api", "GET /v1/search", JSON_BODY, "read"); /* its read_posts say so */
}

#define FORM "application/x-www-form-urlencoded"

static void
a_form_is_judged_for_another_method(void **state UNUSED)
{
	static const char *const forms[] = {"Content-Type: " FORM "\r\nContent-Length: 9\r\n",
	    "Content-Type: " FORM "; charset=UTF-8\r\nContent-Length: 9\r\n",
	    "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 9\r\n",
	    "Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n"};
	static const char *const none[] = {JSON_BODY,
	    "Content-Type: text/plain; charset=utf-16\r\nContent-Length: 9\r\n",
	    "Content-Type: application/octet-stream\r\nContent-Length: 9\r\n", "",
	    "Content-Type: " FORM "\r\nContent-Length: 0\r\n"};
	static const char *const odd[] = {"Content-Type: " FORM
					  "; charset=utf-16\r\nContent-Length: 9\r\n",
	    "Content-Type: multipart/form-data\r\nContent-Length: 9\r\n",
	    "Content-Type: multipart/form-data; boundary=x; boundary=y\r\nContent-Length: 9\r\n",
	    "Content-Type: multipart/form-data; boundary*0=x\r\nContent-Length: 9\r\n",
	    "Content-Type: multipart/mixed; boundary=x\r\nContent-Length: 9\r\n",
	    "Content-Type: form\r\nContent-Length: 9\r\n",
	    "Content-Type: " FORM "\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n"};

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		assert_wanted("POST /v1/customers", forms[i], HTTP_API_FORM, true, false);
		assert_wanted("POST /v1/search", forms[i], HTTP_API_FORM, true, false);
		assert_wanted("PUT /v1/customers/7", forms[i], HTTP_API_NONE, false, false);
	}
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_wanted("POST /v1/customers", none[i], HTTP_API_NONE, false, false);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		assert_effects("api", "POST /v1/customers", odd[i], "opaque write");
}

static void
without_a_target_the_method_alone_is_judged(void **state UNUSED)
{
	assert_effects("unknown", "POST /graphql", JSON_BODY, "write");
	assert_effects("unknown", "GET /jobs/run", "", "read");
	assert_effects("unknown", "GET /..", "", "invalid read");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_method_claims_its_effects),
	    cmocka_unit_test(only_options_may_ask_for_no_path),
	    cmocka_unit_test(a_delete_is_bounded_only_where_an_id_stands_last),
	    cmocka_unit_test(a_path_that_servers_read_differently_is_invalid),
	    cmocka_unit_test(another_method_in_a_header_is_opaque),
	    cmocka_unit_test(another_method_in_the_query_is_opaque),
	    cmocka_unit_test(an_upgrade_is_opaque),
	    cmocka_unit_test(an_upgrade_does_what_the_policy_says_where_it_says_so),
	    cmocka_unit_test(an_upgrade_that_does_not_pass_says_why),
	    cmocka_unit_test(a_request_that_is_not_well_formed_is_invalid_beside_its_claim),
	    cmocka_unit_test(a_listed_post_reads_and_a_listed_get_writes),
	    cmocka_unit_test(a_call_of_a_model_reads),
	    cmocka_unit_test(a_graphql_request_is_judged_by_its_document),
	    cmocka_unit_test(a_graphql_request_that_says_two_things_is_opaque),
	    cmocka_unit_test(a_body_where_the_method_has_none_is_opaque),
	    cmocka_unit_test(a_form_is_judged_for_another_method),
	    cmocka_unit_test(without_a_target_the_method_alone_is_judged),
	};

	return cmocka_run_group_tests(tests, read_policy, free_policy);
}
