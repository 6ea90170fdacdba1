/*
 * Unit tests of common/tz. The reference is glibc: localtime_r with TZ set, for every zone
 * of the system from 1970 to 2099. Then what is refused.
 */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/tz.h"

#include "common/banned.h"

#define ROOT "/usr/share/zoneinfo"
#define FROM INT64_C(0)
#define TO INT64_C(4102444800) /* 2100 */
#define STEP INT64_C(602000)   /* about a week, drifting through the hours of the day */

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

/* --- against glibc ---------------------------------------------------------------------- */

static long
glibc_offset(int64_t t)
{
	time_t tt = (time_t)t;
	struct tm tm;

	if (localtime_r(&tt, &tm) == NULL)
		fail_msg("localtime_r");
	return tm.tm_gmtoff;
}

static size_t compared, zones;

static void
compare(const struct tz *z, const char *name, int64_t t)
{
	compared++;
	if (tz_offset(z, t) != glibc_offset(t))
		fail_msg("%s at %lld: %d, glibc says %ld", name, (long long)t, tz_offset(z, t),
		    glibc_offset(t));
}

/* Where the offset changes between lo and hi, as glibc sees it: the second before, at, after. */
static void
compare_change(const struct tz *z, const char *name, int64_t lo, int64_t hi)
{
	long before = glibc_offset(lo);

	while (hi - lo > 1) {
		int64_t mid = lo + (hi - lo) / 2;

		if (glibc_offset(mid) == before)
			lo = mid;
		else
			hi = mid;
	}
	for (int64_t t = lo - 1; t <= hi + 1; t++)
		compare(z, name, t);
}

static void
compare_grid(const struct tz *z, const char *name)
{
	for (int64_t t = FROM; t < TO; t += STEP) {
		compare(z, name, t);
		if (glibc_offset(t) != glibc_offset(t + STEP))
			compare_change(z, name, t, t + STEP);
	}
}

/* Each transition time in the file, by a reader of the test's own. */
static void
compare_file(const struct tz *z, const char *name, struct str file)
{
	for (int block = 0; block < 2; block++) {
		struct rd r = rd_init(file);
		uint32_t n[6];

		(void)rd_bytes(&r, 20);
		for (int i = 0; i < 6; i++)
			n[i] = rd_u32(&r);
		for (uint32_t i = 0; block == 1 && i < n[3]; i++) {
			int64_t t = (int64_t)rd_u64(&r);

			for (int64_t d = -1; t > FROM && t < TO && d <= 1; d++)
				compare(z, name, t + d);
		}
		(void)rd_bytes(&r, (size_t)n[3] * 5 + n[4] * 6 + n[5] + n[2] * 8 + n[1] + n[0]);
		file = str_mem(r.p, r.n);
	}
}

static struct str
slurp(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "re");
	char part[4096];
	size_t n;

	assert_non_null(f);
	buf_reset(out);
	while ((n = fread(part, 1, sizeof(part), f)) != 0)
		buf_put(out, part, n);
	(void)fclose(f);
	return buf_str(out);
}

static void
set_tz(const char *tz)
{
	assert_int_equal(setenv("TZ", tz, 1), 0);
	tzset();
}

static int
each_file(const char *path, const struct stat *st UNUSED, int type, struct FTW *w UNUSED)
{
	const char *name = path + strlen(ROOT) + 1;
	AUTO_BUF struct buf file = BUF(1 << 20);
	AUTO(tz) struct tz *z = NULL;

	/* posix/ holds the same files again, right/ counts TAI: tested as refusals below. */
	if (type != FTW_F || strncmp(name, "posix", 5) == 0 || strncmp(name, "right/", 6) == 0 ||
	    strcmp(name, "Factory") == 0 || strcmp(name, "localtime") == 0 ||
	    !str_has_prefix(slurp(path, &file), "TZif"))
		return 0;
	z = zone(name);
	set_tz(name);
	compare_grid(z, name);
	compare_file(z, name, buf_str(&file));
	zones++;
	return 0;
}

static void
every_zone_agrees_with_glibc_from_1970_to_2099(void **state UNUSED)
{
	assert_int_equal(nftw(ROOT, each_file, 20, 0), 0);
	print_message("# %zu zones, %zu comparisons\n", zones, compared);
	assert_true(zones > 300 && compared > zones * 6000);
}

/* --- rules without a table --------------------------------------------------------------- */

