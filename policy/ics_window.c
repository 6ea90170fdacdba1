/*
 * Events to windows: recurrence day by day, and wall clock to instants by common/tz. Runs in the
 * command line alone. Where the standard and people read an end differently (a freeze over a clock
 * change), the reading that tightens is taken and said.
 */
#include "policy/ics.h"

#include "common/clock.h"

#include "common/banned.h"

#define DAY 86400
#define DAYS_MAX (100 * 366)

/* --- which days ---------------------------------------------------------------------- */

struct day {
	int64_t n; /* since 1970 */
	int year, month, mday, month_days;
	unsigned weekday; /* 0: Monday */
};

static struct day
day_of(int64_t n)
{
	struct day d = {.n = n, .weekday = (unsigned)(((n + 3) % 7 + 7) % 7)};

	clock_civil(n, &d.year, &d.month, &d.mday);
	d.month_days = clock_month_days(d.year, d.month);
	return d;
}

/* The period that a day is in, counted from that of the first. */
static int64_t
period(const struct ics_rule *r, const struct day *first, const struct day *d)
{
	int64_t shift = (int64_t)((first->weekday + 7 - r->week_start) % 7);

	switch (r->freq) {
	case ICS_ONCE: return 0;
	case ICS_DAILY: return d->n - first->n;
	case ICS_WEEKLY: return (d->n - first->n + shift) / 7;
	case ICS_MONTHLY: return (int64_t)(d->year - first->year) * 12 + d->month - first->month;
	case ICS_YEARLY: return d->year - first->year;
	}
	return 0;
}

static bool
in_days(const struct ics_rule *r, const struct day *d)
{
	for (size_t i = 0; i < r->ndays; i++) {
		int nth = r->days[i].nth;

		if (r->days[i].day != d->weekday)
			continue;
		if (nth == 0 || (nth > 0 && (d->mday - 1) / 7 + 1 == nth) ||
		    (nth < 0 && (d->month_days - d->mday) / 7 + 1 == -nth))
			return true;
	}
	return false;
}

static bool
in_month_days(const struct ics_rule *r, const struct day *d)
{
	for (size_t i = 0; i < r->nmonthdays; i++)
		if (r->monthdays[i] == d->mday || r->monthdays[i] == d->mday - d->month_days - 1)
			return true;
	return false;
}

static bool
in_months(const struct ics_rule *r, const struct day *d)
{
	for (size_t i = 0; i < r->nmonths; i++)
		if (r->months[i] == d->month)
			return true;
	return false;
}

/* What a rule does not say is as of its first day (RFC 5545 3.3.10). */
static bool
matches(const struct ics_rule *r, const struct day *first, const struct day *d)
{
	if (r->freq == ICS_ONCE)
		return d->n == first->n;
	if (period(r, first, d) % r->interval != 0)
		return false;
	if (r->nmonths != 0 ? !in_months(r, d) : r->freq == ICS_YEARLY && d->month != first->month)
		return false;
	if (r->nmonthdays != 0 && !in_month_days(r, d))
		return false;
	if (r->ndays != 0)
		return in_days(r, d);
	if (r->freq == ICS_WEEKLY)
		return d->weekday == first->weekday;
	return r->freq == ICS_DAILY || r->nmonthdays != 0 || d->mday == first->mday;
}

/* --- starts -------------------------------------------------------------------------- */

struct reading {
	int64_t early, late;
};

static struct reading
readings(const struct tz *tz, int64_t wall)
{
	int64_t out[2];
	int n = tz != NULL ? tz_local(tz, wall, out) : 1;

	if (tz == NULL)
		return (struct reading){wall, wall};
	return (struct reading){out[0], n == 1 ? out[0] : out[1]};
}

/* Its own zone: UTC, or that of all. */
static const struct tz *
zone_of(const struct ics_event *e, const struct tz *tz)
{
	return e->start.utc ? NULL : tz;
}

static bool
is_after_until(const struct ics_event *e, const struct tz *tz, int64_t wall)
{
	if (!e->rule.has_until)
		return false;
	return (e->start.date ? wall : readings(zone_of(e, tz), wall).early) > e->rule.until.s;
}

int
ics_starts(const struct ics_event *e, const struct tz *tz, int64_t limit_s, int64_t *ret,
    size_t max, size_t *ret_n, struct err *err)
{
	const struct ics_rule *r = &e->rule;
	const struct day first = day_of(e->start.s / DAY);
	int64_t tod = e->start.s % DAY;
	size_t n = 0;

	if (r->freq != ICS_ONCE && r->count == 0 && !r->has_until && limit_s == INT64_MAX)
		return err_set(err, ERR_INVALID, "the rule never ends: say until when, by --to");
	if (!matches(r, &first, &first))
		return err_set(err, ERR_INVALID,
		    "DTSTART is none of the days of its rule: what that means is not said");
	for (int64_t d = first.n; d < first.n + DAYS_MAX; d++) {
		const struct day here = day_of(d);
		int64_t wall = d * DAY + tod;

		if (wall >= limit_s || is_after_until(e, tz, wall) ||
		    (n != 0 && r->freq == ICS_ONCE) || (r->count != 0 && n == r->count))
			break;
		if (!matches(r, &first, &here))
			continue;
		if (n == max)
			return err_set(err, ERR_TOO_LARGE, "more than %zu occurrences", max);
		ret[n++] = wall;
	}
	*ret_n = n;
	return 0;
}

