/*
 * Unit tests of common/err. Run as a test program; trusts nothing, touches no file.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"

#include "common/banned.h"

static void
setting_an_error_returns_its_code_and_keeps_the_message(void **state UNUSED)
{
	struct err e = {0};

	assert_int_equal(err_set(&e, ERR_DENIED, "rule %s says no", "freeze"), ERR_DENIED);
	assert_int_equal(e.code, ERR_DENIED);
	assert_string_equal(e.msg, "rule freeze says no");
}

static void
an_error_without_a_place_for_it_still_returns_its_code(void **state UNUSED)
{
	assert_int_equal(err_set(NULL, ERR_TIMEOUT, "late"), ERR_TIMEOUT);
	assert_int_equal(err_sys(NULL, ERR_SYSTEM, ENOENT, "open"), ERR_SYSTEM);
	err_clear(NULL);
}

static void
a_long_message_is_cut_and_ends_in_nul(void **state UNUSED)
{
	struct err e = {0};
	char big[ERR_MSG_MAX * 2];

	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	(void)err_set(&e, ERR_INVALID, "%s", big);
	assert_int_equal(strlen(e.msg), ERR_MSG_MAX - 1);
	(void)err_wrap(&e, "%s", big);
	assert_int_equal(strlen(e.msg), ERR_MSG_MAX - 1);
	(void)err_sys(&e, ERR_SYSTEM, ENOENT, "%s", big);
	assert_int_equal(strlen(e.msg), ERR_MSG_MAX - 1);
}

static void
a_system_error_names_its_cause(void **state UNUSED)
{
	struct err e = {0};

	assert_int_equal(err_sys(&e, ERR_SYSTEM, EMFILE, "open %s", "x"), ERR_SYSTEM);
	assert_non_null(strstr(e.msg, "ulimit -n"));
	assert_int_equal(err_sys(&e, ERR_SYSTEM, ENOENT, "open %s", "x"), ERR_SYSTEM);
	assert_string_equal(e.msg, "open x: No such file or directory");
}

static void
wrapping_puts_the_outer_thing_first_and_keeps_the_code(void **state UNUSED)
{
	struct err e = {0};

	(void)err_set(&e, ERR_SYNTAX, "1:2: oops");
	assert_int_equal(err_wrap(&e, "policy.json"), ERR_SYNTAX);
	assert_string_equal(e.msg, "policy.json: 1:2: oops");
	err_clear(&e);
	assert_int_equal(e.code, 0);
	assert_string_equal(e.msg, "");
}

static void
the_table_answers_for_each_code(void **state UNUSED)
{
	assert_string_equal(err_name(ERR_NEEDS_APPROVAL), "ERR_NEEDS_APPROVAL");
	assert_int_equal(err_http(ERR_NEEDS_APPROVAL), 403);
	assert_string_equal(err_sqlstate(ERR_NEEDS_APPROVAL), "42501");
	assert_string_equal(err_text(ERR_TAMPER), "tampering found");
}

static void
an_unknown_code_counts_as_an_internal_error(void **state UNUSED)
{
	assert_string_equal(err_name(-9999), "ERR_INTERNAL");
	assert_string_equal(err_name(0), "ERR_INTERNAL");
	assert_int_equal(err_http(17), 500);
}

static void
numbers_and_names_are_given_once(void **state UNUSED)
{
	static const struct {
		int num;
		const char *name;
	} t[] = {
#define X(n, num, h, s, x) {(num), #n},
#include "common/err.tbl"
#undef X
	};

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		assert_true(t[i].num < 0);
		assert_string_equal(err_name(t[i].num), t[i].name);
		assert_int_equal(strlen(err_sqlstate(t[i].num)), 5);
		assert_in_range((unsigned)err_http(t[i].num), 400, 599);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(setting_an_error_returns_its_code_and_keeps_the_message),
	    cmocka_unit_test(an_error_without_a_place_for_it_still_returns_its_code),
	    cmocka_unit_test(a_long_message_is_cut_and_ends_in_nul),
	    cmocka_unit_test(a_system_error_names_its_cause),
	    cmocka_unit_test(wrapping_puts_the_outer_thing_first_and_keeps_the_code),
	    cmocka_unit_test(the_table_answers_for_each_code),
	    cmocka_unit_test(an_unknown_code_counts_as_an_internal_error),
	    cmocka_unit_test(numbers_and_names_are_given_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
