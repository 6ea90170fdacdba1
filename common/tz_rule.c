/*
 * POSIX TZ rules: parse and apply. Runs where tz.c runs; the text stands in a zone file
 * and is read as strictly as if an attacker had written it. Never falls back to the
 * "default rule" of POSIX: daylight time without dates is refused.
 */
#include "common/tz_rule.h"

#include "common/clock.h"

#include "common/banned.h"

#define S_PER_DAY INT64_C(86400)
/* The Gregorian calendar repeats itself, weekdays too, after 400 years. */
#define CYCLE (INT64_C(146097) * S_PER_DAY)

static bool
take(struct str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	s->p++;
	s->n--;
	return true;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_alpha(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* 1 to 3 digits, from min to max. */
static bool
take_number(struct str *s, int min, int max, int *ret)
{
	int v = 0, n = 0;

	while (s->n != 0 && is_digit(s->p[0]) && n < 3) {
		v = v * 10 + (s->p[0] - '0');
		s->p++;
		s->n--;
		n++;
	}
	if (n == 0 || v < min || v > max)
		return false;
	*ret = v;
	return true;
}

/* Three letters or more, or <letters, digits, + and ->. */
static bool
take_name(struct str *s)
{
	bool quoted = take(s, '<');
	size_t n = 0;

	while (n < s->n && (is_alpha(s->p[n]) ||
			       (quoted && (is_digit(s->p[n]) || s->p[n] == '+' || s->p[n] == '-'))))
		n++;
	s->p += n;
	s->n -= n;
	return n >= 3 && (!quoted || take(s, '>'));
}

/* [+-]h[h[h]][:mm[:ss]] */
static bool
take_time(struct str *s, int hours_max, int32_t *ret)
{
	bool minus = take(s, '-');
	int h, m = 0, sec = 0;

	if (!minus)
		(void)take(s, '+');
	if (!take_number(s, 0, hours_max, &h))
		return false;
	if (take(s, ':')) {
		if (!take_number(s, 0, 59, &m))
			return false;
		if (take(s, ':') && !take_number(s, 0, 59, &sec))
			return false;
	}
	*ret = (minus ? -1 : 1) * (h * 3600 + m * 60 + sec);
	return true;
}

static bool
take_change(struct str *s, struct tz_change *c)
{
	*c = (struct tz_change){.time = 2 * 3600};
	if (!take(s, ','))
		return false;
	if (take(s, 'M')) {
		c->kind = TZ_DAY_MONTH_WEEK;
		if (!take_number(s, 1, 12, &c->month) || !take(s, '.') ||
		    !take_number(s, 1, 5, &c->week) || !take(s, '.') ||
		    !take_number(s, 0, 6, &c->day))
			return false;
	} else if (take(s, 'J')) {
		c->kind = TZ_DAY_JULIAN;
		if (!take_number(s, 1, 365, &c->day))
			return false;
	} else {
		c->kind = TZ_DAY_ZERO;
		if (!take_number(s, 0, 365, &c->day))
			return false;
	}
	return !take(s, '/') || take_time(s, 167, &c->time);
}

int
tz_rule_parse(struct str s, struct tz_rule *ret, struct err *err)
{
	struct tz_rule r = {0};
	size_t n = s.n;
	bool ok;

	/* POSIX counts west of Greenwich; we count east. */
	ok = take_name(&s) && take_time(&s, 24, &r.std);
	r.std = -r.std;
	r.dst = r.std;
	if (ok && s.n != 0) {
		r.has_dst = true;
		r.dst = r.std + 3600;
		ok = take_name(&s);
		if (ok && s.n != 0 && s.p[0] != ',') {
			ok = take_time(&s, 24, &r.dst);
			r.dst = -r.dst;
		}
		ok = ok && take_change(&s, &r.start) && take_change(&s, &r.end);
	}
	if (!ok || s.n != 0)
		return err_set(err, ERR_INVALID,
		    "POSIX time zone rule is malformed at character %zu", n - s.n + 1);
	*ret = r;
	return 0;
}

/* Days since 1970 of the change in that year. */
static int64_t
change_day(const struct tz_change *c, int year)
{
	int64_t day;

	switch (c->kind) {
	case TZ_DAY_MONTH_WEEK: {
		int64_t first = clock_days(year, c->month, 1);
		int weekday = (int)((first % 7 + 11) % 7); /* 1970-01-01 was a Thursday (4) */
		int d = (c->day - weekday + 7) % 7 + 7 * (c->week - 1);

		if (d >= clock_month_days(year, c->month))
			d -= 7; /* week 5 means the last */
		return first + d;
	}
	case TZ_DAY_JULIAN:
		day = c->day - 1;
		if (c->day >= 60 && clock_month_days(year, 2) == 29)
			day++;
		return clock_days(year, 1, 1) + day;
	case TZ_DAY_ZERO: return clock_days(year, 1, 1) + c->day;
	}
	return 0;
}

/* The instant of the change; `before` is the offset that its wall clock shows. */
static int64_t
change_at(const struct tz_change *c, int year, int32_t before)
{
	return change_day(c, year) * S_PER_DAY + c->time - before;
}

/*
 * The last change not after t decides. Its year may be the one before or after (times go
 * beyond a day, and all-year daylight time ends as it begins): look at all three. When both
 * fall on one instant the start wins, as RFC 8536 3.3.1 has it for permanent daylight time.
 */
int32_t
tz_rule_offset(const struct tz_rule *r, int64_t t)
{
	int64_t best = INT64_MIN, days;
	bool dst = false;
	int year, month, day;

	if (!r->has_dst)
		return r->std;
	t %= CYCLE;
	days = (t + r->std) / S_PER_DAY - ((t + r->std) % S_PER_DAY < 0);
	clock_civil(days, &year, &month, &day);
	for (int y = year - 1; y <= year + 1; y++) {
		int64_t on = change_at(&r->start, y, r->std), off = change_at(&r->end, y, r->dst);

		if (off <= t && off > best) {
			best = off;
			dst = false;
		}
		if (on <= t && on >= best) {
			best = on;
			dst = true;
		}
	}
	return dst ? r->dst : r->std;
}
