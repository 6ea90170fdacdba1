/*
 * GraphQL over HTTP: bodies, batches, hashes, content types, query strings, and facts from a parser
 * that was taken over. Beside each refusal stands the nearest request that is allowed.
 */
#include "tests/unit/graphql_help.h"

#include "common/banned.h"

static void
the_operation_that_is_named_is_judged(void **state UNUSED)
{
#define TWO "\"query\":\"query A{viewer{login}} mutation B{volumeDelete}\""
	assert_json("{" TWO ",\"operationName\":\"B\"}", "delete drop");
	assert_json("{" TWO ",\"operationName\":\"A\"}", "read");
	assert_json("{" TWO "}", "invalid write");
	assert_json("{" TWO ",\"operationName\":null}", "invalid write");
	assert_json("{" TWO ",\"operationName\":\"\"}", "invalid write");
	assert_json("{" TWO ",\"operationName\":\"C\"}", "invalid write");
	assert_json("{" TWO ",\"operationName\":\"a\"}", "invalid write");
	assert_json("{" TWO ",\"operationName\":\"A \"}", "invalid write");
	assert_json("{" TWO ",\"operationName\":[\"A\"]}", "opaque");
	assert_json("{\"query\":\"query A{a}\",\"operationName\":\"A\"}", "read");
	assert_json("{\"query\":\"query A{a}\"}", "read");
	assert_json("{\"query\":\"{a}\",\"operationName\":\"A\"}", "invalid write");
	assert_json(
	    "{\"query\":\"query A{a} mutation A{b}\",\"operationName\":\"A\"}", "invalid write");
	assert_json("{\"query\":\"{a} query B{b}\",\"operationName\":\"B\"}", "invalid write");
	assert_text("query A{a} query A{b}", "invalid write");
	assert_text("query A{a} mutation A{volumeDelete}", "invalid write");
	assert_text("{a} mutation B{volumeDelete}", "invalid write");
	assert_text("{a} {b}", "invalid write");
	assert_text("{a}", "read");
}

static void
a_subscription_is_opaque(void **state UNUSED)
{
	assert_text("subscription{onVolume{id}}", "opaque");
	assert_text("subscription S{a} query Q{b}", "invalid write");
	assert_json("{\"query\":\"subscription S{a} query Q{b}\",\"operationName\":\"Q\"}", "read");
	assert_json(
	    "{\"query\":\"subscription S{a} query Q{b}\",\"operationName\":\"S\"}", "opaque");
}

/* --- requests ------------------------------------------------------------------------ */

static void
a_batch_is_judged_as_a_whole(void **state UNUSED)
{
	struct http_view v = by_body(JSON, STR("[{\"query\":\"{a}\"},{\"query\":\"mutation{"
					       "volumeDelete}\"},{\"query\":\"{b}\"}]"));

	assert_view(v, "batch", "delete drop read");
	assert_int_equal(v.statements, 3);
	assert_json("[{\"query\":\"{a}\"},{\"query\":\"{b}\"}]", "read");
	assert_json("[{\"query\":\"{a}\"}]", "read");
	assert_json("[]", "invalid write");
	assert_json("[[{\"query\":\"{a}\"}]]", "opaque");
	assert_json("[{\"query\":\"{a}\"},null]", "opaque read");
	assert_json("[{\"query\":\"{a}\"},{\"query\":\"{\"}]", "invalid write");
	assert_json("\"{a}\"", "opaque");
	assert_json("null", "opaque");
}

