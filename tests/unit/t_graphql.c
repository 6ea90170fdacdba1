/*
 * GraphQL documents: which operation runs, what its fields are, what that does. Beside each refusal
 * stands the nearest document that is allowed.
 */
#include "tests/unit/graphql_help.h"

#include "common/banned.h"

/* --- which operation runs ------------------------------------------------------------ */

static void
a_query_reads_whatever_its_values_hold(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"{viewer{login}}", "read"},
	    {"query{viewer{login}}", "read"},
	    {"query($s:String){x(s:$s)}", "read"},
	    {"query Mutation{mutation}", "read"},
	    {"query mutation{mutation:mutation}", "read"},
	    {"query fragment{fragment}", "read"},
	    {"query subscription{on}", "read"},
	    {"{a(s:\"mutation{volumeDelete}\")}", "read"},
	    {"{a(s:\"\"\"\n mutation{volumeDelete} \"\"\")}", "read"},
	    {"{a(s:\"\"\"x\\\"\"\"y\"\"\")}", "read"},
	    {"{a(s:\"\"\"\\\"\"\" } mutation M{volumeDelete} \"\"\")}", "read"},
	    {"{a(s:\"\\u006dutation\\\"\\\\\")}", "read"},
	    {"#mutation{volumeDelete}\n{a}", "read"},
	    {"\xef\xbb\xbf{a\xef\xbb\xbf b,,,c}", "read"},
	    {"{volumeDelete:volumes{id}}", "read"},
	    {"{deleteVolume(id:1){ok}}", "read"},
	    {"{__schema{types{name}}}", "read"},
	    {"{__type(name:\"Mutation\"){fields{name}}}", "read"},
	    {"{a(x:-0,y:1.5e+3,z:[1 2,3],o:{k:null,l:$v,m:ENUM})@skip(if:true)}", "read"},
	    {"query($a:[[Int!]!]!={k:[1]}@d(x:1) $b:B){a(b:$b)}", "read"},
	};

	assert_texts(rows, ARRAY_LEN(rows));
	assert_json("{\"query\":\"query($s:String){x(s:$s)}\",\"variables\":"
		    "{\"s\":\"mutation{volumeDelete}\",\"n\":1.5e3,\"m\":null}}",
	    "read");
}

static void
a_mutation_is_found_wherever_it_stands(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"#c\nmutation{mergePullRequest(input:{})}", "write"},
	    {"#c\rmutation{volumeDelete}", "delete drop"},
	    {"#{a}\rmutation{volumeDelete}#\r", "delete drop"},
	    {"\xef\xbb\xbf \t\r\n,,mutation{volumeDelete}", "delete drop"},
	    {"fragment F on Query{viewer{login}} mutation{volumeDelete(id:1)}", "delete drop"},
	    {"mutation query{volumeDelete}", "delete drop"},
	    {"mutation\nM\n(\n$id:ID!\n)\n@d{volumeDelete(id:$id)}", "delete drop"},
	    {"mutation{safe:volumeDelete(id:1)}", "delete drop"},
	    {"mutation{viewer:volumeDelete}", "delete drop"},
	    {"mutation{a:createNote b:volumeDelete}", "delete drop write"},
	    {"mutation{volumeDelete@skip(if:true)}", "delete drop"},
	    {"mutation{createNote volumeDelete@include(if:$no)}", "delete drop write"},
	    {"mutation{...F} fragment F on Mutation{volumeDelete}", "delete drop"},
	    {"mutation{...F} fragment F on Mutation{...G} fragment G on M{x:volumeDelete}",
		"delete drop"},
	    {"mutation{...{volumeDelete}}", "delete drop"},
	    {"mutation{...on Mutation{...@include(if:false){volumeDelete}}}", "delete drop"},
	    {"mutation{...on on{volumeDelete}}", "delete drop"},
	    {"mutation{createNote{...F}} fragment F on Note{volumeDelete}", "write"},
	};

	assert_texts(rows, ARRAY_LEN(rows));
	assert_json("{\"query\":\"\\u006d\\u0075tation{volume\\u0044elete}\"}", "delete drop");
	assert_json("{\"\\u0071uery\":\"mutation{volumeDelete}\"}", "delete drop");
	assert_json("{\"query\":\"#\\r\\nmutation{volumeDelete}\"}", "delete drop");
}

