/*
 * Unit tests of common/json: what is refused with which words and where, and beside each
 * refusal the nearest text that is accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json.h"

#include "common/banned.h"

static void
assert_refused(struct str text, int code, const char *says)
{
	struct json_doc *d = NULL;
	struct err e = {0};
	int r = json_parse(text, "f", &d, &e);

	if (r != code || strcmp(e.msg, says) != 0)
		fail_msg("%.*s: %d \"%s\", wanted \"%s\"", STR_ARG(text), r, e.msg, says);
	assert_null(d);
}

static struct json_doc *
parsed(const char *text)
{
	struct json_doc *d = NULL;
	struct err e = {0};

	if (json_parse(str_z(text), "f", &d, &e) != 0)
		fail_msg("%s: %s", text, e.msg);
	return d;
}

static void
assert_accepted(const char *text)
{
	json_free(parsed(text));
}

struct refusal {
	const char *text, *says;
};

static void
all_refused(const struct refusal *r, size_t n, int code)
{
	for (size_t i = 0; i < n; i++)
		assert_refused(str_z(r[i].text), code, r[i].says);
}

static void
a_document_is_read_with_all_its_types(void **state UNUSED)
{
	AUTO(json)
	struct json_doc *d =
	    parsed(" { \"a\" : [ 1 , -2, true, false, null, \"x\" ], \"\" : { } }\r\n\t");
	const struct json *r = json_root(d), *a = json_get(r, "a");

	assert_int_equal(json_type(r), JSON_OBJECT);
	assert_int_equal(json_count(r), 2);
	assert_true(str_eqz(json_key(r, 0), "a") && str_eqz(json_key(r, 1), ""));
	assert_int_equal(json_type(a), JSON_ARRAY);
	assert_int_equal(json_count(a), 6);
	assert_int_equal(json_int(json_at(a, 0)), 1);
	assert_int_equal(json_int(json_at(a, 1)), -2);
	assert_true(json_bool(json_at(a, 2)));
	assert_int_equal(json_type(json_at(a, 3)), JSON_BOOL);
	assert_false(json_bool(json_at(a, 3)));
	assert_int_equal(json_type(json_at(a, 4)), JSON_NULL);
	assert_true(str_eqz(json_str(json_at(a, 5)), "x"));
	assert_int_equal(json_type(json_get(r, "")), JSON_OBJECT);
}

static void
a_value_asked_for_by_the_wrong_type_is_empty(void **state UNUSED)
{
	AUTO(json) struct json_doc *d = parsed("[\"1\",1,true]");
	const struct json *r = json_root(d);

	assert_int_equal(json_int(json_at(r, 0)), 0);
	assert_int_equal(json_str(json_at(r, 1)).n, 0);
	assert_false(json_bool(json_at(r, 1)));
	assert_int_equal(json_int(json_at(r, 2)), 0);
	assert_null(json_get(r, "a"));
	assert_int_equal(json_key(r, 0).n, 0);
}

static void
member_names_are_matched_in_their_case(void **state UNUSED)
{
	AUTO(json) struct json_doc *d = parsed("{\"Quorum\":1,\"quorum\":2}");

	assert_int_equal(json_int(json_get(json_root(d), "quorum")), 2);
	assert_int_equal(json_int(json_get(json_root(d), "Quorum")), 1);
	assert_null(json_get(json_root(d), "QUORUM"));
}

static void
any_value_may_stand_alone(void **state UNUSED)
{
	assert_accepted("null");
	assert_accepted(" 0 ");
	assert_accepted("\"\"");
	assert_accepted("[]");
}

static void
escapes_are_undone(void **state UNUSED)
{
	AUTO(json)
	struct json_doc *d =
	    parsed("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"");

	assert_true(str_eqz(
	    json_str(json_root(d)), "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
}

static void
integers_up_to_2_to_the_53_are_exact(void **state UNUSED)
{
	AUTO(json) struct json_doc *d = parsed("[9007199254740991,-9007199254740991,0]");

	assert_true(json_int(json_at(json_root(d), 0)) == INT64_C(9007199254740991));
	assert_true(json_int(json_at(json_root(d), 1)) == INT64_C(-9007199254740991));
}

static void
integers_beyond_that_are_refused(void **state UNUSED)
{
	static const struct refusal r[] = {
	    {"[9007199254740992]",
		"f:1:2: number must be from -9007199254740991 to 9007199254740991"},
	    {"-9007199254740992",
		"f:1:1: number must be from -9007199254740991 to 9007199254740991"},
	    {"100000000000000000000000000000",
		"f:1:1: number must be from -9007199254740991 to 9007199254740991"},
	};

	all_refused(r, ARRAY_LEN(r), ERR_INVALID);
}

static void
numbers_in_any_other_spelling_are_refused(void **state UNUSED)
{
	static const struct refusal r[] = {
	    {"-0", "f:1:1: -0 is not allowed"},
	    {"[01]", "f:1:2: leading zero in a number"},
	    {"00", "f:1:1: leading zero in a number"},
	    {"-01", "f:1:1: leading zero in a number"},
	    {"1.5", "f:1:1: number must be an integer, without fraction or exponent"},
	    {"1.0", "f:1:1: number must be an integer, without fraction or exponent"},
	    {"1e2", "f:1:1: number must be an integer, without fraction or exponent"},
	    {"0E0", "f:1:1: number must be an integer, without fraction or exponent"},
	    {"+1", "f:1:1: value expected, not '+'"},
	    {"-", "f:1:2: digit expected, text ends"},
	    {".5", "f:1:1: value expected, not '.'"},
	    {"0x10", "f:1:2: end of text expected, not 'x'"},
	    {"NaN", "f:1:1: value expected, not 'N'"},
	    {"-Infinity", "f:1:2: digit expected, not 'I'"},
	};

	all_refused(r, ARRAY_LEN(r), ERR_SYNTAX);
	assert_accepted("[0,-1,10]");
}

static void
a_key_given_twice_is_refused_where_it_comes_again(void **state UNUSED)
{
	static const struct refusal r[] = {
	    {"{\"rules\":1,\n  \"x\":2,\n  \"rules\":3}", "f:3:3: duplicate key \"rules\""},
	    {"{\"a\":1,\"\\u0061\":2}", "f:1:8: duplicate key \"a\""},
	    {"{\"\":1,\"\":2}", "f:1:7: duplicate key \"\""},
	    {"[{},{\"o\":{\"k\":1,\"z\":0,\"k\":1}}]", "f:1:23: duplicate key \"k\""},
	    {"{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":1}",
		"f:1:19: duplicate key \"\xf0\x9f\x98\x80\""},
	    {"{\"\\n\":1,\"\\u000a\":1}", "f:1:9: duplicate key \"\\x0a\""},
	};

	all_refused(r, ARRAY_LEN(r), ERR_SYNTAX);
	assert_accepted("{\"a\":1,\"A\":2,\"aa\":{\"a\":1},\"b\":[{\"a\":1},{\"a\":1}]}");
}

static void
bytes_before_and_behind_the_value_are_refused(void **state UNUSED)
{
	assert_refused(STR("\xef\xbb\xbf{}"), ERR_SYNTAX, "f:1:1: begins with a byte order mark");
	assert_refused(STR("{} x"), ERR_SYNTAX, "f:1:4: end of text expected, not 'x'");
	assert_refused(STR("{}{}"), ERR_SYNTAX, "f:1:3: end of text expected, not '{'");
	assert_refused(
	    str_mem("{}\0", 3), ERR_SYNTAX, "f:1:3: end of text expected, not byte 0x00");
	assert_refused(str_mem("\0{}", 3), ERR_SYNTAX, "f:1:1: value expected, not byte 0x00");
	assert_refused(STR("{}\xc2\xa0"), ERR_SYNTAX, "f:1:3: end of text expected, not byte 0xc2");
	assert_refused(STR("[1]\f"), ERR_SYNTAX, "f:1:4: end of text expected, not byte 0x0c");
	assert_refused(STR_NONE, ERR_SYNTAX, "f:1:1: value expected, text ends");
	assert_refused(STR(" \n "), ERR_SYNTAX, "f:2:2: value expected, text ends");
	assert_accepted(" \t\r\n{}\n");
	assert_accepted("\"\xef\xbb\xbf\"");
}

static void
nul_in_a_string_is_refused_raw_and_escaped(void **state UNUSED)
{
	assert_refused(STR("\"a\\u0000b\""), ERR_SYNTAX, "f:1:3: \\u0000 is not allowed");
	assert_refused(STR("{\"\\u0000\":1}"), ERR_SYNTAX, "f:1:3: \\u0000 is not allowed");
	assert_refused(str_mem("\"a\0b\"", 5), ERR_SYNTAX,
	    "f:1:3: control character 0x00 in a string, must be escaped");
	assert_accepted("\"\\u0001\\\\u0000\"");
}

static void
control_characters_in_strings_must_be_escaped(void **state UNUSED)
{
	static const struct refusal r[] = {
	    {"\"a\nb\"", "f:1:3: control character 0x0a in a string, must be escaped"},
	    {"\"\x1f\"", "f:1:2: control character 0x1f in a string, must be escaped"},
	    {"{\"\t\":1}", "f:1:3: control character 0x09 in a string, must be escaped"},
	};

	all_refused(r, ARRAY_LEN(r), ERR_SYNTAX);
	assert_accepted("\"\x7f\\u001f\\n\"");
}

static void
lone_surrogates_are_refused(void **state UNUSED)
{
	static const struct refusal r[] = {
	    {"\"\\ud83d\"", "f:1:2: lone surrogate \\ud83d"},
	    {"\"\\ude00\"", "f:1:2: lone surrogate \\ude00"},
	    {"\"\\ud83d\\u0041\"", "f:1:2: lone surrogate \\ud83d"},
	    {"\"\\ud83dx\"", "f:1:2: lone surrogate \\ud83d"},
	    {"\"\\ud83d\\n\"", "f:1:2: lone surrogate \\ud83d"},
	    {"\"\\ud83d\\ud83d\\ude00\"", "f:1:2: lone surrogate \\ud83d"},
	    {"\"\\ude00\\ud83d\"", "f:1:2: lone surrogate \\ude00"},
	    {"\"\\ud83d\\", "f:1:2: lone surrogate \\ud83d"},
	};

	all_refused(r, ARRAY_LEN(r), ERR_SYNTAX);
	assert_accepted("\"\\ud800\\udc00\\udbff\\udfff\\ud7ff\\ue000\"");
}

static void
invalid_utf8_is_refused_where_it_stands(void **state UNUSED)
{
	static const struct refusal r[] = {
	    {"\"\xff\"", "f:1:2: invalid UTF-8"},
	    {"[\"\xc3\xa9\",\n \"\xc3\"]", "f:2:3: invalid UTF-8"},
	    {"\"\xc0\x80\"", "f:1:2: invalid UTF-8"},
	    {"\"\xed\xa0\x80\"", "f:1:2: invalid UTF-8"},
	    {"{}\x80", "f:1:3: invalid UTF-8"},
	    {"\"\xf0\x9f\x98", "f:1:2: invalid UTF-8"},
	};

	all_refused(r, ARRAY_LEN(r), ERR_SYNTAX);
	assert_accepted("\"\xc3\xa9\xf0\x9f\x98\x80\"");
}

static void
bad_escapes_are_refused(void **state UNUSED)
{
	static const struct refusal r[] = {
	    {"\"\\x41\"", "f:1:3: escape character expected, not 'x'"},
	    {"\"\\U0041\"", "f:1:3: escape character expected, not 'U'"},
	    {"\"\\'\"", "f:1:3: escape character expected, not '''"},
	    {"\"\\", "f:1:3: escape character expected, text ends"},
	    {"\"\\u12\"", "f:1:6: hexadecimal digit expected, not '\"'"},
	    {"\"\\u00g0\"", "f:1:6: hexadecimal digit expected, not 'g'"},
	    {"\"\\u 041\"", "f:1:4: hexadecimal digit expected, not byte 0x20"},
	};

	all_refused(r, ARRAY_LEN(r), ERR_SYNTAX);
	assert_refused(
	    str_mem("\"\\\0\"", 4), ERR_SYNTAX, "f:1:3: escape character expected, not byte 0x00");
}

static void
malformed_structure_is_refused_where_it_goes_wrong(void **state UNUSED)
{
	static const struct refusal r[] = {
	    {"[1,]", "f:1:4: value expected, not ']'"},
	    {"[,1]", "f:1:2: value expected, not ','"},
	    {"[1 2]", "f:1:4: ',' or ']' expected, not '2'"},
	    {"[1", "f:1:3: ',' or ']' expected, text ends"},
	    {"[1}", "f:1:3: ',' or ']' expected, not '}'"},
	    {"{\"a\":1,}", "f:1:8: key in quotes expected, not '}'"},
	    {"{a:1}", "f:1:2: key in quotes expected, not 'a'"},
	    {"{'a':1}", "f:1:2: key in quotes expected, not '''"},
	    {"{\"a\" 1}", "f:1:6: ':' expected, not '1'"},
	    {"{\"a\":}", "f:1:6: value expected, not '}'"},
	    {"{\"a\"}", "f:1:5: ':' expected, not '}'"},
	    {"{\"a\":1]", "f:1:7: ',' or '}' expected, not ']'"},
	    {"\"abc", "f:1:5: closing quote expected, text ends"},
	    {"tru", "f:1:1: value expected, not 't'"},
	    {"True", "f:1:1: value expected, not 'T'"},
	    {"nul", "f:1:1: value expected, not 'n'"},
	    {"truex", "f:1:5: end of text expected, not 'x'"},
	    {"[1] // no", "f:1:5: end of text expected, not '/'"},
	    {"/**/1", "f:1:1: value expected, not '/'"},
	    {"]", "f:1:1: value expected, not ']'"},
	};

	all_refused(r, ARRAY_LEN(r), ERR_SYNTAX);
}

