/*
 * Instants, their text form and the proleptic Gregorian calendar. Runs in every process.
 * Trusts the kernel's clock only as far as the mode says; never repairs a date that does
 * not exist, and never guesses when it cannot tell the time: known stays false.
 */
#include "common/clock.h"

#include <stdio.h>
#include <sys/timex.h>
#include <time.h>

#include "common/banned.h"

#define US_PER_S INT64_C(1000000)
#define S_PER_DAY INT64_C(86400)
#define CLOCK_S_MIN INT64_C(-62167219200) /* 0000-01-01T00:00:00Z */
#define CLOCK_S_MAX INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

int64_t
clock_wall_us(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return 0;
	return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

uint64_t
clock_boot_us(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static bool
kernel_is_synchronised(void)
{
	struct timex tx = {0}; /* modes 0: read only */
	int state = adjtimex(&tx);

	return state >= 0 && state != TIME_ERROR && (tx.status & STA_UNSYNC) == 0;
}

struct instant
clock_now(enum clock_mode mode, int64_t not_before_us)
{
	struct instant now = {.us = clock_wall_us(), .known = false};
	bool trusted = false;

	switch (mode) {
	case CLOCK_MODE_KERNEL_SYNC: trusted = kernel_is_synchronised(); break;
	case CLOCK_MODE_TRUSTED: trusted = true; break;
	}
	/* Backwards is how a freeze would be escaped by setting the clock. */
	now.known =
	    trusted && now.us > 0 && now.us >= not_before_us && now.us / US_PER_S <= CLOCK_S_MAX;
	return now;
}

/* Day and year arithmetic after H. Hinnant, "chrono-compatible low-level date algorithms". */
int64_t
clock_days(int year, int month, int day)
{
	int64_t y = (int64_t)year - (month <= 2);
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t yoe = y - era * 400;
	int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

	return era * 146097 + doe - 719468;
}

void
clock_civil(int64_t days, int *year, int *month, int *day)
{
	int64_t z = days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;

	*day = (int)(doy - (153 * mp + 2) / 5 + 1);
	*month = (int)(mp < 10 ? mp + 3 : mp - 9);
	*year = (int)(yoe + era * 400 + (*month <= 2));
}

int
clock_month_days(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	if (month < 1 || month > 12)
		return 0;
	return days[month - 1] + (month == 2 && leap);
}

static int64_t
floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Whole seconds within years 0 to 9999, and the microseconds beyond them. */
static int64_t
clamp_split(int64_t us, int *ret_frac)
{
	int64_t s = floor_div(us, US_PER_S);

	if (s < CLOCK_S_MIN || s > CLOCK_S_MAX) {
		*ret_frac = s < CLOCK_S_MIN ? 0 : (int)US_PER_S - 1;
		return s < CLOCK_S_MIN ? CLOCK_S_MIN : CLOCK_S_MAX;
	}
	*ret_frac = (int)(us - s * US_PER_S);
	return s;
}

/* Fixed digits by hand: snprintf would be most of the cost of a log record's time. */
static char *
put_digits(char *p, int v, int n)
{
	for (int i = n - 1; i >= 0; i--, v /= 10)
		p[i] = (char)('0' + v % 10);
	return p + n;
}

static char *
put_seconds(char *p, int64_t s)
{
	int64_t days = floor_div(s, S_PER_DAY);
	int rest = (int)(s - days * S_PER_DAY), year, month, day;

	clock_civil(days, &year, &month, &day);
	p = put_digits(p, year, 4);
	*p++ = '-';
	p = put_digits(p, month, 2);
	*p++ = '-';
	p = put_digits(p, day, 2);
	*p++ = 'T';
	p = put_digits(p, rest / 3600, 2);
	*p++ = ':';
	p = put_digits(p, rest / 60 % 60, 2);
	*p++ = ':';
	return put_digits(p, rest % 60, 2);
}

void
clock_format(int64_t us, char out[CLOCK_TEXT_SIZE])
{
	int frac;
	char *p = put_seconds(out, clamp_split(us, &frac));

	*p++ = '.';
	p = put_digits(p, frac, 6);
	*p++ = 'Z';
	*p = '\0';
}

void
clock_format_s(int64_t us, char out[CLOCK_TEXT_SIZE])
{
	int frac;
	char *p = put_seconds(out, clamp_split(us, &frac));

	*p++ = 'Z';
	*p = '\0';
}

/* Digits only where digits belong; the values are judged later. */
static bool
has_shape(struct str s)
{
	static const char shape[] = "dddd-dd-ddTdd:dd:dd.dddddd";
	size_t n = 19; /* of it without the fraction */

	if (s.n < n + 1 || s.n > sizeof(shape) || s.p[s.n - 1] != 'Z')
		return false;
	for (size_t i = 0; i < s.n - 1; i++)
		if (shape[i] == 'd' ? s.p[i] < '0' || s.p[i] > '9' : s.p[i] != shape[i])
			return false;
	return s.n == n + 1 || s.n >= n + 3; /* a point has digits behind it */
}

static int
digits(struct str s, size_t at, size_t n)
{
	int v = 0;

	for (size_t i = at; i < at + n; i++)
		v = v * 10 + (s.p[i] - '0');
	return v;
}

int
clock_parse(struct str s, int64_t *ret_us, struct err *err)
{
	int y, mo, d, h, mi, sec, frac = 0;
	int64_t t;

	if (!has_shape(s))
		return err_set(err, ERR_INVALID,
		    "time must look like 2026-03-11T12:00:05Z (UTC, at most 6 decimals)");
	y = digits(s, 0, 4);
	mo = digits(s, 5, 2);
	d = digits(s, 8, 2);
	h = digits(s, 11, 2);
	mi = digits(s, 14, 2);
	sec = digits(s, 17, 2);
	if (mo < 1 || mo > 12)
		return err_set(err, ERR_INVALID, "month must be from 1 to 12, is %d", mo);
	if (d < 1 || d > clock_month_days(y, mo))
		return err_set(err, ERR_INVALID, "day must be from 1 to %d in %04d-%02d, is %d",
		    clock_month_days(y, mo), y, mo, d);
	if (h > 23 || mi > 59 || sec > 59)
		return err_set(err, ERR_INVALID,
		    "time of day must be from 00:00:00 to 23:59:59, is %02d:%02d:%02d", h, mi, sec);
	for (size_t i = 0; i < 6; i++)
		frac = frac * 10 + (20 + i < s.n - 1 ? s.p[20 + i] - '0' : 0);
	t = clock_days(y, mo, d) * S_PER_DAY + h * 3600 + mi * 60 + sec;
	*ret_us = t * US_PER_S + frac;
	return 0;
}
