/*
 * Values of iCalendar: dates, durations, recurrence rules. Runs in the command line alone, on
 * foreign bytes. Nothing is put right: 30 February is an error, and so is a rule with a part that
 * is not understood.
 */
#include "policy/ics.h"

#include "common/clock.h"

#include "common/banned.h"

#define DAY 86400

/* 19970714, 19970714T173000, 19970714T173000Z */
bool
ics_parse_time(struct str s, bool date, struct ics_time *ret)
{
	struct ics_time t = {.date = date};
	int y, m, d, h, min, sec;

	if (!str_digits(&s, 4, &y) || !str_digits(&s, 2, &m) || !str_digits(&s, 2, &d) ||
	    y < 1970 || y > 2200 || m < 1 || m > 12 || d < 1 || d > clock_month_days(y, m))
		return false;
	t.s = clock_days(y, m, d) * DAY;
	if (!date) {
		if (!str_skip(&s, 'T') || !str_digits(&s, 2, &h) || !str_digits(&s, 2, &min) ||
		    !str_digits(&s, 2, &sec) || h > 23 || min > 59 || sec > 59)
			return false;
		t.s += (int64_t)h * 3600 + min * 60 + sec;
		t.utc = str_skip(&s, 'Z');
	}
	if (s.n != 0)
		return false;
	*ret = t;
	return true;
}

static bool
amount(struct str *s, int64_t *ret)
{
	int64_t v = 0;
	size_t n = 0;

	while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9' && n < 7)
		v = v * 10 + (s->p[n++] - '0');
	s->p += n;
	s->n -= n;
	*ret = v;
	return n != 0;
}

/* P15DT5H0M20S, P7W: days and weeks by the calendar, the rest elapsed. Not negative, not nothing.
 */
bool
ics_parse_duration(struct str s, int64_t *ret_days, int64_t *ret_seconds)
{
	static const struct {
		char unit;
		int64_t days, seconds;
	} units[] = {{'W', 7, 0}, {'D', 1, 0}, {'H', 0, 3600}, {'M', 0, 60}, {'S', 0, 1}};
	int64_t days = 0, seconds = 0, n;
	size_t at = 0;
	bool time = false;

	(void)str_skip(&s, '+');
	if (!str_skip(&s, 'P') || s.n == 0)
		return false;
	while (s.n != 0) {
		if (!time && str_skip(&s, 'T')) {
			time = true;
			at = at < 2 ? 2 : at;
			if (s.n == 0)
				return false;
		}
		if (!amount(&s, &n) || s.n == 0)
			return false;
		while (at < 5 && (units[at].unit != s.p[0] || (at >= 2) != time))
			at++;
		if (at == 5 || (units[at].unit == 'W' && s.n != 1))
			return false;
		(void)str_skip(&s, s.p[0]);
		days += n * units[at].days;
		seconds += n * units[at].seconds;
		at++;
	}
	*ret_days = days;
	*ret_seconds = seconds;
	return days + seconds > 0 && days <= 3660 && seconds <= (int64_t)3660 * DAY;
}

/* --- rules --------------------------------------------------------------------------- */

static const char *
read_day(struct str s, struct ics_rule *r)
{
	static const char *const names[] = {"MO", "TU", "WE", "TH", "FR", "SA", "SU"};
	bool minus = str_skip(&s, '-'), sign = minus || str_skip(&s, '+');
	int64_t nth = 0;

	if (r->ndays == ICS_BY_MAX)
		return "BYDAY lists too many";
	if ((sign || (s.n != 0 && s.p[0] >= '0' && s.p[0] <= '9')) &&
	    (!amount(&s, &nth) || nth < 1 || nth > 53))
		return "BYDAY has a number that is not 1 to 53";
	for (unsigned d = 0; d < 7; d++) {
		if (!str_eqz(s, names[d]))
			continue;
		r->days[r->ndays].nth = minus ? -(int)nth : (int)nth;
		r->days[r->ndays++].day = d;
		return NULL;
	}
	return "BYDAY names no day";
}

static const char *
read_month(struct str s, struct ics_rule *r)
{
	uint64_t m;

	if (!str_to_u64(s, 12, &m) || m == 0 || r->nmonths == 12)
		return "BYMONTH must be 1 to 12";
	r->months[r->nmonths++] = (uint8_t)m;
	return NULL;
}

