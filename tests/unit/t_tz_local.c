/*
 * Unit tests of tz_local: from a wall clock reading to instants, through gaps, repeats and
 * the ends of the integer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/tz.h"

#include "common/banned.h"

static struct tz *
zone(const char *name)
{
	struct tz *z = NULL;
	struct err e = {0};

	if (tz_load(NULL, str_z(name), &z, &e) != 0)
		fail_msg("%s", e.msg);
	return z;
}

static int64_t
at(const char *text)
{
	int64_t us = 0;

	assert_int_equal(clock_parse(str_z(text), &us, NULL), 0);
	return us / 1000000;
}

static void
assert_local(const char *name, const char *local, int want, const char *first, const char *second)
{
	AUTO(tz) struct tz *z = zone(name);
	int64_t out[2] = {-1, -1};
	int n = tz_local(z, at(local), out);

	if (n != want || out[0] != at(first) || (second != NULL && out[1] != at(second)))
		fail_msg(
		    "%s %s: %d, %lld, %lld", name, local, n, (long long)out[0], (long long)out[1]);
	for (int i = 0; i < n; i++)
		assert_true(out[i] + tz_offset(z, out[i]) == at(local));
}

static void
an_ordinary_wall_clock_reading_is_one_instant(void **state UNUSED)
{
	assert_local("Europe/Berlin", "2026-07-01T12:00:00Z", 1, "2026-07-01T10:00:00Z", NULL);
	assert_local("Europe/Berlin", "2026-01-01T00:00:00Z", 1, "2025-12-31T23:00:00Z", NULL);
	assert_local("Asia/Kathmandu", "2026-01-01T00:00:00Z", 1, "2025-12-31T18:15:00Z", NULL);
	assert_local("Europe/London", "2080-07-01T12:00:00Z", 1, "2080-07-01T11:00:00Z", NULL);
	assert_local("Etc/UTC", "2026-01-01T00:00:00Z", 1, "2026-01-01T00:00:00Z", NULL);
}

static void
a_reading_in_a_gap_is_no_instant_and_tells_both_sides(void **state UNUSED)
{
	assert_local("Europe/Berlin", "2026-03-29T02:30:00Z", 0, "2026-03-29T00:30:00Z",
	    "2026-03-29T01:30:00Z");
	assert_local("Europe/Berlin", "2026-03-29T02:00:00Z", 0, "2026-03-29T00:00:00Z",
	    "2026-03-29T01:00:00Z");
	/* The neighbours of the gap exist. */
	assert_local("Europe/Berlin", "2026-03-29T01:59:59Z", 1, "2026-03-29T00:59:59Z", NULL);
	assert_local("Europe/Berlin", "2026-03-29T03:00:00Z", 1, "2026-03-29T01:00:00Z", NULL);
	assert_local("America/New_York", "2026-03-08T02:30:00Z", 0, "2026-03-08T06:30:00Z",
	    "2026-03-08T07:30:00Z");
	assert_local("America/New_York", "2060-03-14T02:30:00Z", 0, "2060-03-14T06:30:00Z",
	    "2060-03-14T07:30:00Z");
}

static void
a_reading_that_comes_twice_is_two_instants_in_order(void **state UNUSED)
{
	assert_local("Europe/Berlin", "2026-10-25T02:30:00Z", 2, "2026-10-25T00:30:00Z",
	    "2026-10-25T01:30:00Z");
	assert_local("Europe/Berlin", "2026-10-25T02:00:00Z", 2, "2026-10-25T00:00:00Z",
	    "2026-10-25T01:00:00Z");
	assert_local("Europe/Berlin", "2026-10-25T01:59:59Z", 1, "2026-10-24T23:59:59Z", NULL);
	assert_local("Europe/Berlin", "2026-10-25T03:00:00Z", 1, "2026-10-25T02:00:00Z", NULL);
	assert_local("America/New_York", "2026-11-01T01:30:00Z", 2, "2026-11-01T05:30:00Z",
	    "2026-11-01T06:30:00Z");
	assert_local("America/New_York", "2060-11-07T01:30:00Z", 2, "2060-11-07T05:30:00Z",
	    "2060-11-07T06:30:00Z");
}

static void
a_day_in_cairo_may_begin_at_one(void **state UNUSED)
{
	assert_local("Africa/Cairo", "2025-04-25T00:00:00Z", 0, "2025-04-24T21:00:00Z",
	    "2025-04-24T22:00:00Z");
	assert_local("Africa/Cairo", "2025-04-24T23:59:59Z", 1, "2025-04-24T21:59:59Z", NULL);
	assert_local("Africa/Cairo", "2025-04-25T01:00:00Z", 1, "2025-04-24T22:00:00Z", NULL);
}

static void
lord_howe_changes_by_half_an_hour(void **state UNUSED)
{
	assert_local("Australia/Lord_Howe", "2026-10-04T02:15:00Z", 0, "2026-10-03T15:15:00Z",
	    "2026-10-03T15:45:00Z");
	assert_local(
	    "Australia/Lord_Howe", "2026-10-04T02:30:00Z", 1, "2026-10-03T15:30:00Z", NULL);
	assert_local("Australia/Lord_Howe", "2026-04-05T01:45:00Z", 2, "2026-04-04T14:45:00Z",
	    "2026-04-04T15:15:00Z");
	assert_local(
	    "Australia/Lord_Howe", "2026-04-05T01:15:00Z", 1, "2026-04-04T14:15:00Z", NULL);
}

static void
apia_skipped_a_whole_day(void **state UNUSED)
{
	assert_local("Pacific/Apia", "2011-12-30T12:00:00Z", 0, "2011-12-29T22:00:00Z",
	    "2011-12-30T22:00:00Z");
	assert_local("Pacific/Apia", "2011-12-29T23:59:59Z", 1, "2011-12-30T09:59:59Z", NULL);
	assert_local("Pacific/Apia", "2011-12-31T00:00:00Z", 1, "2011-12-30T10:00:00Z", NULL);
}

static void
dublin_counts_its_winter_as_the_exception(void **state UNUSED)
{
	assert_local("Europe/Dublin", "2050-03-27T01:30:00Z", 0, "2050-03-27T00:30:00Z",
	    "2050-03-27T01:30:00Z");
	assert_local("Europe/Dublin", "2050-07-01T12:00:00Z", 1, "2050-07-01T11:00:00Z", NULL);
}

static void
times_at_the_ends_of_the_integer_do_not_overflow(void **state UNUSED)
{
	static const char *const names[] = {"Europe/Berlin", "Africa/Casablanca", "Asia/Tokyo"};
	static const int64_t t[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1,
	    -(INT64_C(1) << 59), INT64_C(1) << 59};

	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		AUTO(tz) struct tz *z = zone(names[k]);

		for (size_t i = 0; i < ARRAY_LEN(t); i++) {
			int64_t out[2];
			int32_t off = tz_offset(z, t[i]);

			assert_in_range(off + 90000, 0, 183600);
			assert_in_range(tz_local(z, t[i], out), 0, 2);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_ordinary_wall_clock_reading_is_one_instant),
	    cmocka_unit_test(a_reading_in_a_gap_is_no_instant_and_tells_both_sides),
	    cmocka_unit_test(a_reading_that_comes_twice_is_two_instants_in_order),
	    cmocka_unit_test(a_day_in_cairo_may_begin_at_one),
	    cmocka_unit_test(lord_howe_changes_by_half_an_hour),
	    cmocka_unit_test(apia_skipped_a_whole_day),
	    cmocka_unit_test(dublin_counts_its_winter_as_the_exception),
	    cmocka_unit_test(times_at_the_ends_of_the_integer_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
