/* Calendars: wall clock and zone to instants, at clock changes, at edges, beyond the horizon. */
#include "tests/unit/policy_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/xalloc.h"
#include "policy/calendar.h"

#include "common/banned.h"

#define PRE                                                                 \
	"{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1," \
	"\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\"}},\"calendars\":{\"c\":"
#define POST(rules) "},\"rules\":[" rules "]}"
#define PERMIT "{\"id\":\"p\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\"]}}}"
#define FORBID_DURING                                                                         \
	PERMIT                                                                                \
	",{\"id\":\"f\",\"forbid\":{\"during\":[\"c\"],\"effects\":{\"any\":[\"@change\"]}}," \
	"\"override\":\"never\"}"

static struct policy *
calendar_policy(const char *calendar)
{
	AUTO_FREE char *text = xasprintf(PRE "%s" POST(FORBID_DURING), calendar);

	return help_policy(text);
}

/* All windows as "from/to from/to", times without their Z. */
static void
assert_windows(const char *calendar, const char *want)
{
	AUTO(policy) struct policy *p = calendar_policy(calendar);
	AUTO_BUF struct buf got = BUF(65536);
	AUTO_FREE char *text = NULL;

	for (size_t i = 0; i < policy_calendar_at(p, 0).nintervals; i++) {
		char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];
		int64_t f, t;

		policy_calendar_interval(p, 0, i, &f, &t);
		clock_format_s(f * 1000000, from);
		clock_format_s(t * 1000000, to);
		buf_printf(&got, "%s%.19s/%.19s", i != 0 ? " " : "", from, to);
	}
	text = buf_dup_z(&got);
	assert_string_equal(text, want);
}

static void
assert_refused(const char *calendar, const char *why)
{
	AUTO_FREE char *text = xasprintf(PRE "%s" POST(FORBID_DURING), calendar);
	struct policy *p = NULL;
	struct err err = {0};

	assert_int_not_equal(policy_parse(str_z(text), "p.json", NULL, NULL, &p, NULL, &err), 0);
	assert_null(p);
	if (strstr(err.msg, why) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err.msg, why);
	assert_memory_equal(err.msg, "p.json:1:", 9);
}

static enum verdict
write_at(const struct policy *p, const char *at, bool known, struct decision *d)
{
	struct policy_input in = policy_input_for(p, STR("db"));
	struct err err = {0};

	in.effects = EFFECT_write;
	in.at.known = known;
	if (clock_parse(str_z(at), &in.at.us, &err) != 0)
		fail_msg("%s", err.msg);
	policy_eval(p, &in, NULL, 0, d);
	return d->verdict;
}

static void
assert_write(const struct policy *p, const char *at, enum verdict want)
{
	struct decision d;

	if (write_at(p, at, true, &d) != want)
		fail_msg("at %s: %s", at, d.text);
}

#define VALID_26 "\"valid\":[\"2026-03-20\",\"2026-04-05\"]"

static void
a_window_holds_its_first_instant_and_not_its_last(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = calendar_policy(
	    "{\"kind\":\"freeze\",\"tz\":\"Europe/"
	    "London\",\"once\":[{\"from\":\"2026-12-18T18:00\","
	    "\"to\":\"2027-01-04T08:00\"}],\"valid\":[\"2026-01-01\",\"2027-12-31\"]}");

	assert_write(p, "2026-12-18T17:59:59.999999Z", VERDICT_ALLOW);
	assert_write(p, "2026-12-18T18:00:00Z", VERDICT_DENY);
	assert_write(p, "2027-01-04T07:59:59.999999Z", VERDICT_DENY);
	assert_write(p, "2027-01-04T08:00:00Z", VERDICT_ALLOW);
}

