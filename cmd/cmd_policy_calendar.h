/* Between the files of `cofferdam policy calendar`. */
#ifndef CMD_CMD_POLICY_CALENDAR_H
#define CMD_CMD_POLICY_CALENDAR_H

#include <stdio.h>

#include "cmd/cmd_args.h"
#include "common/tz.h"
#include "policy/calendar.h"

enum calendar_colour { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };
enum calendar_form { FORM_PEOPLE, FORM_LIST, FORM_ICS, FORM_JSON };

struct calendar_args {
	const char *file, *month_text, *year_text;
	struct arg_many names;
	enum calendar_form form;
	bool cases;
	int64_t from_us, to_us, at_us; /* of the first two INT64_MIN and INT64_MAX: not given */
	int year, month;	       /* year 0: not given; month 0: all of it */
	uint32_t changes;
	enum calendar_colour colour;
};
/* False, and said: what is wrong. */
bool calendar_args_read(int argc, char **argv, struct calendar_args *a);

enum calendar_state { CALENDAR_OUTSIDE = 0, CALENDAR_INSIDE, CALENDAR_UNKNOWN };
/* One calendar at second s; *ret_until (may be NULL): when that ends, 0 if nobody knows. */
enum calendar_state calendar_state(const struct policy *p, size_t i, int64_t s, int64_t *ret_until);
/* "Fri 2026-12-18 18:00:00 +00:00" */
void calendar_local_put(struct buf *out, const struct tz *z, int64_t s);

struct calendar_view {
	int year, month; /* month 0: the whole year */
	unsigned months; /* of a month: how many */
	bool colour;
	unsigned width;
};
/* A grid of days of one calendar in its own zone: "#" all of the day, "+" a part, "?" unknown. */
void calendar_month_print(
    FILE *f, const struct policy *p, size_t i, const struct tz *z, const struct calendar_view *v);
/* All windows of the calendars chosen as RFC 5545, UTC. stamp_us: of the export. */
void calendar_ics_put(struct buf *out, const struct policy *p, const char *const *names,
    size_t nnames, int64_t stamp_us);
bool calendar_is_chosen(const struct policy *p, size_t i, const char *const *names, size_t nnames);

#endif