/* --- documents ----------------------------------------------------------------------- */

static void
what_is_no_executable_document_is_invalid(void **state UNUSED)
{
	static const char *const bad[] = {"", " ", "#", "x", "{", "}", "{}", "{a", "{a}}", "query",
	    "query A", "query A{}", "mutation{}", "mutation{a{}}", "type Q{a:Int}",
	    "extend type Q{a:Int}", "schema{query:Q}", "directive@d on FIELD", "scalar S",
	    "\"a description\"query{a}", "\"\"\"d\"\"\"{a}", "query{a}type T{b:Int}",
	    "fragment F on T{a}", "{...F}", "{...F}fragment G on T{a}", "{...on}", "{...on T}",
	    "fragment on on T{a}{...on}", "{a}fragment on on T{a}", "fragment F{a}{...F}",
	    "fragment F($a:Int)on T{a}{...F}", "{...F}fragment F on T{a}fragment F on T{b}", "{a:}",
	    "{:a}", "{a:b:c}", "{a()}", "{a(b)}", "{a(b:)}", "{a(b:$)}", "query($a){a}",
	    "query($a:){a}", "query(){a}", "query($a:Int=$b){a}", "query($a:[Int){a}",
	    "query($a:Int!!){a}", "{a@}", "{a@1}", "{a(b:01)}", "{a(b:1.)}", "{a(b:.5)}",
	    "{a(b:1e)}", "{a(b:1a)}", "{a(b:1c:2)}", "{a(b:0x:1)}", "{a(b:0x1)}", "{a(b:1.2.3)}",
	    "{a(b:-)}", "{a(b:+1)}", "{a(b:\"x)}", "{a(b:\"\n\")}", "{a(b:\"\\x\")}",
	    "{a(b:\"\\u12\")}", "{a(b:\"\\u{61}\")}", "{a(b:\"\"\"x\")}", "{a(b:'x')}", "{a;b}",
	    "{a%b}", "{a..b}", "{a(b:[1)}", "{a(b:{c})}", "{a(b:{c:1)}", "{a&b}", "{a|b}",
	    "{\xc3\xa9}", "{a\x01}", "{a(b:\"\x01\")}", "{a}#\x01", "{a}\x1a", "{a}{",
	    "subscribe{a}", "Mutation{a}", "{a?}"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_text(bad[i], "invalid write");
	assert_view(
	    by_body("application/graphql", STR("{a}\0mutation{b}")), "NUL", "invalid write");
	assert_view(by_body("application/graphql", STR("{a(b:\"\xc0\xaf\")}")), "overlong",
	    "invalid write");
	assert_view(by_body("application/graphql", STR("{a(b:\"\xed\xa0\x80\")}")), "a surrogate",
	    "invalid write");
}

static void
circles_of_fragments_are_invalid(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"{...A}fragment A on T{...A}", "invalid write"},
	    {"{...A}fragment A on T{...B}fragment B on T{...A}", "invalid write"},
	    {"{...A}fragment A on T{a{...B}}fragment B on T{b{...on U{...A}}}", "invalid write"},
	    {"{a}fragment A on T{...A}", "invalid write"},
	    {"{...A...B}fragment A on T{...C}fragment B on T{...C}fragment C on T{a}", "read"},
	    {"{...A...A...A}fragment A on T{a}", "read"},
	    {"{a}fragment A on T{volumeDelete}", "read"},
	};

	assert_texts(rows, ARRAY_LEN(rows));
}

/* `n` times `piece` between the rest. */
static struct http_view
repeated(const char *before, const char *piece, size_t n, const char *after)
{
	AUTO_BUF struct buf b = BUF((size_t)32 << 20);

	buf_put_z(&b, before);
	for (size_t i = 0; i < n; i++)
		buf_put_z(&b, piece);
	buf_put_z(&b, after);
	return by_body("application/graphql", buf_str(&b));
}