static void
beyond_valid_and_without_a_clock_it_counts_as_frozen(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = calendar_policy(
	    "{\"kind\":\"freeze\",\"tz\":\"UTC\",\"once\":[{\"from\":\"2026-06-01T00:00\","
	    "\"to\":\"2026-06-02T00:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]}");
	struct decision d;

	assert_write(p, "2025-12-31T23:59:59Z", VERDICT_DENY);
	assert_write(p, "2026-01-01T00:00:00Z", VERDICT_ALLOW);
	assert_write(p, "2026-12-31T23:59:59Z", VERDICT_ALLOW);
	assert_write(p, "2027-01-01T00:00:00Z", VERDICT_DENY);
	assert_int_equal(write_at(p, "2026-03-01T00:00:00Z", false, &d), VERDICT_DENY);
	assert_true(d.calendar_unknown);
	assert_true(d.until_us == 0);
	assert_int_equal(write_at(p, "2026-03-01T00:00:00Z", true, &d), VERDICT_ALLOW);
}

static void
seconds_and_utc_may_be_given(void **state UNUSED)
{
	assert_windows("{\"kind\":\"freeze\",\"tz\":\"Europe/Berlin\",\"once\":["
		       "{\"from\":\"2026-03-21T10:00:30\",\"to\":\"2026-03-21T10:00:31\"},"
		       "{\"from\":\"2026-03-22T10:00:30Z\",\"for\":\"90s\"}]," VALID_26 "}",
	    "2026-03-21T09:00:30/2026-03-21T09:00:31 2026-03-22T10:00:30/2026-03-22T10:02:00");
}

static void
windows_that_touch_or_overlap_are_one(void **state UNUSED)
{
	assert_windows("{\"kind\":\"freeze\",\"tz\":\"UTC\",\"once\":["
		       "{\"from\":\"2026-03-22T12:00\",\"to\":\"2026-03-22T13:00\"},"
		       "{\"from\":\"2026-03-22T10:00\",\"to\":\"2026-03-22T12:00\"},"
		       "{\"from\":\"2026-03-22T10:30\",\"to\":\"2026-03-22T11:00\"},"
		       "{\"from\":\"2026-03-22T13:00:01\",\"to\":\"2026-03-22T14:00\"}]," VALID_26
		       "}",
	    "2026-03-22T10:00:00/2026-03-22T13:00:00 2026-03-22T13:00:01/2026-03-22T14:00:00");
}

#define DAILY(kind, tz, window, from, to)                               \
	"{\"kind\":\"" kind "\",\"tz\":\"" tz "\",\"weekly\":[{" window \
	",\"days\":\"daily\"}],\"valid\":[\"" from "\",\"" to "\"]}"
#define AT_0230 "\"from\":\"02:30\",\"for\":\"1h\""

/* FRZ-03: the start does not exist; early reading 00:30Z, the late one plus the hour is 02:30Z. */
static void
a_freeze_whose_start_is_skipped_begins_at_the_early_reading(void **state UNUSED)
{
	assert_windows(DAILY("freeze", "Europe/Berlin", AT_0230, "2026-03-29", "2026-03-30"),
	    "2026-03-29T00:30:00/2026-03-29T02:30:00");
	assert_windows(DAILY("freeze", "America/New_York", AT_0230, "2026-03-08", "2026-03-09"),
	    "2026-03-08T06:30:00/2026-03-08T08:30:00");
}

/* FRZ-03: 02:30 comes twice, the freeze covers the hour after both. */
static void
a_freeze_whose_start_comes_twice_covers_both_passes(void **state UNUSED)
{
	assert_windows(DAILY("freeze", "Europe/Berlin", AT_0230, "2026-10-25", "2026-10-26"),
	    "2026-10-25T00:30:00/2026-10-25T02:30:00");
}

/* FRZ-03: midnight itself is skipped; the day before valid's first is cut off. */
static void
a_freeze_at_a_midnight_that_is_skipped_is_not_a_day_late(void **state UNUSED)
{
	assert_windows(DAILY("freeze", "Africa/Cairo", "\"from\":\"00:00\",\"for\":\"2h\"",
			   "2025-04-24", "2025-04-26"),
	    "2025-04-23T22:00:00/2025-04-24T00:00:00 2025-04-24T21:00:00/2025-04-25T00:00:00");
}