/* A file of version 2 with one type and a footer; transitions may be none. */
static void
put_file(struct buf *b, const char *footer)
{
	for (int block = 0; block < 2; block++) {
		buf_put_z(b, "TZif2");
		buf_put(b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
		buf_u32(b, 0); /* isut, isstd, leap, time, type, chars */
		buf_u32(b, 0);
		buf_u32(b, 0);
		buf_u32(b, 0);
		buf_u32(b, 1);
		buf_u32(b, 4);
		buf_u32(b, 0); /* offset, dst, name */
		buf_u8(b, 0);
		buf_u8(b, 0);
		buf_put(b, "UTC", 4);
	}
	buf_printf(b, "\n%s\n", footer);
}

static int
parse_rule(const char *footer, struct tz **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(1000);

	put_file(&b, footer);
	return tz_parse(buf_str(&b), ret, err);
}

static void
posix_rules_of_every_form_agree_with_glibc(void **state UNUSED)
{
	static const char *const rules[] = {"UTC0", "<+03>-3", "<-0330>3:30", "ABC-12:34:56",
	    "EST5EDT,M3.2.0,M11.1.0", "CET-1CEST,M3.5.0,M10.5.0/3", "AEST-10AEDT,M10.1.0,M4.1.0/3",
	    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "IST-1GMT0,M10.5.0,M3.5.0/1",
	    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "IST-2IDT,M3.4.4/26,M10.5.0",
	    "EET-2EEST,M4.5.5/0,M10.5.4/24", "EST5EDT,J60/0,J300/0", "EST5EDT,J59,J365",
	    "EST5EDT,59,300/1:30:15", "XYZ-5ABC-6:30,100/-5,200/+30", "EST+5EDT,M3.2.0/2,M11.1.0/2",
	    "AAA1BBB,M2.5.6,M8.4.3/12"};

	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		AUTO(tz) struct tz *z = NULL;
		struct err e = {0};

		if (parse_rule(rules[i], &z, &e) != 0)
			fail_msg("%s: %s", rules[i], e.msg);
		set_tz(rules[i]);
		/* 1970 itself aside: there glibc looks only at rules of the UTC year. */
		for (int64_t t = 86400 * 366; t < TO; t += STEP) {
			compare(z, rules[i], t);
			if (glibc_offset(t) != glibc_offset(t + STEP))
				compare_change(z, rules[i], t, t + STEP);
		}
	}
}

static void
permanent_daylight_time_has_no_seam_at_new_year(void **state UNUSED)
{
	AUTO(tz) struct tz *z = NULL;

	assert_int_equal(parse_rule("EST5EDT,0/0,J365/25", &z, NULL), 0);
	for (int64_t t = at("2026-12-31T00:00:00Z"); t < at("2027-01-02T00:00:00Z"); t += 600)
		assert_int_equal(tz_offset(z, t), -4 * 3600);
}

static void
a_change_beyond_new_year_counts_in_the_year_it_falls_into(void **state UNUSED)
{
	AUTO(tz) struct tz *z = NULL;

	/* Ends 26 hours after the midnight that begins 31 December: 1 January, 01:00 UTC. */
	assert_int_equal(parse_rule("AAA0BBB-1,100/0,J365/26", &z, NULL), 0);
	assert_int_equal(tz_offset(z, at("2027-01-01T00:59:59Z")), 3600);
	assert_int_equal(tz_offset(z, at("2027-01-01T01:00:00Z")), 0);
}

static void
rules_that_are_malformed_are_refused(void **state UNUSED)
{
	static const char *const bad[] = {"X", "AB3", "ABC", "ABC3D", "ABC3DEF", "ABC3DEF,M3.2.0",
	    "ABC3DEF,M3.2.0,", "ABC25", "ABC3:60", "ABC3:00:60", "ABC3DEF,M0.2.0,M11.1.0",
	    "ABC3DEF,M13.2.0,M11.1.0", "ABC3DEF,M3.0.0,M11.1.0", "ABC3DEF,M3.6.0,M11.1.0",
	    "ABC3DEF,M3.2.7,M11.1.0", "ABC3DEF,J0,J300", "ABC3DEF,J366,J300", "ABC3DEF,366,300",
	    "ABC3DEF,M3.2.0/168,M11.1.0", "ABC3DEF,M3.2.0,M11.1.0/-168", "<+03-3", "<+0>-3",
	    "+03-3", "ABC3DEF,M3.2.0,M11.1.0 ", " ABC3", "ABC3DEF,M3.2.0,M11.1.0,", "ABC--3",
	    "ABC3\nDEF", "A<B3"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct tz *z = NULL;

		if (parse_rule(bad[i], &z, NULL) != ERR_INVALID)
			fail_msg("%s was accepted", bad[i]);
	}
	for (int i = 0; i < 2; i++) {
		AUTO(tz) struct tz *z = NULL;

		assert_int_equal(
		    parse_rule(i == 0 ? "ABC24" : "ABC3DEF,M3.2.0/167,M11.1.0/-167", &z, NULL), 0);
	}
}

