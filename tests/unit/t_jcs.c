/*
 * Unit tests of common/jcs: the bytes of RFC 8785, and that misuse ends the process.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "audit/canon.h"
#include "common/hash.h"
#include "common/jcs.h"

#include "common/banned.h"

/* What jcs_value makes of `text`, or "" and *ret_code. */
static char *
canonical(const char *text, int *ret_code)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_BUF struct buf out = BUF(1 << 16);
	struct jcs j;

	assert_int_equal(json_parse(str_z(text), "f", &d, NULL), 0);
	jcs_init(&j, &out);
	*ret_code = jcs_value(&j, NULL, json_root(d), NULL);
	return buf_dup_z(&out);
}

static void
assert_canonical(const char *text, const char *want)
{
	int r;
	AUTO_FREE char *got = canonical(text, &r);

	assert_int_equal(r, 0);
	assert_string_equal(got, want);
}

static void
a_record_is_emitted_without_spaces(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(1000);
	struct jcs j;

	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_array(&j, "a");
	jcs_int(&j, NULL, -1);
	jcs_z(&j, NULL, "x");
	jcs_open(&j, NULL);
	jcs_close(&j);
	jcs_array_end(&j);
	jcs_bool(&j, "b", true);
	jcs_hex(&j, "c", "\x00\xff", 2);
	jcs_key(&j, STR("d"));
	jcs_open(&j, NULL);
	jcs_int(&j, "n", INT64_C(9007199254740991));
	jcs_close(&j);
	jcs_raw(&j, "e", STR("[1,2]"));
	jcs_z(&j, "f", NULL);
	jcs_close(&j);
	assert_true(
	    str_eqz(buf_str(&out), "{\"a\":[-1,\"x\",{}],\"b\":true,\"c\":\"00ff\","
				   "\"d\":{\"n\":9007199254740991},\"e\":[1,2],\"f\":\"\"}"));
}

static void
strings_are_escaped_as_rfc_8785_has_it(void **state UNUSED)
{
	assert_canonical("\"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\"",
	    "\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"");
	assert_canonical("\"\\u0008\\u0009\\u000a\\u000c\\u000d\\u001f\\u007f\"",
	    "\"\\b\\t\\n\\f\\r\\u001f\x7f\"");
}

static void
keys_are_sorted_by_utf16_units(void **state UNUSED)
{
	/* The example of RFC 8785 3.2.3. */
	assert_canonical("{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\","
			 "\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\","
			 "\"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\","
			 "\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}",
	    "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xc2\x80\":\"Control\","
	    "\"\xc3\xb6\":\"Latin Small Letter O With Diaeresis\",\"\xe2\x82\xac\":\"Euro Sign\","
	    "\"\xf0\x9f\x98\x80\":\"Emoji: Grinning Face\","
	    "\"\xef\xac\xb3\":\"Hebrew Letter Dalet With Dagesh\"}");
}

/* RFC 8785 3.2.2 and 3.2.4: its example, and the bytes that it comes to. */
static const char example[] =
    "{\n  \"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3,"
    " 0.000000000000000000000000001],\n  \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042"
    "\\u0022\\u005c\\\\\\\"\\/\",\n  \"literals\": [null, true, false]\n}";
static const char example_bytes[] =
    "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a"
    "5b3333333333333333332e333333333333332c31652b33302c342e352c302e3030322c31652d3237"
    "5d2c22737472696e67223a22e282ac245c75303030665c6e4127425c225c5c5c5c5c222f227d";

static void
of_the_example_of_rfc_8785_what_has_a_form_here_has_its_bytes(void **state UNUSED)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_BUF struct buf out = BUF(1000), want = BUF(1000);
	struct str whole, string;
	struct jcs j;

	assert_true(enc_unhex(str_z(example_bytes), &want));
	whole = buf_str(&want);
	/* Fractions and null have none: not the whole, and nothing in its place. */
	assert_int_equal(json_parse(str_z(example), "f", &d, NULL), ERR_SYNTAX);
	assert_int_equal(json_parse_numbers(str_z(example), "f", &d, NULL), 0);
	jcs_init(&j, &out);
	assert_int_equal(jcs_value(&j, NULL, json_root(d), NULL), ERR_INVALID);
	assert_int_equal(out.n, 0);
	assert_false(jcs_is_canonical(whole, NULL));
	assert_int_equal(canon_check(whole, NULL), ERR_INVALID);
	/* The string has the bytes that end the RFC's. */
	assert_int_equal(jcs_value(&j, NULL, json_get(json_root(d), "string"), NULL), 0);
	string = str_mem(whole.p + whole.n - 1 - out.n, out.n);
	assert_true(out.n == 26 && str_eq(buf_str(&out), string));
	assert_true(jcs_is_canonical(string, NULL));
	assert_int_equal(canon_check(string, NULL), 0);
}