static const char *
read_monthday(struct str s, struct ics_rule *r)
{
	bool minus = str_skip(&s, '-');
	uint64_t d;

	if (!str_to_u64(s, 31, &d) || d == 0 || r->nmonthdays == ICS_BY_MAX)
		return "BYMONTHDAY must be 1 to 31, or -1 to -31";
	r->monthdays[r->nmonthdays++] = (int8_t)(minus ? -(int)d : (int)d);
	return NULL;
}

static const char *
each(struct str v, struct ics_rule *r, const char *(*one)(struct str, struct ics_rule *))
{
	const char *why = NULL;
	struct str head;

	while (why == NULL && str_cut(&v, ',', &head))
		why = one(head, r);
	return why != NULL ? why : one(v, r);
}

static const char *
read_freq(struct str v, struct ics_rule *r)
{
	static const char *const names[] = {NULL, "DAILY", "WEEKLY", "MONTHLY", "YEARLY"};

	for (int f = ICS_DAILY; f <= ICS_YEARLY; f++) {
		if (str_eqz(v, names[f])) {
			r->freq = (enum ics_freq)f;
			return NULL;
		}
	}
	return "FREQ must be DAILY, WEEKLY, MONTHLY or YEARLY";
}

static const char *
read_part(struct str key, struct str v, struct ics_rule *r)
{
	struct ics_rule days = {0};
	uint64_t n;

	if (str_eqz(key, "FREQ"))
		return read_freq(v, r);
	if (str_eqz(key, "INTERVAL") || str_eqz(key, "COUNT")) {
		if (!str_to_u64(v, 10000, &n) || n == 0)
			return "INTERVAL and COUNT must be 1 to 10000";
		*(key.p[0] == 'I' ? &r->interval : &r->count) = (unsigned)n;
		return NULL;
	}
	if (str_eqz(key, "UNTIL")) {
		r->has_until = ics_parse_time(v, v.n == 8, &r->until);
		return r->has_until ? NULL : "UNTIL is no date that there is";
	}
	if (str_eqz(key, "BYDAY"))
		return each(v, r, read_day);
	if (str_eqz(key, "BYMONTH"))
		return each(v, r, read_month);
	if (str_eqz(key, "BYMONTHDAY"))
		return each(v, r, read_monthday);
	if (str_eqz(key, "WKST")) {
		if (read_day(v, &days) != NULL || days.days[0].nth != 0)
			return "WKST names no day";
		r->week_start = days.days[0].day;
		return NULL;
	}
	return "only FREQ, INTERVAL, COUNT, UNTIL, BYDAY, BYMONTH, BYMONTHDAY and WKST are read";
}

/* What the standard forbids, or leaves to whoever reads it. */
static const char *
check_rule(const struct ics_rule *r)
{
	bool nth = false;

	for (size_t i = 0; i < r->ndays; i++)
		nth = nth || r->days[i].nth != 0;
	if (r->freq == ICS_ONCE)
		return "FREQ is missing";
	if (r->count != 0 && r->has_until)
		return "COUNT and UNTIL exclude one another";
	if (nth && r->freq != ICS_MONTHLY && r->freq != ICS_YEARLY)
		return "BYDAY may have numbers with MONTHLY and YEARLY alone";
	if (nth && r->freq == ICS_YEARLY && r->nmonths == 0)
		return "BYDAY with numbers in YEARLY needs BYMONTH here";
	if (r->freq == ICS_YEARLY && r->ndays + r->nmonthdays != 0 && r->nmonths == 0)
		return "YEARLY with BYDAY or BYMONTHDAY needs BYMONTH here";
	if (r->freq == ICS_WEEKLY && r->nmonthdays != 0)
		return "BYMONTHDAY has no meaning with WEEKLY";
	return NULL;
}

const char *
ics_parse_rule(struct str s, struct ics_rule *ret)
{
	struct ics_rule r = {.interval = 1};
	struct str seen[16], part, key;
	size_t n = 0;

	for (bool more = true; more;) {
		const char *why;

		more = str_cut(&s, ';', &part);
		if (!more)
			part = s;
		if (!str_cut(&part, '=', &key))
			return "a part is not NAME=VALUE";
		for (size_t i = 0; i < n; i++)
			if (str_eq(seen[i], key))
				return "a part stands twice";
		if (n == 16)
			return "it has too many parts";
		seen[n++] = key;
		why = read_part(key, part, &r);
		if (why != NULL)
			return why;
	}
	*ret = r;
	return check_rule(&r);
}