static void
limits_are_kept_without_harm(void **state UNUSED)
{
	assert_view(repeated("", "{a", 65, ""), "65 deep, open", "invalid write");
	assert_view(repeated("", "{a", 1000000, ""), "a million deep", "invalid write");
	assert_view(repeated("{a(b:", "[", 100000, ""), "lists", "invalid write");
	assert_view(repeated("{a(b:", "{c:", 40000, ""), "objects", "invalid write");
	assert_view(repeated("query($a:", "[", 100000, ""), "types", "invalid write");
	assert_view(repeated("{", "...{", 100000, ""), "inline fragments", "invalid write");
	assert_view(repeated("{", "a ", 49000, "}"), "49,000 fields", "read");
	assert_view(repeated("{", "a ", 50000, "}"), "50,000 fields", "invalid write");
	assert_view(repeated("{a}#", "x", 1000000, ""), "a long comment", "read");
	assert_view(repeated("{a}#", "x", 10 << 20, ""), "10 MiB", "invalid write");
	assert_view(repeated("{a(b:\"", "x", 1000000, "\")}"), "a long string", "read");
}

/* `n` times `open`, `middle`, `n` times `close`. */
static struct http_view
nested(const char *before, const char *open, const char *middle, const char *close, int n,
    const char *after)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_put_z(&b, before);
	for (int i = 0; i < n; i++)
		buf_put_z(&b, open);
	buf_put_z(&b, middle);
	for (int i = 0; i < n; i++)
		buf_put_z(&b, close);
	buf_put_z(&b, after);
	return by_body("application/graphql", buf_str(&b));
}

static void
nesting_up_to_64_is_read(void **state UNUSED)
{
	assert_view(nested("", "{a", "", "}", 64, ""), "selections", "read");
	assert_view(nested("", "{a", "", "}", 65, ""), "selections", "invalid write");
	assert_view(nested("{", "...{", "a", "}", 63, "}"), "inline fragments", "read");
	assert_view(nested("{", "...{", "a", "}", 64, "}"), "inline fragments", "invalid write");
	assert_view(nested("{a(b:", "[", "", "]", 62, ")}"), "lists", "read");
	assert_view(nested("{a(b:", "[", "", "]", 63, ")}"), "lists", "invalid write");
	assert_view(nested("{a(b:", "{c:", "1", "}", 62, ")}"), "objects", "read");
	assert_view(nested("{a(b:", "{c:", "1", "}", 63, ")}"), "objects", "invalid write");
	assert_view(nested("query($a:", "[", "I", "]", 64, "){a}"), "types", "read");
	assert_view(nested("query($a:", "[", "I", "]", 65, "){a}"), "types", "invalid write");
}

static void
up_to_1024_definitions_are_read(void **state UNUSED)
{
	for (int n = 1023; n <= 1024; n++) {
		AUTO_BUF struct buf b = BUF(1 << 20);

		buf_put_z(&b, "{a}");
		for (int i = 0; i < n; i++)
			buf_printf(&b, "fragment F%d on T{a}", i);
		assert_view(by_body("application/graphql", buf_str(&b)), "definitions",
		    n == 1023 ? "read" : "invalid write");
	}
}

/* Each fragment spreads the next one twice: 2^500 ways, one walk. */
static void
fragments_that_multiply_cost_no_more(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1 << 20);

	buf_put_z(&b, "mutation{...F0}");
	for (int i = 0; i < 500; i++)
		buf_printf(&b, "fragment F%d on M{...F%d ...F%d}", i, i + 1, i + 1);
	buf_put_z(&b, "fragment F500 on M{volumeDelete}");
	assert_view(by_body("application/graphql", buf_str(&b)), "2^500", "delete drop");
}

/* --- names --------------------------------------------------------------------------- */