/* FRZ-03: both Berlin days by wall-clock end. */
static void
a_freeze_by_wall_clock_is_as_long_as_the_day_makes_it(void **state UNUSED)
{
#define AT_0100 "\"from\":\"01:00\",\"to\":\"03:00\""
	assert_windows(DAILY("freeze", "Europe/Berlin", AT_0100, "2026-03-29", "2026-03-30"),
	    "2026-03-29T00:00:00/2026-03-29T01:00:00");
	assert_windows(DAILY("freeze", "Europe/Berlin", AT_0100, "2026-10-25", "2026-10-26"),
	    "2026-10-24T23:00:00/2026-10-25T02:00:00");
}

static void
an_open_window_narrows_where_a_freeze_widens(void **state UNUSED)
{
#define AT_0245 "\"from\":\"02:45\",\"to\":\"05:00\""
#define AT_0130 "\"from\":\"01:30\",\"to\":\"02:30\""
	/* Start comes once (00:30Z); the end is skipped: early reading. */
	assert_windows(DAILY("open", "Europe/Berlin", AT_0130, "2026-03-29", "2026-03-30"), "");
	assert_windows(DAILY("freeze", "Europe/Berlin", AT_0130, "2026-03-29", "2026-03-30"),
	    "2026-03-29T00:30:00/2026-03-29T01:30:00");
	/* The end comes twice: the first pass ends it, or the second. */
	assert_windows(DAILY("open", "Europe/Berlin", AT_0130, "2026-10-25", "2026-10-26"),
	    "2026-10-24T23:30:00/2026-10-25T00:30:00");
	assert_windows(DAILY("freeze", "Europe/Berlin", AT_0130, "2026-10-25", "2026-10-26"),
	    "2026-10-24T23:30:00/2026-10-25T01:30:00");
	/* The start comes twice: the second pass begins it, or the first. */
	assert_windows(DAILY("open", "Europe/Berlin", AT_0245, "2026-10-25", "2026-10-26"),
	    "2026-10-25T01:45:00/2026-10-25T04:00:00");
	assert_windows(DAILY("freeze", "Europe/Berlin", AT_0245, "2026-10-25", "2026-10-26"),
	    "2026-10-25T00:45:00/2026-10-25T04:00:00");
	/* An ordinary day: both the same. */
	assert_windows(DAILY("open", "Europe/Berlin", AT_0130, "2026-03-24", "2026-03-25"),
	    "2026-03-24T00:30:00/2026-03-24T01:30:00");
	/* FRZ-03, by elapsed time: late start plus the hour meets early start plus the hour. */
	assert_windows(DAILY("open", "Europe/Berlin", AT_0230, "2026-03-29", "2026-03-30"), "");
	assert_windows(DAILY("open", "Europe/Berlin", AT_0230, "2026-10-25", "2026-10-26"), "");
	assert_windows(DAILY("open", "Europe/Berlin", AT_0230, "2026-03-30", "2026-03-31"),
	    "2026-03-30T00:30:00/2026-03-30T01:30:00");
	/* Midnight is skipped: an open window begins at the late reading, not a day late. */
	assert_windows(DAILY("open", "Africa/Cairo", "\"from\":\"00:00\",\"to\":\"02:00\"",
			   "2025-04-25", "2025-04-26"),
	    "2025-04-24T22:00:00/2025-04-24T23:00:00");
}