/* RFC 8785 Appendix B: the texts of doubles, of which whole numbers below 2^53 have a form here. */
static void
numbers_of_rfc_8785_are_one_that_is_whole_or_refused(void **state UNUSED)
{
	static const char *const table[] = {"5e-324", "-5e-324", "1.7976931348623157e+308",
	    "-1.7976931348623157e+308", "9007199254740992", "-9007199254740992",
	    "295147905179352830000", "9.999999999999997e+22", "1e+23", "1.0000000000000001e+23",
	    "999999999999999700000", "999999999999999900000", "1e+21", "9.999999999999997e-7",
	    "0.000001", "333333333.3333332", "333333333.33333325", "333333333.3333333",
	    "333333333.3333334", "333333333.33333343", "-0.0000033333333333333333",
	    "1424953923781206.2", "-0"};
	static const char *const none[] = {"NaN", "Infinity", "-Infinity"};
	static const char *const whole[] = {"0", "9007199254740991", "-9007199254740991", "-1"};

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		AUTO(json) struct json_doc *d = NULL;
		AUTO_BUF struct buf out = BUF(100);
		struct str text = str_z(table[i]);
		struct jcs j;

		assert_true(json_parse(text, "f", &d, NULL) < 0 && d == NULL);
		assert_int_equal(canon_check(text, NULL), ERR_INVALID);
		assert_false(jcs_is_canonical(text, NULL));
		assert_int_equal(json_parse_numbers(text, "f", &d, NULL), 0);
		assert_int_equal(json_type(json_root(d)), JSON_NUMBER);
		jcs_init(&j, &out);
		assert_int_equal(jcs_value(&j, NULL, json_root(d), NULL), ERR_INVALID);
		assert_int_equal(out.n, 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		struct json_doc *d = NULL;

		assert_int_equal(json_parse(str_z(none[i]), "f", &d, NULL), ERR_SYNTAX);
		assert_int_equal(json_parse_numbers(str_z(none[i]), "f", &d, NULL), ERR_SYNTAX);
		assert_int_equal(canon_check(str_z(none[i]), NULL), ERR_INVALID);
	}
	for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
		assert_canonical(whole[i], whole[i]);
		assert_int_equal(canon_check(str_z(whole[i]), NULL), 0);
	}
}

static void
keys_that_need_escapes_are_sorted_by_what_they_mean(void **state UNUSED)
{
	assert_canonical(
	    "{\"a\\\\\":1,\"a\\\"\":2,\"a!\":3,\"a]\":4,\"a\\u0001\":5,\"a\":6,\"\":7}",
	    "{\"\":7,\"a\":6,\"a\\u0001\":5,\"a!\":3,\"a\\\"\":2,\"a\\\\\":1,\"a]\":4}");
}

static void
null_is_refused_and_nothing_is_written(void **state UNUSED)
{
	int r;
	AUTO_FREE char *got = canonical("{\"a\":[1,null]}", &r);

	assert_int_equal(r, ERR_INVALID);
	assert_string_equal(got, "");
	assert_canonical("{\"a\":[1,false]}", "{\"a\":[1,false]}");
}

