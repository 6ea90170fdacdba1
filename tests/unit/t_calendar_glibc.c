/*
 * Calendars against the C library's own reading of the zones: windows at every clock change from
 * 2000 to 2099, and one on every day. A sample of the zones; CALENDAR_ZONES=all takes each (make
 * soak).
 */
#include "tests/unit/policy_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/xalloc.h"
#include "policy/calendar.h"

#include "common/banned.h"

#define DAY 86400
#define SPAN 20 /* years of one calendar */

/* --- the C library ------------------------------------------------------------------- */

static int64_t
glibc_offset(int64_t t)
{
	time_t when = (time_t)t;
	struct tm tm;

	assert_non_null(localtime_r(&when, &tm));
	return tm.tm_gmtoff;
}

/*
 * The earlier and the later reading of a wall clock: every instant that reads so; if there is none,
 * minus the offset after the jump and minus that before it.
 */
static void
glibc_read(int64_t wall, int64_t *ret_early, int64_t *ret_late)
{
	int64_t early = INT64_MAX, late = INT64_MIN, low = INT64_MAX, high = INT64_MIN;

	for (int64_t t = wall - 26 * 3600; t <= wall + 26 * 3600; t += 13 * 3600) {
		int64_t off = glibc_offset(t);

		low = off < low ? off : low;
		high = off > high ? off : high;
		if (glibc_offset(wall - off) != off)
			continue;
		early = wall - off < early ? wall - off : early;
		late = wall - off > late ? wall - off : late;
	}
	*ret_early = early != INT64_MAX ? early : wall - high;
	*ret_late = late != INT64_MIN ? late : wall - low;
}

/* Wall clock before each change of the offset in [from, to). */
static size_t
glibc_changes(int64_t from, int64_t to, int64_t *ret, size_t max)
{
	size_t n = 0;

	for (int64_t t = from; t < to && n < max; t += DAY / 2) {
		int64_t low = t, high = t + DAY / 2;

		if (glibc_offset(low) == glibc_offset(high))
			continue;
		while (high - low > 1) {
			int64_t mid = low + (high - low) / 2;

			*(glibc_offset(mid) == glibc_offset(t) ? &low : &high) = mid;
		}
		ret[n++] = high + glibc_offset(low);
	}
	return n;
}

/* --- ours ---------------------------------------------------------------------------- */

static void
put_wall(struct buf *out, int64_t wall)
{
	char text[CLOCK_TEXT_SIZE];

	clock_format_s(wall * 1000000, text);
	buf_printf(out, "\"%.19s\"", text);
}

static void
put_calendar(struct buf *out, const char *name, const char *kind, const char *zone, int year)
{
	buf_printf(out,
	    "\"%s\":{\"kind\":\"%s\",\"tz\":\"%s\",\"valid\":[\"%d-01-01\",\"%d-01-01\"],", name,
	    kind, zone, year, year + SPAN);
}

static struct policy *
policy_of(struct buf *calendars)
{
	AUTO_FREE char *text = NULL;
	AUTO_BUF struct buf out = BUF((size_t)8 << 20);

	buf_put_z(&out,
	    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,"
	    "\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\"}},\"calendars\":{");
	buf_put_str(&out, buf_str(calendars));
	buf_put_z(
	    &out, "},\"rules\":[{\"id\":\"p\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}]}");
	text = buf_dup_z(&out);
	return help_policy(text);
}

/* Where a window begins and ends, beside the wall clock before a change. */
static const struct {
	const char *name;
	int64_t from, to;
} shapes[] = {{"in", 1800, 3 * 3600}, {"out", -3 * 3600, 1800}, {"over", -7200, 7200},
    {"both", 600, 3000}, {"at", 0, 3600}};

static size_t compared;

/* Windows that touch are one: a zone may leave out a whole day. */
static size_t
want_put(int64_t (*want)[2], size_t n, int64_t from, int64_t to)
{
	if (from >= to)
		return n;
	compared++;
	if (n != 0 && from <= want[n - 1][1]) {
		want[n - 1][1] = to > want[n - 1][1] ? to : want[n - 1][1];
		return n;
	}
	want[n][0] = from;
	want[n][1] = to;
	return n + 1;
}

/* The windows of one calendar against what the C library says. */
static void
compare(const struct policy *p, const char *name, bool open, const int64_t *from, const int64_t *to,
    size_t n, const char *zone)
{
	AUTO_FREE int64_t(*want)[2] = xcalloc(n + 1, sizeof(*want));
	size_t c = 0, count = 0;

	while (!str_eqz(policy_calendar_at(p, c).id, name))
		c++;
	for (size_t i = 0; i < n; i++) {
		int64_t early[2], late[2];

		glibc_read(from[i], &early[0], &late[0]);
		glibc_read(to[i], &early[1], &late[1]);
		count = want_put(want, count, open ? late[0] : early[0], open ? early[1] : late[1]);
	}
	if (count != policy_calendar_at(p, c).nintervals)
		fail_msg("%s %s: %zu windows, glibc %zu", zone, name,
		    policy_calendar_at(p, c).nintervals, count);
	for (size_t i = 0; i < count; i++) {
		int64_t f, t;

		policy_calendar_interval(p, c, i, &f, &t);
		if (f != want[i][0] || t != want[i][1])
			fail_msg("%s %s: %lld to %lld, glibc %lld to %lld", zone, name,
			    (long long)f, (long long)t, (long long)want[i][0],
			    (long long)want[i][1]);
	}
}