/* FRZ-02: two stretches of the week, and a freeze that cuts into one. */
static void
several_open_windows_are_one_opening_and_a_freeze_wins(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(
	    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,"
	    "\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\"}},\"calendars\":{"
	    "\"mt\":{\"kind\":\"open\",\"tz\":\"UTC\",\"weekly\":[{\"from\":\"09:00\",\"to\":"
	    "\"17:00\",\"days\":[\"Mon\",\"Tue\",\"Wed\",\"Thu\"]}],\"valid\":[\"2026-01-01\","
	    "\"2027-01-01\"]},"
	    "\"fr\":{\"kind\":\"open\",\"tz\":\"UTC\",\"weekly\":[{\"from\":\"Fri 09:00\",\"to\":"
	    "\"Fri 14:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]},"
	    "\"standup\":{\"kind\":\"freeze\",\"tz\":\"UTC\",\"weekly\":[{\"from\":\"Mon 10:15\","
	    "\"to\":\"Mon 11:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]}},"
	    "\"rules\":[" PERMIT ","
	    "{\"id\":\"hours\",\"forbid\":{\"outside\":[\"mt\",\"fr\"],\"effects\":{\"any\":"
	    "[\"@change\"]}},\"override\":\"never\"},"
	    "{\"id\":\"no-standup\",\"forbid\":{\"during\":[\"standup\"],\"effects\":{\"any\":"
	    "[\"@change\"]}},\"override\":\"never\"}]}");
	struct decision d;

	assert_write(p, "2026-03-09T10:00:00Z", VERDICT_ALLOW); /* a Monday */
	assert_write(p, "2026-03-13T13:59:59Z", VERDICT_ALLOW);
	assert_int_equal(write_at(p, "2026-03-13T14:00:00Z", true, &d), VERDICT_DENY);
	assert_non_null(strstr(d.text, "rule hours (calendar mt) until 2026-03-16T09:00:00Z"));
	assert_int_equal(write_at(p, "2026-03-14T10:00:00Z", true, &d), VERDICT_DENY);
	/* The reply names what opens next, and when. */
	assert_true(str_eqz(d.calendar, "mt"));
	assert_non_null(strstr(d.text, "rule hours (calendar mt) until 2026-03-16T09:00:00Z"));
	assert_int_equal(write_at(p, "2026-03-09T10:30:00Z", true, &d), VERDICT_DENY);
	assert_true(str_eqz(d.rules[0], "no-standup"));
	assert_true(str_eqz(d.calendar, "standup"));
	assert_non_null(strstr(d.text, "until 2026-03-09T11:00:00Z"));
}

/* FRZ-04: weekday and zone across the date line, at each edge and inside, whatever TZ says. */
static void
a_weekday_is_that_of_the_zone_and_the_process_zone_is_nothing(void **state UNUSED)
{
	static const struct {
		const char *at;
		enum verdict auckland, angeles;
	} probes[] = {
	    {"2026-06-05T09:59:59Z", VERDICT_ALLOW, VERDICT_ALLOW},
	    {"2026-06-05T10:00:00Z", VERDICT_DENY, VERDICT_ALLOW},
	    {"2026-06-05T14:00:00Z", VERDICT_DENY, VERDICT_ALLOW},
	    {"2026-06-05T17:59:59Z", VERDICT_DENY, VERDICT_ALLOW},
	    {"2026-06-05T18:00:00Z", VERDICT_ALLOW, VERDICT_ALLOW},
	    {"2026-06-06T04:59:59Z", VERDICT_ALLOW, VERDICT_ALLOW},
	    {"2026-06-06T05:00:00Z", VERDICT_ALLOW, VERDICT_DENY},
	    {"2026-06-06T09:00:00Z", VERDICT_ALLOW, VERDICT_DENY},
	    {"2026-06-06T12:59:59Z", VERDICT_ALLOW, VERDICT_DENY},
	    {"2026-06-06T13:00:00Z", VERDICT_ALLOW, VERDICT_ALLOW},
	};
#define FRI                                                 \
	"\"weekly\":[{\"from\":\"Fri 22:00\",\"to\":\"Sat " \
	"06:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]}"
	static const char *const zones[] = {"UTC", "Asia/Kolkata", NULL};

	for (size_t z = 0; z < ARRAY_LEN(zones); z++) {
		AUTO(policy) struct policy *a = NULL;
		AUTO(policy) struct policy *l = NULL;

		if (zones[z] != NULL)
			(void)setenv("TZ", zones[z], 1);
		else
			(void)unsetenv("TZ");
		tzset();
		a = calendar_policy("{\"kind\":\"freeze\",\"tz\":\"Pacific/Auckland\"," FRI);
		l = calendar_policy("{\"kind\":\"freeze\",\"tz\":\"America/Los_Angeles\"," FRI);
		for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
			assert_write(a, probes[i].at, probes[i].auckland);
			assert_write(l, probes[i].at, probes[i].angeles);
		}
	}
}

