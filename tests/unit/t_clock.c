/*
 * Unit tests of common/clock: text forms, the calendar (against glibc), trust in the clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "common/clock.h"

#include "common/banned.h"

static void
assert_time(const char *text, int64_t want)
{
	struct err e = {0};
	int64_t got = -1;

	if (clock_parse(str_z(text), &got, &e) != 0)
		fail_msg("%s: %s", text, e.msg);
	assert_true(got == want);
}

static void
times_are_read_with_no_to_six_decimals(void **state UNUSED)
{
	assert_time("1970-01-01T00:00:00Z", 0);
	assert_time("2026-03-11T12:00:05Z", INT64_C(1773230405000000));
	assert_time("2026-03-11T12:00:05.5Z", INT64_C(1773230405500000));
	assert_time("2026-03-11T12:00:05.000001Z", INT64_C(1773230405000001));
	assert_time("1969-12-31T23:59:59.999999Z", -1);
	assert_time("0000-01-01T00:00:00Z", INT64_C(-62167219200000000));
	assert_time("9999-12-31T23:59:59.999999Z", INT64_C(253402300799999999));
	assert_time("2024-02-29T00:00:00Z", INT64_C(1709164800000000));
	assert_time("2000-02-29T23:59:59Z", INT64_C(951868799000000));
}

static void
times_that_do_not_exist_are_refused_by_name(void **state UNUSED)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
	    {"2026-02-30T00:00:00Z", "day must be from 1 to 28 in 2026-02, is 30"},
	    {"2026-02-29T00:00:00Z", "day must be from 1 to 28 in 2026-02, is 29"},
	    {"1900-02-29T00:00:00Z", "day must be from 1 to 28 in 1900-02, is 29"},
	    {"2026-04-31T00:00:00Z", "day must be from 1 to 30 in 2026-04, is 31"},
	    {"2026-01-00T00:00:00Z", "day must be from 1 to 31 in 2026-01, is 0"},
	    {"2026-13-01T00:00:00Z", "month must be from 1 to 12, is 13"},
	    {"2026-00-01T00:00:00Z", "month must be from 1 to 12, is 0"},
	    {"2026-01-01T24:00:00Z", "time of day must be from 00:00:00 to 23:59:59, is 24:00:00"},
	    {"2026-01-01T00:60:00Z", "time of day must be from 00:00:00 to 23:59:59, is 00:60:00"},
	    {"2026-12-31T23:59:60Z", "time of day must be from 00:00:00 to 23:59:59, is 23:59:60"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = {0};
		int64_t t = 42;

		assert_int_equal(clock_parse(str_z(bad[i].text), &t, &e), ERR_INVALID);
		assert_string_equal(e.msg, bad[i].says);
		assert_int_equal(t, 42);
	}
}

static void
times_in_any_other_spelling_are_refused(void **state UNUSED)
{
	static const char *const bad[] = {"", "Z", "2026-03-11", "2026-03-11T12:00:05",
	    "2026-03-11T12:00:05z", "2026-03-11t12:00:05Z", "2026-03-11 12:00:05Z",
	    "2026-03-11T12:00Z", "2026-03-11T12:00:05+00:00", "2026-03-11T12:00:05.Z",
	    "2026-03-11T12:00:05.1234567Z", "2026-03-11T12:00:05,5Z", "2026-3-11T12:00:05Z",
	    "+2026-03-11T12:00:05Z", "-026-03-11T12:00:05Z", "20260311T120005Z",
	    " 2026-03-11T12:00:05Z", "2026-03-11T12:00:05Z ", "2026-03-11T12:00:05ZZ",
	    "2026-03-11T12:00:05.5.5Z", "2026-03-11T12:00:0\x35\n"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(clock_parse(str_z(bad[i]), &(int64_t){0}, NULL), ERR_INVALID);
}

static void
a_formatted_time_reads_back_as_itself(void **state UNUSED)
{
	static const int64_t t[] = {0, -1, 1, INT64_C(1773230405000001),
	    INT64_C(-62167219200000000), INT64_C(253402300799999999), INT64_C(951868799999999)};
	char z[CLOCK_TEXT_SIZE];

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		clock_format(t[i], z);
		assert_int_equal(strlen(z), CLOCK_TEXT_SIZE - 1);
		assert_time(z, t[i]);
	}
	clock_format(INT64_C(1795962673000000), z);
	assert_string_equal(z, "2026-11-29T14:31:13.000000Z");
}

static void
whole_seconds_round_down_also_before_1970(void **state UNUSED)
{
	char z[CLOCK_TEXT_SIZE];

	clock_format_s(999999, z);
	assert_string_equal(z, "1970-01-01T00:00:00Z");
	clock_format_s(-1, z);
	assert_string_equal(z, "1969-12-31T23:59:59Z");
}

static void
times_beyond_year_9999_are_clamped(void **state UNUSED)
{
	char z[CLOCK_TEXT_SIZE];

	clock_format(INT64_MAX, z);
	assert_string_equal(z, "9999-12-31T23:59:59.999999Z");
	clock_format(INT64_MIN, z);
	assert_string_equal(z, "0000-01-01T00:00:00.000000Z");
}

static void
the_calendar_agrees_with_glibc(void **state UNUSED)
{
	/* Every day from 1600 to 2400: a whole cycle of the Gregorian calendar and more. */
	for (int64_t d = -135140; d < 157054; d++) {
		time_t t = (time_t)d * 86400;
		struct tm tm;
		int y, m, day;

		clock_civil(d, &y, &m, &day);
		assert_non_null(gmtime_r(&t, &tm));
		if (y != tm.tm_year + 1900 || m != tm.tm_mon + 1 || day != tm.tm_mday)
			fail_msg("day %lld is %d-%d-%d", (long long)d, y, m, day);
		if (clock_days(y, m, day) != d || day > clock_month_days(y, m))
			fail_msg("%d-%d-%d is not day %lld", y, m, day, (long long)d);
	}
}