static void
a_footer_that_says_nothing_leaves_the_last_type(void **state UNUSED)
{
	AUTO(tz) struct tz *z = NULL;

	assert_int_equal(parse_rule("", &z, NULL), 0);
	assert_int_equal(tz_offset(z, TO), 0);
}

/* --- loading ------------------------------------------------------------------------------ */

static void
names_that_are_no_iana_zone_are_refused(void **state UNUSED)
{
	static const char *const bad[] = {"", ".", "..", "../etc/passwd", "Europe/../UTC",
	    "/etc/passwd", "Europe/", "/Europe/Berlin", "Europe//Berlin", "Europe/Ber lin",
	    "Europe/Berlin\n", "posix/UTC", "right/UTC", "localtime", "posixrules", "Factory",
	    "zone.tab", "+VERSION", "tzdata.zi", "CET-1CEST", "<+03>-3",
	    "Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct tz *z = NULL;
		struct err e = {0};
		int r = tz_load(NULL, str_z(bad[i]), &z, &e);

		if (r == 0 || z != NULL)
			fail_msg("\"%s\" was accepted", bad[i]);
		assert_true(
		    r == ERR_INVALID || (r == ERR_NOT_FOUND && strcmp(bad[i], "CET-1CEST") == 0));
	}
	assert_int_equal(
	    tz_load(NULL, str_mem("UTC\0x", 5), &(struct tz *){NULL}, NULL), ERR_INVALID);
}

static void
a_zone_that_is_not_there_is_an_error_and_never_utc(void **state UNUSED)
{
	static const char *const bad[] = {
	    "Europe/Berlln", "europe/berlin", "Europe", "Mars/Phobos", "UTC/x"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct tz *z = NULL;
		struct err e = {0};

		assert_int_equal(tz_load(NULL, str_z(bad[i]), &z, &e), ERR_NOT_FOUND);
		assert_null(z);
		assert_non_null(strstr(e.msg, bad[i]));
	}
}

static void
zones_with_leap_seconds_are_refused(void **state UNUSED)
{
	AUTO_BUF struct buf file = BUF(1 << 20);
	struct tz *z = NULL;
	struct err e = {0};

	assert_int_equal(
	    tz_parse(slurp(ROOT "/right/Europe/Berlin", &file), &z, &e), ERR_UNSUPPORTED);
	assert_string_equal(e.msg, "zone counts leap seconds");
}

static void
files_cut_anywhere_are_refused(void **state UNUSED)
{
	AUTO_BUF struct buf file = BUF(1 << 20);
	struct str s = slurp(ROOT "/Europe/Berlin", &file);

	for (size_t n = 0; n < s.n; n++) {
		AUTO(tz) struct tz *z = NULL;
		AUTO_FREE char *copy = str_dup(str_mem(s.p, n));

		if (tz_parse(str_mem(copy, n), &z, NULL) == 0)
			fail_msg("%zu of %zu bytes were accepted", n, s.n);
	}
	buf_put_c(&file, 'x');
	assert_int_equal(tz_parse(buf_str(&file), &(struct tz *){NULL}, NULL), ERR_INVALID);
}

static void
assert_broken(size_t off, char c, int code, const char *says)
{
	AUTO_BUF struct buf b = BUF(1000);
	struct tz *z = NULL;
	struct err e = {0};

	put_file(&b, "UTC0");
	b.p[off] = (uint8_t)c;
	assert_int_equal(tz_parse(buf_str(&b), &z, &e), code);
	assert_string_equal(e.msg, says);
}

static void
fields_out_of_range_are_refused_by_name(void **state UNUSED)
{
	const size_t v2 = 44 + 6 + 4, type = v2 + 44;

	assert_broken(0, 'X', ERR_INVALID, "not a TZif file");
	assert_broken(
	    4, '\0', ERR_UNSUPPORTED, "TZif version must be 2 to 4 (64-bit data), is 0x00");
	assert_broken(
	    v2 + 4, '5', ERR_UNSUPPORTED, "TZif version must be 2 to 4 (64-bit data), is 0x35");
	assert_broken(v2 + 20, 1, ERR_TOO_LARGE, "TZif counts must be at most 20000");
	assert_broken(v2 + 23, 2, ERR_INVALID, "indicator counts do not match");
	assert_broken(v2 + 31, 1, ERR_UNSUPPORTED, "zone counts leap seconds");
	assert_broken(v2 + 34, 1, ERR_INVALID, "TZif file is cut short");
	assert_broken(v2 + 39, 0, ERR_INVALID, "types must be 1 to 256, are 0");
	assert_broken(type, 1, ERR_INVALID, "offset must be from -89999 to 93599, is 16777216");
	assert_broken(type + 4, 2, ERR_INVALID, "malformed type");
	assert_broken(type + 5, 4, ERR_INVALID, "malformed type");
	assert_broken(type + 10, 'x', ERR_INVALID, "TZif footer is missing");
}