static void
nested(struct buf *b, size_t depth)
{
	buf_reset(b);
	for (size_t i = 0; i < depth; i++)
		buf_put_c(b, '[');
	for (size_t i = 0; i < depth; i++)
		buf_put_c(b, ']');
}

static void
nesting_ends_at_32_levels(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1 << 20);
	struct json_doc *d = NULL;

	nested(&b, 33);
	assert_refused(buf_str(&b), ERR_TOO_COMPLEX, "f:1:33: nested deeper than 32 levels");
	nested(&b, 200000);
	assert_refused(buf_str(&b), ERR_TOO_COMPLEX, "f:1:33: nested deeper than 32 levels");
	nested(&b, 32);
	assert_int_equal(json_parse(buf_str(&b), "f", &d, NULL), 0);
	json_free(d);
}

static void
a_text_over_its_size_is_refused(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(JSON_SIZE_MAX + 1);
	struct json_doc *d = NULL;

	buf_put_c(&b, '"');
	memset(buf_grow(&b, JSON_SIZE_MAX - 2), 'x', JSON_SIZE_MAX - 2);
	buf_put_c(&b, '"');
	assert_int_equal(json_parse(buf_str(&b), "f", &d, NULL), 0);
	assert_int_equal(json_str(json_root(d)).n, JSON_SIZE_MAX - 2);
	json_free(d);
	buf_put_c(&b, ' ');
	assert_refused(buf_str(&b), ERR_TOO_LARGE, "f: must be at most 8388608 bytes, is 8388609");
}