static void
a_zone_is_required_and_an_unknown_one_is_an_error_not_utc(void **state UNUSED)
{
#define ONCE "\"once\":[{\"from\":\"2026-03-21T10:00\",\"to\":\"2026-03-21T11:00\"}]," VALID_26 "}"
	assert_refused("{\"kind\":\"freeze\"," ONCE, "has no \"tz\"");
	assert_refused("{\"kind\":\"freeze\",\"tz\":\"Europe/Lodnon\"," ONCE, "Europe/Lodnon");
	assert_refused("{\"kind\":\"freeze\",\"tz\":\"../etc/passwd\"," ONCE, "time zone");
	assert_windows("{\"kind\":\"freeze\",\"tz\":\"Europe/London\"," ONCE,
	    "2026-03-21T10:00:00/2026-03-21T11:00:00");
}

static void
a_calendar_without_horizon_or_windows_is_refused(void **state UNUSED)
{
#define FREEZE "{\"kind\":\"freeze\",\"tz\":\"UTC\","
	assert_refused(FREEZE "\"once\":[]}", "has no \"valid\"");
	assert_refused(FREEZE "\"once\":[]," VALID_26 "}", "never freezes");
	assert_refused(FREEZE VALID_26 "}", "never freezes");
	assert_refused(FREEZE "\"once\":[{\"from\":\"2025-01-01T00:00\",\"for\":\"1h\"}]," VALID_26
			      "}",
	    "never freezes");
	assert_refused(FREEZE "\"valid\":[\"2026-04-05\",\"2026-03-20\"]}", "valid must span");
	assert_refused(FREEZE "\"valid\":[\"2026-02-30\",\"2026-03-20\"]}", "valid must be");
	assert_refused(FREEZE "\"valid\":[\"2026-01-01\",\"2066-03-20\"]}", "valid must span");
}

static void
malformed_times_are_refused(void **state UNUSED)
{
	static const char *const once[][2] = {
	    {"\"from\":\"2026-03-21T10:00\",\"to\":\"2026-03-21T10:00\"", "begin before it ends"},
	    {"\"from\":\"2026-03-21T10:00\",\"to\":\"2026-03-21T09:00\"", "begin before it ends"},
	    {"\"from\":\"2026-03-21 10:00\",\"to\":\"2026-03-21T11:00\"", "a time must be"},
	    {"\"from\":\"2026-02-29T10:00\",\"to\":\"2026-03-21T11:00\"", "a time must be"},
	    {"\"from\":\"2026-03-21T24:00\",\"to\":\"2026-03-22T11:00\"", "a time must be"},
	    {"\"from\":\"2026-03-21T10:60\",\"to\":\"2026-03-22T11:00\"", "a time must be"},
	    {"\"from\":\"2026-03-21T10:00+01:00\",\"to\":\"2026-03-22T11:00\"", "a time must be"},
	    {"\"from\":\"2026-03-21T10:00\"", "one of \"to\" and \"for\""},
	    {"\"from\":\"2026-03-21T10:00\",\"to\":\"2026-03-21T11:00\",\"for\":\"1h\"",
		"one of \"to\" and \"for\""},
	    {"\"from\":\"2026-03-21T10:00\",\"for\":\"1w\"", "for must be"},
	    {"\"from\":\"2026-03-21T10:00\",\"for\":\"0s\"", "for must be"},
	};
	static const char *const weekly[][2] = {
	    {"\"from\":\"Fri 16:00\",\"to\":\"Fri 16:00\"", "begin and end at the same time"},
	    {"\"from\":\"Fri 16:00\",\"to\":\"08:00\"", "both have a day"},
	    {"\"from\":\"16:00\",\"to\":\"18:00\"", "have \"days\""},
	    {"\"from\":\"Fri 16:00\",\"to\":\"Sat 18:00\",\"days\":\"daily\"", "have \"days\""},
	    {"\"from\":\"fri 16:00\",\"to\":\"Sat 18:00\"", "a time of the week"},
	    {"\"from\":\"Fri 16\",\"to\":\"Sat 18:00\"", "a time of the week"},
	    {"\"from\":\"16:00\",\"to\":\"18:00\",\"days\":\"weekdays\"", "days must be"},
	    {"\"from\":\"16:00\",\"to\":\"18:00\",\"days\":[\"Mon\",\"Mon\"]", "each once"},
	    {"\"from\":\"16:00\",\"to\":\"18:00\",\"days\":[]", "days must be"},
	    {"\"from\":\"16:00\",\"for\":\"8d\",\"days\":\"daily\"", "for must be"},
	    {"\"from\":\"16:00\",\"until\":\"17:00\",\"days\":\"daily\"", "unknown key \"until\""},
	};

	for (size_t i = 0; i < ARRAY_LEN(once); i++) {
		AUTO_FREE char *c = xasprintf(FREEZE "\"once\":[{%s}]," VALID_26 "}", once[i][0]);

		assert_refused(c, once[i][1]);
	}
	for (size_t i = 0; i < ARRAY_LEN(weekly); i++) {
		AUTO_FREE char *c =
		    xasprintf(FREEZE "\"weekly\":[{%s}]," VALID_26 "}", weekly[i][0]);

		assert_refused(c, weekly[i][1]);
	}
}