/* Changes that are a week apart from others, so that no windows touch. */
static size_t
changes(int year, int64_t *ret, size_t max)
{
	int64_t from = clock_days(year, 1, 10) * DAY,
		to = clock_days(year + SPAN, 1, 1) * DAY - 10 * DAY;
	size_t n = glibc_changes(from, to, ret, max), kept = 0;

	for (size_t i = 0; i < n; i++)
		if (kept == 0 || ret[i] - ret[kept - 1] > 7 * DAY)
			ret[kept++] = ret[i];
	return kept;
}

static void
zone_once(const char *zone, int year)
{
	static const char *const kinds[] = {"freeze", "open"};
	int64_t at[512], from[512], to[512];
	AUTO_BUF struct buf out = BUF((size_t)4 << 20);
	AUTO(policy) struct policy *p = NULL;
	size_t n = changes(year, at, ARRAY_LEN(at));

	if (n == 0)
		return;
	for (size_t k = 0; k < 2; k++) {
		for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
			AUTO_FREE char *name = xasprintf("%s-%s", kinds[k], shapes[s].name);

			buf_put_z(&out, k + s != 0 ? "," : "");
			put_calendar(&out, name, kinds[k], zone, year);
			buf_put_z(&out, "\"once\":[");
			for (size_t i = 0; i < n; i++) {
				buf_put_z(&out, i != 0 ? ",{\"from\":" : "{\"from\":");
				put_wall(&out, at[i] + shapes[s].from);
				buf_put_z(&out, ",\"to\":");
				put_wall(&out, at[i] + shapes[s].to);
				buf_put_c(&out, '}');
			}
			buf_put_z(&out, "]}");
		}
	}
	p = policy_of(&out);
	for (size_t k = 0; k < 2; k++) {
		for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
			AUTO_FREE char *name = xasprintf("%s-%s", kinds[k], shapes[s].name);

			for (size_t i = 0; i < n; i++) {
				from[i] = at[i] + shapes[s].from;
				to[i] = at[i] + shapes[s].to;
			}
			compare(p, name, k == 1, from, to, n, zone);
		}
	}
}

/* Every day but the first and last ones, by the weekly form. */
static void
zone_daily(const char *zone, int year)
{
	int64_t first = clock_days(year, 1, 1), last = clock_days(year + SPAN, 1, 1);
	AUTO_FREE int64_t *from = xcalloc(SPAN * 367, sizeof(*from)),
			  *to = xcalloc(SPAN * 367, sizeof(*to));
	AUTO_BUF struct buf out = BUF((size_t)1 << 20);
	AUTO(policy) struct policy *p = NULL;
	size_t n = 0;

	for (int k = 0; k < 2; k++) {
		put_calendar(
		    &out, k == 0 ? "freeze" : "open", k == 0 ? "freeze" : "open", zone, year);
		buf_printf(&out,
		    "\"weekly\":[{\"from\":\"01:45\",\"to\":\"02:45\",\"days\":\"daily\"}]}%s",
		    k == 0 ? "," : "");
	}
	p = policy_of(&out);
	for (int64_t d = first; d < last; d++, n++) {
		from[n] = d * DAY + 6300;
		to[n] = d * DAY + 9900;
	}
	compare(p, "freeze", false, from, to, n, zone);
	compare(p, "open", true, from, to, n, zone);
}

/* --- the zones ----------------------------------------------------------------------- */

typedef void zone_fn(const char *zone, int year);

static bool
wants_all(void)
{
	const char *zones = getenv("CALENDAR_ZONES");

	return zones != NULL && strcmp(zones, "all") == 0;
}

static void
each_zone(zone_fn *fn, size_t every)
{
	AUTO_BUF struct buf text = BUF((size_t)1 << 20);
	struct str rest, line;
	size_t i = 0, zones = 0;

	compared = 0;
	help_read_file("/usr/share/zoneinfo/tzdata.zi", &text);
	rest = buf_str(&text);
	while (str_cut(&rest, '\n', &line)) {
		struct str zone = line, word;
		AUTO_FREE char *name = NULL;

		if (!str_has_prefix(line, "Z "))
			continue;
		(void)str_cut(&zone, ' ', &word);
		(void)str_cut(&zone, ' ', &word);
		/* "Factory" is no place. */
		if (str_eqz(word, "Factory") || (!wants_all() && i++ % every != 0))
			continue;
		name = str_dup(word);
		(void)setenv("TZ", name, 1);
		tzset();
		zones++;
		for (int year = 2000; year < 2100; year += SPAN)
			fn(name, year);
	}
	(void)unsetenv("TZ");
	print_message("# %zu zones, %zu windows compared\n", zones, compared);
	assert_true(zones > 3 && compared > 1000);
}

static void
windows_at_clock_changes_are_those_of_the_c_library(void **state UNUSED)
{
	each_zone(zone_once, 9);
}

static void
windows_of_every_day_are_those_of_the_c_library(void **state UNUSED)
{
	each_zone(zone_daily, 60);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(windows_at_clock_changes_are_those_of_the_c_library),
	    cmocka_unit_test(windows_of_every_day_are_those_of_the_c_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