static void
too_many_values_are_refused_before_they_cost_memory(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1 << 21);

	buf_put_c(&b, '[');
	for (int i = 0; i < 500000; i++)
		buf_put_z(&b, "1,");
	buf_put_z(&b, "1]");
	assert_refused(buf_str(&b), ERR_TOO_LARGE, "f:1:1000000: more than 500000 values");
}

static void
a_wide_object_is_searched_for_duplicates_in_good_time(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1 << 21);
	struct json_doc *d = NULL;

	buf_put_c(&b, '{');
	for (int i = 0; i < 100000; i++)
		buf_printf(&b, "\"k%d\":1,", i);
	buf_put_z(&b, "\"last\":2}");
	assert_int_equal(json_parse(buf_str(&b), "f", &d, NULL), 0);
	assert_int_equal(json_int(json_get(json_root(d), "last")), 2);
	json_free(d);
}

static void
a_value_knows_its_line_and_column_in_characters(void **state UNUSED)
{
	AUTO(json) struct json_doc *d = parsed("{\n\t\"\xc3\xa9\": [1,\n 22], \"b\":true}");
	const struct json *r = json_root(d), *a = json_at(r, 0);
	struct err e = {0};
	unsigned line, col;

	json_where(d, r, &line, &col);
	assert_true(line == 1 && col == 1);
	json_where(d, a, &line, &col); /* a member: where its key begins */
	assert_true(line == 2 && col == 2);
	json_where(d, json_at(a, 0), &line, &col);
	assert_true(line == 2 && col == 8);
	json_where(d, json_at(a, 1), &line, &col);
	assert_true(line == 3 && col == 2);
	/* The same one after another, also back again and in another document. */
	{
		AUTO(json) struct json_doc *other = parsed("\n[1]");
		const struct json_doc *docs[] = {d, d, d, d, other, d};
		const struct json *values[] = {
		    r, a, json_at(a, 1), json_at(a, 0), json_root(other), json_get(r, "b")};
		struct json_mark m = {0};

		for (size_t i = 0; i < ARRAY_LEN(docs); i++) {
			json_where(docs[i], values[i], &line, &col);
			json_where_next(&m, docs[i], values[i]);
			assert_true(m.line == line && m.col == col);
		}
	}
	assert_int_equal(
	    json_err(d, json_get(r, "b"), &e, ERR_CONFIG, "must be %d", 5), ERR_CONFIG);
	assert_string_equal(e.msg, "f:3:7: must be 5");
}