static void
json_must_be_strict(void **state UNUSED)
{
	static const char *const bad[] = {
	    "{\"query\":\"{a}\",\"query\":\"mutation{volumeDelete}\"}",
	    "{\"query\":\"{a}\",\"\\u0071uery\":\"mutation{volumeDelete}\"}",
	    "{\"query\":\"{a}\",\"variables\":{\"a\":1,\"a\":2}}", "{\"query\":\"{a}\"}x",
	    "{\"query\":\"{a}\"}{\"query\":\"{a}\"}", "{\"query\":\"{a}\",}", "{'query':'{a}'}",
	    "\xef\xbb\xbf{\"query\":\"{a}\"}", "{\"query\":\"{a}\\ud800\"}",
	    "{\"query\":\"{a(s:\\\"\\udc00\\\")}\"}", "{\"query\":\"{a\\u0000}\"}",
	    "{\"query\":\"{a\xff}\"}", "{\"query\":\"{a\n}\"}", "", " ", "{", "{\"query\":\"\"}",
	    "{\"query\":\" \\n#\"}", "{}", "{\"query\":null}", "{\"variables\":{}}"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_json(bad[i], "invalid write");
	assert_json(" {\"query\" : \"{a(s:\\\"\\ud83d\\ude00\\\")}\" }\r\n", "read");
}

static void
members_that_may_name_another_document_are_opaque(void **state UNUSED)
{
	static const char *const opaque[] = {"{\"query\":\"{a}\",\"id\":\"7\"}",
	    "{\"query\":\"{a}\",\"Query\":\"mutation{volumeDelete}\"}",
	    "{\"query\":\"{a}\",\"OperationName\":\"B\"}", "{\"doc_id\":\"7\",\"variables\":{}}",
	    "{\"query\":[\"{a}\"]}", "{\"query\":\"{a}\",\"variables\":\"{}\"}",
	    "{\"query\":\"{a}\",\"extensions\":[]}", "{\"query\":\"{a}\",\"mutation\":\"x\"}"};

	for (size_t i = 0; i < ARRAY_LEN(opaque); i++)
		assert_json(opaque[i], "opaque");
	assert_json("{\"query\":\"{a}\",\"variables\":null,\"operationName\":null,"
		    "\"extensions\":{\"clientLibrary\":{\"name\":\"x\"}}}",
	    "read");
}

#define PERSISTED(hash) \
	"\"extensions\":{\"persistedQuery\":{\"version\":1,\"sha256Hash\":\"" hash "\"}}"

static void
assert_hash(const char *format, const char *want)
{
	AUTO_BUF struct buf body = BUF(4096);
	const char *at = strstr(format, "HASH");

	assert_non_null(at);
	buf_put(&body, format, (size_t)(at - format));
	buf_put_z(&body, registered_hash);
	buf_put_z(&body, at + 4);
	assert_view(by_body(JSON, buf_str(&body)), format, want);
}

static void
a_hash_alone_is_known_only_when_registered(void **state UNUSED)
{
	assert_hash("{" PERSISTED("HASH") ",\"operationName\":\"A\"}", "read");
	assert_hash("{" PERSISTED("HASH") ",\"operationName\":\"B\"}", "delete drop");
	assert_hash("{\"query\":null," PERSISTED("HASH") ",\"operationName\":\"A\"}", "read");
	assert_hash("{" PERSISTED("HASH") "}", "opaque");
	assert_hash("{" PERSISTED("HASH") ",\"operationName\":\"C\"}", "opaque");
	assert_json("{" PERSISTED(OTHER_HASH) ",\"operationName\":\"A\"}", "opaque");
	assert_hash("{\"extensions\":{\"persistedQuery\":{\"version\":2,\"sha256Hash\":\"HASH\"}},"
		    "\"operationName\":\"A\"}",
	    "opaque");
	assert_hash("{\"extensions\":{\"persistedquery\":{\"version\":1,\"sha256Hash\":\"HASH\"}},"
		    "\"operationName\":\"A\"}",
	    "opaque");
	assert_json("{" PERSISTED("abc") "}", "opaque");
	assert_hash("[{\"query\":\"{a}\"},{" PERSISTED("HASH") ",\"operationName\":\"B\"}]",
	    "delete drop read");
}

static void
a_hash_beside_its_document_must_be_its_own(void **state UNUSED)
{
	assert_hash(
	    "{\"query\":\"" REGISTERED "\"," PERSISTED("HASH") ",\"operationName\":\"A\"}", "read");
	assert_json("{\"query\":\"{a}\"," PERSISTED(OTHER_HASH) "}", "opaque");
	assert_hash("{\"query\":\"{a}\"," PERSISTED("HASH") "}", "opaque");
}

static void
other_content_types_are_opaque(void **state UNUSED)
{
	static const struct str body = {"{\"query\":\"{a}\"}", 15};

	assert_view(by_body(JSON "; charset=utf-8", body), "charset", "read");
	assert_view(by_body("application/graphql+json", body), "graphql+json", "read");
	assert_view(by_body("Application/JSON", body), "case", "read");
	assert_view(by_body("application/json; charset=utf-16", body), "utf-16", "opaque");
	assert_view(by_body("text/plain", body), "text", "opaque");
	assert_view(by_body("", body), "none", "opaque");
	assert_view(by_body("multipart/form-data; boundary=x", body), "multipart", "opaque");
	assert_view(by_body("application/graphql", body), "a document", "invalid write");
}

#define FORM "application/x-www-form-urlencoded"

static void
json_that_curl_calls_a_form_is_read_when_no_form_can_be_made_of_it(void **state UNUSED)
{
	assert_view(by_body(FORM,
			STR("{\"query\":\"mutation{volumeDelete(volumeId:\\\"vol-prod-1\\\")}\"}")),
	    "curl -d", "delete drop");
	assert_view(by_body(FORM, STR("query=%7Ba%7D")), "a form", "opaque");
	assert_view(by_body(FORM, STR("{\"query\":\"{a}\",\"variables\":{\"x\":\"y\"}}")),
	    "no form", "read");
	assert_view(by_body(FORM, STR("{\"query\":\"{a}\",\"variables\":{\"x\":\"&query=m\"}}")),
	    "both", "opaque");
	assert_view(by_body(FORM, STR("{\"query\":\"{a}\",\"variables\":{\"x\":\";query=m\"}}")),
	    "both", "opaque");
}

static void
a_query_string_is_decoded_strictly(void **state UNUSED)
{
	assert_query("query=%7Ba%7D", "read");
	assert_query("query={a}", "read");
	assert_query("query=query+A{a}%20query%20B{b}&operationName=B", "read");
	assert_query("query=query+A{a}%20query%20B{b}", "invalid write");
	assert_query("a=1&query={a}&variables=%7B%22x%22%3A1.5%7D", "read");
	assert_query("%71uery={a}", "read");
	assert_query("query={a}&query=mutation{volumeDelete}", "opaque");
	assert_query("query={a}&%71uery={b}", "opaque");
	assert_query("query={a}&Query={b}", "opaque");
	assert_query("query={a}&query[]={b}", "opaque");
	assert_query("query={a}&id=7", "opaque");
	assert_query("query={a};x=1", "opaque");
	assert_query("query={a}&operationName=&extensions=%7B%7D", "read");
	assert_query("query={a%00}", "invalid write");
	assert_query("query={a}%ff", "invalid write");
	assert_query("a=1", "invalid write");
	assert_query("query", "invalid write");
	assert_query("query={a}&extensions={", "invalid write");
	assert_query("extensions=" /* no hash */, "invalid write");
}

static void
a_mutation_by_get_is_opaque_besides(void **state UNUSED)
{
	assert_query("query=mutation%7BvolumeDelete%7D", "delete drop opaque");
	assert_query("query=%23%0Dmutation%7BvolumeDelete%7D", "delete drop opaque");
	assert_query("query=mutation%7BtokenList%7D", "opaque read");
	assert_query("query=query%7BvolumeDelete%7D", "read");
}

static void
a_request_of_up_to_1_mib_is_read(void **state UNUSED)
{
	for (size_t over = 0; over <= 1; over++) {
		AUTO_BUF struct buf b = BUF(FACTS_GRAPHQL_MAX + 1);
		size_t n;

		buf_put_z(&b, "{\"query\":\"{a}\",\"variables\":{\"x\":\"");
		n = FACTS_GRAPHQL_MAX - b.n - 3 + over;
		(void)memset(buf_grow(&b, n), 'x', n);
		buf_put_z(&b, "\"}}");
		assert_view(
		    by_body(JSON, buf_str(&b)), "1 MiB", over == 0 ? "read" : "invalid write");
	}
}

/* --- what comes from a parser that was taken over -------------------------------------- */

static void
facts_that_are_not_in_the_form_are_opaque(void **state UNUSED)
{
	static const char *const bad[] = {"null", "[]", "{}", "{\"graphql\":[]}",
	    "{\"graphql\":[1]}", "{\"graphql\":[{}]}",
	    "{\"graphql\":[{\"fields\":[\"a\"],\"operations\":1,\"type\":\"quer\"}]}",
	    "{\"graphql\":[{\"fields\":[],\"operations\":1,\"type\":\"query\"}]}",
	    "{\"graphql\":[{\"fields\":[1],\"operations\":1,\"type\":\"query\"}]}",
	    "{\"graphql\":[{\"fields\":\"a\",\"operations\":1,\"type\":\"query\"}]}",
	    "{\"graphql\":[{\"fields\":[\"a\"],\"type\":\"query\"}]}",
	    "{\"graphql\":[{\"fields\":[\"a\"],\"operations\":1,\"type\":\"query\",\"x\":1}]}",
	    "{\"graphql\":[{\"hash\":\"00\"}]}", "{\"graphql\":[{\"hash\":1}]}",
	    "{\"graphql\":[{\"fields\":[\"a\"],\"operations\":1,\"type\":\"query\"}],\"x\":1}",
	    "{\"graphql\":[{\"unknown\":\"x\"}]}"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO(json) struct json_doc *doc = NULL;
		struct http_view v = {.effects = EFFECT_opaque, .api = HTTP_API_GRAPHQL};

		assert_int_equal(json_parse(str_z(bad[i]), "facts", &doc, NULL), 0);
		effects_http_body(target, HTTP_API_GRAPHQL, json_root(doc), &v);
		if ((v.effects & EFFECT_opaque) == 0 || v.fault == NULL)
			fail_msg("%s: effects 0x%x", bad[i], v.effects);
	}
}

static void
facts_of_another_kind_are_opaque(void **state UNUSED)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct http_view v = {.effects = EFFECT_write, .api = HTTP_API_FORM};

	assert_int_equal(
	    json_parse(
		STR("{\"graphql\":[{\"fields\":[\"a\"],\"operations\":1,\"type\":\"query\"}]}"),
		"facts", &doc, NULL),
	    0);
	effects_http_body(target, HTTP_API_GRAPHQL, json_root(doc), &v);
	assert_int_equal(v.effects, EFFECT_write | EFFECT_opaque);
	v = (struct http_view){.effects = EFFECT_opaque, .api = HTTP_API_GRAPHQL};
	effects_http_body(target, HTTP_API_GRAPHQL, NULL, &v);
	assert_true((v.effects & EFFECT_opaque) != 0);
	v = (struct http_view){.effects = EFFECT_opaque, .api = HTTP_API_GRAPHQL};
	effects_http_body(target, HTTP_API_GRAPHQL, json_root(doc), &v);
	assert_int_equal(v.effects, EFFECT_read);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_operation_that_is_named_is_judged),
	    cmocka_unit_test(a_subscription_is_opaque),
	    cmocka_unit_test(a_batch_is_judged_as_a_whole),
	    cmocka_unit_test(json_must_be_strict),
	    cmocka_unit_test(members_that_may_name_another_document_are_opaque),
	    cmocka_unit_test(a_hash_alone_is_known_only_when_registered),
	    cmocka_unit_test(a_hash_beside_its_document_must_be_its_own),
	    cmocka_unit_test(other_content_types_are_opaque),
	    cmocka_unit_test(json_that_curl_calls_a_form_is_read_when_no_form_can_be_made_of_it),
	    cmocka_unit_test(a_query_string_is_decoded_strictly),
	    cmocka_unit_test(a_mutation_by_get_is_opaque_besides),
	    cmocka_unit_test(a_request_of_up_to_1_mib_is_read),
	    cmocka_unit_test(facts_that_are_not_in_the_form_are_opaque),
	    cmocka_unit_test(facts_of_another_kind_are_opaque),
	};

	return cmocka_run_group_tests(tests, graphql_policy_read, graphql_policy_free);
}