static void
the_words_of_a_mutation_say_what_it_does(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"volumeDelete", "delete drop"},
	    {"deleteVolume", "delete drop"},
	    {"volume_delete", "delete drop"},
	    {"DELETE_VOLUME", "delete drop"},
	    {"removeProject", "delete drop"},
	    {"destroyAll", "bulk delete drop"},
	    {"HTTPServerTerminate", "delete drop"},
	    {"volumedelete", "delete drop"},
	    {"serviceRestart", "disrupt"},
	    {"restartServices", "disrupt"},
	    {"rollbackService", "disrupt overwrite"},
	    {"deploymentRollback", "disrupt overwrite write"},
	    {"scaleService", "disrupt"},
	    {"lockRepository", "disrupt"},
	    {"apiTokenCreate", "secret write"},
	    {"createApiKeys", "secret write"},
	    {"passwordReset", "disrupt overwrite secret"},
	    {"inviteUser", "priv"},
	    {"memberAdd", "priv write"},
	    {"updateRolePermissions", "priv write"},
	    {"transferOwnership", "priv"},
	    {"updatePolicies", "priv write"},
	    {"execCommand", "exec"},
	    {"sshRun", "exec"},
	    {"createNote", "write"},
	    {"noteCreate", "write"},
	    {"updateTitle", "write"},
	    {"renameThing2", "write"},
	    {"createMany", "bulk write"},
	    {"note", "bulk write"},
	    {"frobnicate", "bulk write"},
	    {"commentaryTune", "bulk write"},
	    {"createAPIKey", "secret write"},
	    {"x", "bulk write"},
	    {"_", "bulk write"},
	    {"token", "bulk secret write"},
	    {"keyboardUpdate", "write"},
	    {"__typename", "read"},
	    {"purgeCache", "write"},
	    {"tokenList", "read"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO_FREE char *text = xasprintf("mutation{%s}", rows[i].text);

		assert_text(text, rows[i].effects);
	}
}

static void
the_verbs_beneath_a_field_without_one_count(void **state UNUSED)
{
	static const struct row rows[] = {
	    {"mutation{volumes{delete(id:1)}}", "bulk delete drop write"},
	    {"mutation{volumes{...F}}fragment F on V{all{delete}}", "bulk delete drop write"},
	    {"mutation{volumes{list{token}}}", "bulk write"},
	    {"mutation{createVolume{delete}}", "write"},
	};

	assert_texts(rows, ARRAY_LEN(rows));
}

static void
what_the_policy_says_of_a_field_holds(void **state UNUSED)
{
	assert_text("{variables}", "read secret");
	assert_text("{x:variables}", "read secret");
	assert_text("{...F}fragment F on Query{variables}", "read secret");
	assert_text("{variable}", "read");
	assert_text("{a{variables}}", "read");
	assert_text("{purgeCache}", "read");
	assert_text("mutation{variables}", "bulk write");
	assert_text("mutation{purgeCache volumeDelete}", "delete drop write");
}

static void
the_reason_names_line_and_column(void **state UNUSED)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	struct err err = {0};

	assert_int_equal(facts_graphql_body(STR("application/graphql"),
			     STR("{a}\r\n#x\r  mutation M{\xc3}"), &facts, &err),
	    ERR_SYNTAX);
	assert_int_equal(facts_graphql_body(STR("application/graphql"),
			     STR("{a}\r\n#\xc3\xa9\r  mutation ?"), &facts, &err),
	    ERR_SYNTAX);
	assert_string_equal(err.msg, "GraphQL:3:12: byte 0x3f begins nothing");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_query_reads_whatever_its_values_hold),
	    cmocka_unit_test(a_mutation_is_found_wherever_it_stands),
	    cmocka_unit_test(what_is_no_executable_document_is_invalid),
	    cmocka_unit_test(circles_of_fragments_are_invalid),
	    cmocka_unit_test(limits_are_kept_without_harm),
	    cmocka_unit_test(nesting_up_to_64_is_read),
	    cmocka_unit_test(up_to_1024_definitions_are_read),
	    cmocka_unit_test(fragments_that_multiply_cost_no_more),
	    cmocka_unit_test(the_words_of_a_mutation_say_what_it_does),
	    cmocka_unit_test(the_verbs_beneath_a_field_without_one_count),
	    cmocka_unit_test(what_the_policy_says_of_a_field_holds),
	    cmocka_unit_test(the_reason_names_line_and_column),
	};

	return cmocka_run_group_tests(tests, graphql_policy_read, graphql_policy_free);
}