static void
the_document_does_not_need_the_text_any_more(void **state UNUSED)
{
	char text[] = "{\"key\":\"value\"}";
	struct json_doc *d = NULL;

	assert_int_equal(json_parse(str_z(text), "f", &d, NULL), 0);
	memset(text, 'x', sizeof(text));
	assert_true(str_eqz(json_str(json_get(json_root(d), "key")), "value"));
	json_free(d);
	json_free(NULL);
}

static void
a_value_that_is_not_there_is_like_null(void **state UNUSED)
{
	assert_int_equal(json_type(NULL), JSON_NULL);
	assert_int_equal(json_str(NULL).n, 0);
	assert_int_equal(json_int(NULL), 0);
	assert_false(json_bool(NULL));
	assert_int_equal(json_count(NULL), 0);
	assert_null(json_get(NULL, "a"));
}

static void
any_number_is_read_where_it_was_asked_for(void **state UNUSED)
{
	static const char *const good[] = {"1.5", "-0", "-0.0", "1e9", "1E+9", "2e-999999", "0.5e1",
	    "9007199254740992", "123456789012345678901234567890123456789012345678901234567890"};
	static const char *const bad[] = {"01", "-", "1.", ".5", "1e", "1e+", "+1", "00.1", "0x1",
	    "NaN", "1.5.5", "1234567890123456789012345678901234567890123456789012345678901"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		AUTO(json) struct json_doc *d = NULL;
		struct err e = {0};

		if (json_parse_numbers(str_z(good[i]), "f", &d, &e) != 0)
			fail_msg("%s: %s", good[i], e.msg);
		assert_int_equal(json_type(json_root(d)), JSON_NUMBER);
		assert_int_equal(json_int(json_root(d)), 0);
		assert_int_not_equal(json_parse(str_z(good[i]), "f", &d, NULL), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct json_doc *d = NULL;

		if (json_parse_numbers(str_z(bad[i]), "f", &d, NULL) == 0)
			fail_msg("%s: accepted", bad[i]);
	}
}

static void
an_integer_stays_one_where_any_number_is_read(void **state UNUSED)
{
	AUTO(json) struct json_doc *d = NULL;

	assert_int_equal(json_parse_numbers(STR("[-9007199254740991,0,12]"), "f", &d, NULL), 0);
	assert_true(json_int(json_at(json_root(d), 0)) == INT64_C(-9007199254740991));
	assert_int_equal(json_type(json_at(json_root(d), 1)), JSON_INT);
	assert_int_equal(json_int(json_at(json_root(d), 2)), 12);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_document_is_read_with_all_its_types),
	    cmocka_unit_test(a_value_asked_for_by_the_wrong_type_is_empty),
	    cmocka_unit_test(member_names_are_matched_in_their_case),
	    cmocka_unit_test(any_value_may_stand_alone),
	    cmocka_unit_test(escapes_are_undone),
	    cmocka_unit_test(integers_up_to_2_to_the_53_are_exact),
	    cmocka_unit_test(integers_beyond_that_are_refused),
	    cmocka_unit_test(numbers_in_any_other_spelling_are_refused),
	    cmocka_unit_test(a_key_given_twice_is_refused_where_it_comes_again),
	    cmocka_unit_test(bytes_before_and_behind_the_value_are_refused),
	    cmocka_unit_test(nul_in_a_string_is_refused_raw_and_escaped),
	    cmocka_unit_test(control_characters_in_strings_must_be_escaped),
	    cmocka_unit_test(lone_surrogates_are_refused),
	    cmocka_unit_test(invalid_utf8_is_refused_where_it_stands),
	    cmocka_unit_test(bad_escapes_are_refused),
	    cmocka_unit_test(malformed_structure_is_refused_where_it_goes_wrong),
	    cmocka_unit_test(nesting_ends_at_32_levels),
	    cmocka_unit_test(a_text_over_its_size_is_refused),
	    cmocka_unit_test(too_many_values_are_refused_before_they_cost_memory),
	    cmocka_unit_test(a_wide_object_is_searched_for_duplicates_in_good_time),
	    cmocka_unit_test(a_value_knows_its_line_and_column_in_characters),
	    cmocka_unit_test(the_document_does_not_need_the_text_any_more),
	    cmocka_unit_test(a_value_that_is_not_there_is_like_null),
	    cmocka_unit_test(any_number_is_read_where_it_was_asked_for),
	    cmocka_unit_test(an_integer_stays_one_where_any_number_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
