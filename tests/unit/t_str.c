/*
 * Unit tests of common/str: counted strings, numbers, UTF-8, globs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"

#include "common/banned.h"

static void
comparison_does_not_stop_at_nul(void **state UNUSED)
{
	assert_false(str_eq(str_mem("a\0b", 3), str_mem("a\0c", 3)));
	assert_true(str_eq(str_mem("a\0b", 3), str_mem("a\0b", 3)));
	assert_false(str_eqz(str_mem("a\0", 2), "a"));
	assert_true(str_cmp(str_mem("a\0b", 3), STR("a")) > 0);
}

static void
the_empty_string_equals_itself_however_it_was_made(void **state UNUSED)
{
	assert_true(str_eq(STR_NONE, STR("")));
	assert_true(str_eqz(STR_NONE, ""));
	assert_true(str_eq(str_z(NULL), STR("")));
	assert_int_equal(str_cmp(STR_NONE, STR("")), 0);
}

static void
case_is_folded_for_ascii_only(void **state UNUSED)
{
	assert_true(str_ieqz(STR("Content-LENGTH"), "content-length"));
	assert_false(str_ieqz(STR("a{"), "a["));
	assert_false(str_ieqz(STR("\xc3\x84"), "\xc3\xa4"));
	assert_false(str_ieqz(STR("ab"), "abc"));
	assert_true(str_ieq(STR("aB"), STR("Ab")));
	assert_true(str_ieq(STR(""), STR_NONE));
	assert_false(str_ieq(STR("ab"), STR("ac")));
}

static void
prefix_and_suffix_need_their_whole_length(void **state UNUSED)
{
	assert_true(str_has_prefix(STR("abc"), "ab"));
	assert_false(str_has_prefix(STR("a"), "ab"));
	assert_true(str_has_suffix(STR("abc"), "bc"));
	assert_false(str_has_suffix(STR("c"), "bc"));
	assert_true(str_has_suffix(STR("abc"), ""));
}

static void
strings_sort_as_bytes_then_by_length(void **state UNUSED)
{
	assert_true(str_cmp(STR("a"), STR("b")) < 0);
	assert_true(str_cmp(STR("a"), STR("aa")) < 0);
	assert_true(str_cmp(STR("\xc3\xa9"), STR("z")) > 0);
}

static void
trimming_takes_ascii_blanks_at_both_ends(void **state UNUSED)
{
	assert_true(str_eqz(str_trim(STR(" \t\r\n a b \n")), "a b"));
	assert_true(str_eqz(str_trim(STR(" \n")), ""));
	/* A no-break space is not ours to take away. */
	assert_true(str_eqz(str_trim(STR("\xc2\xa0x")), "\xc2\xa0x"));
}

static void
cutting_gives_the_head_and_leaves_the_rest(void **state UNUSED)
{
	struct str s = STR("a:b:c"), head = STR_NONE;

	assert_true(str_cut(&s, ':', &head));
	assert_true(str_eqz(head, "a") && str_eqz(s, "b:c"));
	assert_true(str_cut(&s, ':', &head));
	assert_false(str_cut(&s, ':', &head));
	assert_true(str_eqz(head, "b") && str_eqz(s, "c"));
}

static void
plain_decimal_numbers_are_read(void **state UNUSED)
{
	uint64_t v = 7;

	assert_true(str_to_u64(STR("0"), 0, &v) && v == 0);
	assert_true(str_to_u64(STR("18446744073709551615"), UINT64_MAX, &v) && v == UINT64_MAX);
	assert_true(str_to_u64(STR("65535"), 65535, &v) && v == 65535);
}

static void
numbers_in_any_other_spelling_are_refused(void **state UNUSED)
{
	static const char *const bad[] = {"", "00", "01", "-1", "+1", " 1", "1 ", "0x1", "1e3",
	    "1.0", "18446744073709551616", "99999999999999999999", "111111111111111111111"};
	uint64_t v = 7;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(str_to_u64(str_z(bad[i]), UINT64_MAX, &v));
	assert_false(str_to_u64(STR("65536"), 65535, &v));
	assert_int_equal(v, 7);
}