static void
depth_beyond_16_is_refused_counting_what_is_open(void **state UNUSED)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_BUF struct buf out = BUF(1000);
	struct jcs j;
	int r;
	AUTO_FREE char *got = canonical("[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", &r);

	assert_int_equal(r, ERR_TOO_COMPLEX);
	assert_string_equal(got, "");
	assert_canonical("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]");
	assert_int_equal(json_parse(STR("[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"), "f", &d, NULL), 0);
	jcs_init(&j, &out);
	jcs_array(&j, NULL);
	assert_int_equal(jcs_value(&j, NULL, json_root(d), NULL), ERR_TOO_COMPLEX);
	jcs_array_end(&j);
	assert_true(str_eqz(buf_str(&out), "[]"));
}

static void
canonical_text_is_recognised(void **state UNUSED)
{
	static const char *const good[] = {
	    "{}", "{\"a\":1,\"b\":[true,\"\\n\"]}", "\"\xc3\xa9\"", "0"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(jcs_is_canonical(str_z(good[i]), NULL));
}

static void
the_same_value_in_any_other_spelling_is_not_canonical(void **state UNUSED)
{
	static const char *const bad[] = {"{ }", "{}\n", "{\"b\":1,\"a\":2}", "\"\\u000a\"",
	    "\"\\u00e9\"", "\"\\/\"", "\"\\u001F\"", "1.0", "null", "[null]", "{\"a\":1,\"a\":1}",
	    ""};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = {0};

		assert_false(jcs_is_canonical(str_z(bad[i]), &e));
		assert_true(e.code < 0 && e.msg[0] != '\0');
	}
}

static void
lossy_text_replaces_what_could_not_be_read_back(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(1000);
	AUTO(json) struct json_doc *d = NULL;
	struct jcs j;

	jcs_init(&j, &out);
	jcs_str_lossy(&j, NULL, str_mem("a\xff\0\xc3\xa9\xe2\x82z\n", 9));
	assert_true(str_eqz(
	    buf_str(&out), "\"a\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbdz\\n\""));
	assert_int_equal(json_parse(buf_str(&out), "f", &d, NULL), 0);
	buf_reset(&out);
	jcs_init(&j, &out);
	jcs_str_lossy(&j, NULL, STR("a\xc3\xa9"));
	assert_true(str_eqz(buf_str(&out), "\"a\xc3\xa9\""));
}

static void
a_record_over_its_maximum_sets_the_flag_at_any_byte(void **state UNUSED)
{
	for (size_t max = 0; max < 40; max++) {
		AUTO_BUF struct buf out = BUF(max);
		struct jcs j;

		jcs_init(&j, &out);
		jcs_open(&j, NULL);
		jcs_z(&j, "a", "line\n");
		jcs_array(&j, "b");
		jcs_int(&j, NULL, 12);
		jcs_int(&j, NULL, 12);
		jcs_array_end(&j);
		jcs_key(&j, STR("c"));
		jcs_bool(&j, NULL, false);
		jcs_close(&j);
		assert_int_equal(buf_over(&out), max < 36);
	}
}

/* --- misuse is our own bug ------------------------------------------------------------ */

