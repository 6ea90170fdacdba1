/*
 * Months of a calendar for the terminal of whoever asks `cofferdam policy calendar`. Only prints.
 * Says the same with and without colour: every day that is marked has its mark as a letter, too.
 */
#include <string.h>

#include "cmd/cmd_policy_calendar.h"

#include "common/banned.h"

#define DAY 86400
#define GRID 28 /* columns of one month */
#define GAP 3

enum day { DAY_FREE, DAY_PART, DAY_ALL, DAY_UNKNOWN };

static int64_t
midnight(const struct tz *z, int64_t day)
{
	int64_t out[2];
	int n = tz_local(z, day * DAY, out);

	/* Skipped or twice: the first instant that belongs to the day. */
	return n == 0 ? out[1] : out[0];
}

/* How much of a day (in its zone) the calendar covers. */
static enum day
day_state(const struct policy *p, size_t i, const struct tz *z, int64_t day)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	int64_t from = midnight(z, day), to = midnight(z, day + 1), inside = 0;

	if (from >= c.valid_to || to <= c.valid_from)
		return DAY_UNKNOWN;
	for (size_t k = 0; k < c.nintervals; k++) {
		int64_t f, t;

		policy_calendar_interval(p, i, k, &f, &t);
		f = f > from ? f : from;
		t = t < to ? t : to;
		if (t > f)
			inside += t - f;
	}
	if (inside == 0)
		return from < c.valid_from || to > c.valid_to ? DAY_UNKNOWN : DAY_FREE;
	return inside == to - from ? DAY_ALL : DAY_PART;
}

static void
put_day(struct buf *out, const struct policy *p, size_t i, const struct tz *z, int64_t day,
    const struct calendar_view *v)
{
	static const char marks[] = {' ', '+', '#', '?'};
	bool open = policy_calendar_at(p, i).open;
	enum day d = day_state(p, i, z, day);
	const char *const colours[] = {
	    "", open ? "\033[32m" : "\033[33m", open ? "\033[30;42m" : "\033[37;41m", "\033[35m"};
	int y, m, n;

	clock_civil(day, &y, &m, &n);
	if (v->colour && d != DAY_FREE)
		buf_printf(out, "%s%3d%c\033[0m", colours[d], n, marks[d]);
	else
		buf_printf(out, "%3d%c", n, marks[d]);
}

/* Line `row` of a month: 0 its name, 1 the days of the week, then up to six weeks. */
static void
put_row(struct buf *out, const struct policy *p, size_t i, const struct tz *z, int year, int month,
    unsigned row, const struct calendar_view *v)
{
	static const char *const names[] = {"January", "February", "March", "April", "May", "June",
	    "July", "August", "September", "October", "November", "December"};
	int64_t first = clock_days(year, month, 1);
	int lead = (int)((first + 3) % 7 + 7) % 7; /* 1970-01-01 was a Thursday; 0: Monday */

	if (row == 0) {
		char title[GRID + 1];

		(void)snprintf(title, sizeof(title), "%s %d", names[month - 1], year);
		buf_printf(out, "%*s%-*s", 1, "", GRID - 1, title);
		return;
	}
	if (row == 1) {
		buf_put_z(out, " Mo  Tu  We  Th  Fr  Sa  Su ");
		return;
	}
	for (int w = 0; w < 7; w++) {
		int n = (int)(row - 2) * 7 + w - lead + 1;

		if (n < 1 || n > clock_month_days(year, month))
			buf_put_z(out, "    ");
		else
			put_day(out, p, i, z, first + n - 1, v);
	}
}

static unsigned
rows(int year, int month)
{
	int lead = (int)((clock_days(year, month, 1) + 3) % 7 + 7) % 7;

	return 2 + (unsigned)(lead + clock_month_days(year, month) + 6) / 7;
}

static void
step(int *year, int *month)
{
	if (++*month > 12) {
		*month = 1;
		++*year;
	}
}

void
calendar_month_print(
    FILE *f, const struct policy *p, size_t i, const struct tz *z, const struct calendar_view *v)
{
	unsigned total = v->month == 0 ? 12 : v->months, beside = (v->width + GAP) / (GRID + GAP);
	int year = v->year, month = v->month == 0 ? 1 : v->month;

	beside = beside == 0 ? 1 : beside > total ? total : beside;
	for (unsigned done = 0; done < total; done += beside) {
		unsigned here = total - done < beside ? total - done : beside, high = 0;
		int y = year, m = month;

		for (unsigned k = 0; k < here; k++, step(&y, &m))
			high = rows(y, m) > high ? rows(y, m) : high;
		for (unsigned r = 0; r < high; r++) {
			AUTO_BUF struct buf line = BUF(8192);

			y = year;
			m = month;
			for (unsigned k = 0; k < here; k++, step(&y, &m)) {
				buf_printf(&line, "%*s", k != 0 ? GAP : 0, "");
				put_row(&line, p, i, z, y, m, r, v);
			}
			while (line.n != 0 && line.p[line.n - 1] == ' ')
				line.n--;
			(void)fprintf(f, "%.*s\n", STR_ARG(buf_str(&line)));
		}
		year = y;
		month = m;
		if (done + beside < total)
			(void)fputc('\n', f);
	}
}