/* --- windows ------------------------------------------------------------------------- */

static bool
is_twice(struct reading r)
{
	return r.early != r.late;
}

/* The reading that tightens: of a freeze its start early and its end late. */
static int64_t
tighter(struct reading r, bool is_end, bool open)
{
	return is_end == open ? r.early : r.late;
}

static void
widen(struct reading *r, int64_t more)
{
	r->early = more < r->early ? more : r->early;
	r->late = more > r->late ? more : r->late;
}

/*
 * DTEND says by the standard how long every occurrence lasts, by what people see when it ends; a
 * DURATION of days is days of the calendar, one of hours is elapsed (RFC 5545 3.3.6, 3.8.5.3).
 */
static struct reading
ends(const struct ics_event *e, const struct tz *tz, int64_t wall, struct reading from,
    bool *ret_two)
{
	struct reading end, first, last;

	if (e->has_duration) {
		end = readings(tz, wall + e->days * DAY);
		return (struct reading){end.early + e->seconds, end.late + e->seconds};
	}
	end = readings(tz, wall + (e->has_end ? e->end.s - e->start.s : DAY));
	if (e->rule.freq == ICS_ONCE || e->start.date)
		return end;
	first = readings(tz, e->start.s);
	last = readings(tz, e->end.s);
	*ret_two = from.early + (last.early - first.early) != end.early;
	widen(&end, from.early + (last.early - first.early));
	widen(&end, from.late + (last.early - first.early));
	return end;
}

static bool
is_cancelled(struct ics_event *e, const struct tz *tz, int64_t wall, bool *used)
{
	struct reading from = readings(tz, wall);
	bool any = false;

	for (size_t i = 0; i < e->nexcept; i++) {
		const struct ics_time *x = &e->except[i];
		bool hit = x->utc && !e->start.utc ? x->s == from.early || x->s == from.late
						   : x->s == wall;

		used[i] = used[i] || hit;
		any = any || hit;
	}
	return any;
}

struct windows {
	const struct ics_how *how;
	struct arena *mem;
	struct ics_window *v;
	size_t n;
	int64_t *starts;
};

static int
one_event(struct windows *w, struct ics_event *e, struct err *err)
{
	const struct tz *tz = zone_of(e, w->how->tz);
	bool *used = arena_alloc(w->mem, e->nexcept + 1);
	size_t n = 0;
	int rc = ics_starts(e, w->how->tz, w->how->limit_s, w->starts, ICS_WINDOWS_MAX, &n, err);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct reading from = readings(tz, w->starts[i]), to;
		struct ics_window one = {.event = e, .from_twice = is_twice(from)};

		if (is_cancelled(e, tz, w->starts[i], used))
			continue;
		to = ends(e, tz, w->starts[i], from, &one.two_ends);
		one.to_twice = is_twice(to) && !one.two_ends;
		one.from = tighter(from, false, w->how->open);
		one.to = tighter(to, true, w->how->open);
		if (one.from >= one.to)
			continue; /* narrowed to nothing */
		if (w->n == ICS_WINDOWS_MAX)
			return err_set(err, ERR_TOO_LARGE,
			    "more than %d windows: a calendar takes no more; say --to",
			    ICS_WINDOWS_MAX);
		w->v[w->n++] = one;
	}
	for (size_t i = 0; rc == 0 && i < e->nexcept; i++)
		if (!used[i] && e->except[i].s < w->how->limit_s)
			return err_set(err, ERR_INVALID, "an EXDATE cancels no occurrence");
	return rc;
}

int
ics_windows(const struct ics *ics, const struct ics_how *how, struct arena *mem,
    struct ics_window **ret, size_t *ret_n, struct err *err)
{
	struct windows w = {.how = how, .mem = mem};

	w.v = arena_alloc(mem, ICS_WINDOWS_MAX * sizeof(*w.v));
	w.starts = arena_alloc(mem, ICS_WINDOWS_MAX * sizeof(*w.starts));
	for (size_t i = 0; i < ics->n; i++) {
		int rc = ics->v[i].cancelled ? 0 : one_event(&w, &ics->v[i], err);

		if (rc != 0)
			return err_wrap(err, "%s:%u", how->name, ics->v[i].line);
	}
	*ret = w.v;
	*ret_n = w.n;
	return 0;
}