static void
a_month_that_does_not_exist_has_no_days(void **state UNUSED)
{
	assert_int_equal(clock_month_days(2026, 0), 0);
	assert_int_equal(clock_month_days(2026, 13), 0);
	assert_int_equal(clock_month_days(2100, 2), 28);
	assert_int_equal(clock_month_days(2000, 2), 29);
}

static void
a_trusted_clock_is_known_until_it_runs_backwards(void **state UNUSED)
{
	int64_t now = clock_wall_us();
	struct instant i = clock_now(CLOCK_MODE_TRUSTED, now);

	assert_true(i.known && i.us >= now);
	i = clock_now(CLOCK_MODE_TRUSTED, now + INT64_C(3600000000));
	assert_false(i.known);
	assert_true(i.us >= now);
}

static void
a_clock_that_waits_for_the_kernel_is_never_known_in_the_past(void **state UNUSED)
{
	/* Whether this machine is synchronised is not ours to say; the other half is. */
	assert_false(clock_now(CLOCK_MODE_KERNEL_SYNC, INT64_MAX).known);
	assert_int_equal(CLOCK_MODE_KERNEL_SYNC, 0); /* the zero value is the strict one */
}

static void
the_boot_clock_does_not_run_backwards(void **state UNUSED)
{
	uint64_t a = clock_boot_us(), b = clock_boot_us();

	assert_true(a != 0 && b >= a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(times_are_read_with_no_to_six_decimals),
	    cmocka_unit_test(times_that_do_not_exist_are_refused_by_name),
	    cmocka_unit_test(times_in_any_other_spelling_are_refused),
	    cmocka_unit_test(a_formatted_time_reads_back_as_itself),
	    cmocka_unit_test(whole_seconds_round_down_also_before_1970),
	    cmocka_unit_test(times_beyond_year_9999_are_clamped),
	    cmocka_unit_test(the_calendar_agrees_with_glibc),
	    cmocka_unit_test(a_month_that_does_not_exist_has_no_days),
	    cmocka_unit_test(a_trusted_clock_is_known_until_it_runs_backwards),
	    cmocka_unit_test(a_clock_that_waits_for_the_kernel_is_never_known_in_the_past),
	    cmocka_unit_test(the_boot_clock_does_not_run_backwards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