static void
transitions_must_ascend_and_name_a_type(void **state UNUSED)
{
	for (int bad = 0; bad < 3; bad++) {
		AUTO_BUF struct buf b = BUF(1000);
		AUTO(tz) struct tz *z = NULL;
		size_t v2 = 44 + 6 + 4;

		put_file(&b, "");
		b.n = v2;
		buf_put_z(&b, "TZif2");
		buf_put(&b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
		for (int i = 0; i < 6; i++)
			buf_u32(&b, (const uint32_t[]){0, 0, 0, 2, 2, 4}[i]);
		buf_u64(&b, 1000);
		buf_u64(&b, bad == 1 ? 1000 : 2000);
		buf_u8(&b, 1);
		buf_u8(&b, bad == 2 ? 2 : 0);
		buf_u32(&b, 3600);
		buf_u16(&b, 0);
		buf_u32(&b, 7200);
		buf_u16(&b, 0x0100);
		buf_put(&b, "ABC\0\n\n", 6);
		assert_int_equal(tz_parse(buf_str(&b), &z, NULL), bad == 0 ? 0 : ERR_INVALID);
		if (bad != 0)
			continue;
		assert_int_equal(tz_offset(z, 999), 3600);
		assert_int_equal(tz_offset(z, 1000), 7200);
		assert_int_equal(tz_offset(z, 1999), 7200);
		assert_int_equal(tz_offset(z, 2000), 3600);
		assert_int_equal(tz_offset(z, INT64_MAX), 3600);
	}
}

static void
a_link_out_of_the_root_is_not_followed(void **state UNUSED)
{
	char dir[] = "/tmp/t_tz.XXXXXX", path[64], in[64];
	struct tz *z = NULL;
	AUTO(tz) struct tz *good = NULL;
	struct err e = {0};

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/Out", dir);
	(void)snprintf(in, sizeof(in), "%s/In", dir);
	assert_int_equal(symlink(ROOT "/UTC", path), 0);
	assert_int_equal(tz_load(dir, STR("Out"), &z, &e), ERR_SYSTEM);
	/* A link within the root is how the database names aliases. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("In", path), 0);
	{
		AUTO_BUF struct buf b = BUF(1000);
		FILE *f = fopen(in, "we");

		assert_non_null(f);
		put_file(&b, "<+03>-3");
		assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
		(void)fclose(f);
	}
	assert_int_equal(tz_load(dir, STR("Out"), &good, &e), 0);
	assert_int_equal(tz_offset(good, 0), 3 * 3600);
	(void)unlink(path);
	(void)unlink(in);
	(void)rmdir(dir);
}

static void
the_version_of_the_data_is_told(void **state UNUSED)
{
	char v[16];

	tz_version(NULL, v);
	assert_int_equal(strlen(v), 5); /* "2025b" */
	assert_int_equal(v[0], '2');
	tz_version("/nonexistent", v);
	assert_string_equal(v, "unknown");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_zone_agrees_with_glibc_from_1970_to_2099),
	    cmocka_unit_test(posix_rules_of_every_form_agree_with_glibc),
	    cmocka_unit_test(permanent_daylight_time_has_no_seam_at_new_year),
	    cmocka_unit_test(a_change_beyond_new_year_counts_in_the_year_it_falls_into),
	    cmocka_unit_test(rules_that_are_malformed_are_refused),
	    cmocka_unit_test(a_footer_that_says_nothing_leaves_the_last_type),
	    cmocka_unit_test(names_that_are_no_iana_zone_are_refused),
	    cmocka_unit_test(a_zone_that_is_not_there_is_an_error_and_never_utc),
	    cmocka_unit_test(zones_with_leap_seconds_are_refused),
	    cmocka_unit_test(files_cut_anywhere_are_refused),
	    cmocka_unit_test(fields_out_of_range_are_refused_by_name),
	    cmocka_unit_test(transitions_must_ascend_and_name_a_type),
	    cmocka_unit_test(a_link_out_of_the_root_is_not_followed),
	    cmocka_unit_test(the_version_of_the_data_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