static int
dies(void (*fn)(struct jcs *j))
{
	AUTO_BUF struct buf out = BUF(1000);
	struct jcs j;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit none = {0, 0};

		(void)setrlimit(RLIMIT_CORE, &none);
		(void)signal(SIGABRT, SIG_DFL);
		(void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		jcs_init(&j, &out);
		fn(&j);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void
key_below(struct jcs *j)
{
	jcs_open(j, NULL);
	jcs_z(j, "b", "");
	jcs_z(j, "a", "");
}

static void
key_twice(struct jcs *j)
{
	jcs_open(j, NULL);
	jcs_z(j, "a", "");
	jcs_z(j, "a", "");
}

static void
key_above(struct jcs *j)
{
	jcs_open(j, NULL);
	jcs_z(j, "a", "");
	jcs_z(j, "aa", "");
}

static void
key_order_starts_anew_in_each_object(struct jcs *j)
{
	jcs_open(j, NULL);
	jcs_open(j, "m");
	jcs_z(j, "z", "");
	jcs_close(j);
	jcs_z(j, "n", "");
}

static void
int_too_big(struct jcs *j)
{
	jcs_int(j, NULL, INT64_C(9007199254740992));
}

static void
int_biggest(struct jcs *j)
{
	jcs_int(j, NULL, INT64_C(-9007199254740991));
}

static void
bad_utf8(struct jcs *j)
{
	jcs_str(j, NULL, STR("\xff"));
}

static void
nul_inside(struct jcs *j)
{
	jcs_str(j, NULL, str_mem("\0", 1));
}

static void
no_key(struct jcs *j)
{
	jcs_open(j, NULL);
	jcs_z(j, NULL, "x");
}

static void
key_in_array(struct jcs *j)
{
	jcs_array(j, NULL);
	jcs_z(j, "k", "x");
}

static void
two_at_the_top(struct jcs *j)
{
	jcs_int(j, NULL, 1);
	jcs_int(j, NULL, 2);
}

static void
wrong_close(struct jcs *j)
{
	jcs_array(j, NULL);
	jcs_close(j);
}

static void
key_without_value(struct jcs *j)
{
	jcs_open(j, NULL);
	jcs_key(j, STR("a"));
	jcs_close(j);
}

static void
empty_raw(struct jcs *j)
{
	jcs_raw(j, NULL, STR(""));
}

static void
a_caller_that_breaks_the_order_ends_the_process(void **state UNUSED)
{
	assert_true(dies(key_below));
	assert_true(dies(key_twice));
	assert_false(dies(key_above));
	assert_false(dies(key_order_starts_anew_in_each_object));
}

static void
a_caller_that_passes_what_has_no_form_ends_the_process(void **state UNUSED)
{
	assert_true(dies(int_too_big));
	assert_false(dies(int_biggest));
	assert_true(dies(bad_utf8));
	assert_true(dies(nul_inside));
	assert_true(dies(empty_raw));
}

static void
a_caller_that_breaks_the_structure_ends_the_process(void **state UNUSED)
{
	assert_true(dies(no_key));
	assert_true(dies(key_in_array));
	assert_true(dies(two_at_the_top));
	assert_true(dies(wrong_close));
	assert_true(dies(key_without_value));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_record_is_emitted_without_spaces),
	    cmocka_unit_test(strings_are_escaped_as_rfc_8785_has_it),
	    cmocka_unit_test(keys_are_sorted_by_utf16_units),
	    cmocka_unit_test(of_the_example_of_rfc_8785_what_has_a_form_here_has_its_bytes),
	    cmocka_unit_test(numbers_of_rfc_8785_are_one_that_is_whole_or_refused),
	    cmocka_unit_test(keys_that_need_escapes_are_sorted_by_what_they_mean),
	    cmocka_unit_test(null_is_refused_and_nothing_is_written),
	    cmocka_unit_test(depth_beyond_16_is_refused_counting_what_is_open),
	    cmocka_unit_test(canonical_text_is_recognised),
	    cmocka_unit_test(the_same_value_in_any_other_spelling_is_not_canonical),
	    cmocka_unit_test(lossy_text_replaces_what_could_not_be_read_back),
	    cmocka_unit_test(a_record_over_its_maximum_sets_the_flag_at_any_byte),
	    cmocka_unit_test(a_caller_that_breaks_the_order_ends_the_process),
	    cmocka_unit_test(a_caller_that_passes_what_has_no_form_ends_the_process),
	    cmocka_unit_test(a_caller_that_breaks_the_structure_ends_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