static void
well_formed_utf8_passes_at_each_border(void **state UNUSED)
{
	static const char *const good[] = {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80",
	    "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(str_is_utf8(str_z(good[i])));
	assert_true(str_is_utf8(str_mem("a\0b", 3)));
}

static void
ill_formed_utf8_is_refused_just_beyond_each_border(void **state UNUSED)
{
	static const char *const bad[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2",
	    "\xc2\x7f", "\xc2\xc0", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xef\xbf",
	    "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xf0\x90\x80",
	    "a\xe2\x82"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(str_is_utf8(str_z(bad[i])));
}

static void
printable_ascii_is_from_space_to_tilde(void **state UNUSED)
{
	assert_true(str_is_ascii_print(STR(" ~")));
	assert_false(str_is_ascii_print(STR("\x1f")));
	assert_false(str_is_ascii_print(STR("\x7f")));
	assert_false(str_is_ascii_print(STR("\xc3\xa9")));
}

static void
a_star_stands_for_any_run(void **state UNUSED)
{
	assert_true(str_glob(STR("*"), STR("")));
	assert_true(str_glob(STR("a*c"), STR("ac")));
	assert_true(str_glob(STR("a*b*c"), STR("axxbyyc")));
	assert_true(str_glob(STR("*.example.com"), STR("a.b.example.com")));
	assert_true(str_glob(STR("a**b"), STR("ab")));
	assert_true(str_glob(STR("*ab"), STR("aab")));
}

static void
everything_else_in_a_glob_is_literal(void **state UNUSED)
{
	assert_false(str_glob(STR(""), STR("a")));
	assert_false(str_glob(STR("a?c"), STR("abc")));
	assert_false(str_glob(STR("[ab]"), STR("a")));
	assert_false(str_glob(STR("a*"), STR("ba")));
	assert_false(str_glob(STR("A"), STR("a")));
	assert_false(str_glob(STR("*.example.com"), STR("example.com.evil")));
}

static void
a_hostile_glob_ends_soon(void **state UNUSED)
{
	char text[4096];

	memset(text, 'a', sizeof(text));
	assert_false(
	    str_glob(STR("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"), str_mem(text, sizeof(text))));
}

static void
a_copy_ends_in_nul(void **state UNUSED)
{
	AUTO_FREE char *z = str_dup(str_mem("abcd", 2));
	AUTO_FREE char *e = str_dup(STR_NONE);

	assert_string_equal(z, "ab");
	assert_string_equal(e, "");
}

static void
a_number_of_digits_is_taken_whole_or_not_at_all(void **state UNUSED)
{
	struct str s = STR("2026-1x");
	int v = 7;

	assert_true(str_digits(&s, 4, &v));
	assert_int_equal(v, 2026);
	assert_false(str_digits(&s, 1, &v)); /* "-" */
	assert_true(str_skip(&s, '-'));
	assert_false(str_skip(&s, '-'));
	assert_false(str_digits(&s, 2, &v)); /* "1x" */
	assert_false(str_digits(&s, 3, &v)); /* there are two */
	assert_int_equal(v, 2026);
	assert_true(str_eqz(s, "1x"));
	assert_true(str_digits(&s, 1, &v) && str_skip(&s, 'x'));
	assert_int_equal(v, 1);
	assert_false(str_skip(&s, '\0'));
}

static void
a_text_that_is_refused_is_told_by_its_length_or_its_byte(void **state UNUSED)
{
	struct err e = {0};

	assert_int_equal(str_text_check("a note", STR("~ \x7e"), 1, 3, &e), 0);
	assert_int_equal(str_text_check("a note", STR(""), 0, 3, &e), 0);
	assert_int_equal(str_text_check("a note", STR(""), 1, 3, &e), ERR_INVALID);
	assert_string_equal(e.msg, "a note must have 1 to 3 bytes, has 0");
	assert_int_equal(str_text_check("a note", STR("abcd"), 0, 3, &e), ERR_INVALID);
	assert_string_equal(e.msg, "a note must have 0 to 3 bytes, has 4");
	assert_int_equal(str_text_check("a note", STR("gr\xc3\xbcn"), 1, 9, &e), ERR_INVALID);
	assert_string_equal(e.msg, "a note must be printable ASCII, byte 3 is 0xc3");
	assert_int_equal(str_text_check("a note", STR("a\n"), 1, 9, &e), ERR_INVALID);
	assert_string_equal(e.msg, "a note must be printable ASCII, byte 2 is 0x0a");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(comparison_does_not_stop_at_nul),
	    cmocka_unit_test(the_empty_string_equals_itself_however_it_was_made),
	    cmocka_unit_test(case_is_folded_for_ascii_only),
	    cmocka_unit_test(prefix_and_suffix_need_their_whole_length),
	    cmocka_unit_test(strings_sort_as_bytes_then_by_length),
	    cmocka_unit_test(trimming_takes_ascii_blanks_at_both_ends),
	    cmocka_unit_test(cutting_gives_the_head_and_leaves_the_rest),
	    cmocka_unit_test(plain_decimal_numbers_are_read),
	    cmocka_unit_test(numbers_in_any_other_spelling_are_refused),
	    cmocka_unit_test(well_formed_utf8_passes_at_each_border),
	    cmocka_unit_test(ill_formed_utf8_is_refused_just_beyond_each_border),
	    cmocka_unit_test(printable_ascii_is_from_space_to_tilde),
	    cmocka_unit_test(a_star_stands_for_any_run),
	    cmocka_unit_test(everything_else_in_a_glob_is_literal),
	    cmocka_unit_test(a_hostile_glob_ends_soon),
	    cmocka_unit_test(a_copy_ends_in_nul),
	    cmocka_unit_test(a_number_of_digits_is_taken_whole_or_not_at_all),
	    cmocka_unit_test(a_text_that_is_refused_is_told_by_its_length_or_its_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