static void
a_week_wraps_and_a_night_ends_on_the_next_day(void **state UNUSED)
{
	assert_windows(FREEZE "\"weekly\":[{\"from\":\"Sat 22:00\",\"to\":\"Mon 02:00\"}],"
			      "\"valid\":[\"2026-03-23\",\"2026-03-31\"]}",
	    /* The window that began before valid is cut, not lost. */
	    "2026-03-23T00:00:00/2026-03-23T02:00:00 2026-03-28T22:00:00/2026-03-30T02:00:00");
	assert_windows(FREEZE
	    "\"weekly\":[{\"from\":\"22:00\",\"to\":\"06:00\",\"days\":[\"Tue\"]}],"
	    "\"valid\":[\"2026-03-23\",\"2026-03-31\"]}",
	    "2026-03-24T22:00:00/2026-03-25T06:00:00");
	assert_windows(FREEZE
	    "\"weekly\":[{\"from\":\"00:00\",\"to\":\"24:00\",\"days\":[\"Tue\"]}],"
	    "\"valid\":[\"2026-03-23\",\"2026-03-31\"]}",
	    "2026-03-24T00:00:00/2026-03-25T00:00:00");
}

static void
the_end_of_a_window_at_the_horizon_is_not_told_as_known(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = calendar_policy(FREEZE "\"once\":[{\"from\":\"2026-04-01T00:00\",\"to\":"
						  "\"2026-05-01T00:00\"}]," VALID_26 "}");
	struct decision d;

	assert_int_equal(write_at(p, "2026-04-02T00:00:00Z", true, &d), VERDICT_DENY);
	assert_false(d.calendar_unknown);
	assert_true(d.until_us == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_window_holds_its_first_instant_and_not_its_last),
	    cmocka_unit_test(beyond_valid_and_without_a_clock_it_counts_as_frozen),
	    cmocka_unit_test(seconds_and_utc_may_be_given),
	    cmocka_unit_test(windows_that_touch_or_overlap_are_one),
	    cmocka_unit_test(a_freeze_whose_start_is_skipped_begins_at_the_early_reading),
	    cmocka_unit_test(a_freeze_whose_start_comes_twice_covers_both_passes),
	    cmocka_unit_test(a_freeze_at_a_midnight_that_is_skipped_is_not_a_day_late),
	    cmocka_unit_test(a_freeze_by_wall_clock_is_as_long_as_the_day_makes_it),
	    cmocka_unit_test(an_open_window_narrows_where_a_freeze_widens),
	    cmocka_unit_test(several_open_windows_are_one_opening_and_a_freeze_wins),
	    cmocka_unit_test(a_weekday_is_that_of_the_zone_and_the_process_zone_is_nothing),
	    cmocka_unit_test(a_zone_is_required_and_an_unknown_one_is_an_error_not_utc),
	    cmocka_unit_test(a_calendar_without_horizon_or_windows_is_refused),
	    cmocka_unit_test(malformed_times_are_refused),
	    cmocka_unit_test(a_week_wraps_and_a_night_ends_on_the_next_day),
	    cmocka_unit_test(the_end_of_a_window_at_the_horizon_is_not_told_as_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
