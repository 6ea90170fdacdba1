/*
 * Events of an iCalendar file (RFC 5545), read strictly, for `policy import-ics`. What is not
 * exactly understood is refused with its line: a freeze that is read wrong ends early. Times are
 * taken as wall clock of one zone; common/tz.h says which instants they are.
 */
#ifndef POLICY_ICS_H
#define POLICY_ICS_H

#include "common/arena.h"
#include "common/tz.h"

#define ICS_SIZE_MAX ((size_t)1 << 20)
#define ICS_EVENTS_MAX 1000
#define ICS_WINDOWS_MAX 1024 /* as "once" of a calendar takes */
#define ICS_LINE_MAX 8192    /* unfolded */

enum ics_freq { ICS_ONCE = 0, ICS_DAILY, ICS_WEEKLY, ICS_MONTHLY, ICS_YEARLY };

/* A time as written: seconds since 1970 as if UTC. */
struct ics_time {
	int64_t s;
	bool date; /* a day, s is its midnight */
	bool utc;
	struct str tzid; /* empty: utc, or a day */
};

#define ICS_BY_MAX 64
struct ics_rule {
	enum ics_freq freq;
	unsigned interval, count; /* count 0: not said */
	bool has_until;
	struct ics_time until;
	unsigned week_start; /* 0: Monday */
	size_t ndays, nmonths, nmonthdays;
	struct {
		int nth; /* 0: every */
		unsigned day;
	} days[ICS_BY_MAX];
	uint8_t months[12];
	int8_t monthdays[ICS_BY_MAX];
};

struct ics_event {
	unsigned line; /* of BEGIN:VEVENT */
	struct str uid, summary;
	bool cancelled;
	struct ics_time start, end;
	bool has_end, has_duration;
	int64_t days, seconds; /* DURATION: days by the wall clock, then elapsed seconds */
	struct ics_rule rule;
	size_t nexcept;
	struct ics_time *except;
};

struct ics {
	size_t n;
	struct ics_event *v;
	struct str tzid; /* the one zone of all events that have one; empty: none has */
	bool has_days;	 /* events of whole days, in whatever zone they are read */
};

/* name for messages. Strings live in mem or borrow text. */
int ics_read(
    struct str text, const char *name, struct arena *mem, struct ics *ret, struct err *err);

/*
 * Starts of an event as seconds of wall clock, before its exceptions, in order. tz: of ics.tzid;
 * may be NULL for UTC. ERR_TOO_LARGE: more than max before limit_s. ERR_INVALID: it never ends, or
 * DTSTART is none of them.
 */
int ics_starts(const struct ics_event *e, const struct tz *tz, int64_t limit_s, int64_t *ret,
    size_t max, size_t *ret_n, struct err *err);

struct ics_window {
	const struct ics_event *event;
	int64_t from, to;	   /* instants */
	bool from_twice, to_twice; /* a clock change makes it come twice, or not at all */
	bool two_ends;		   /* it ends apart by the wall clock and by elapsed time */
};
struct ics_how {
	const struct tz *tz; /* of ics.tzid, or in which whole days are; NULL: UTC */
	bool open;	     /* the shorter reading is taken; else a freeze, the longer */
	int64_t limit_s;     /* of the wall clock; INT64_MAX: rules must end by themselves */
	const char *name;
};
/*
 * All windows in the order of the file; events that are cancelled have none. An exception that
 * cancels nothing is an error. *ret lives in mem.
 */
int ics_windows(const struct ics *ics, const struct ics_how *how, struct arena *mem,
    struct ics_window **ret, size_t *ret_n, struct err *err);

/* Between the files: one value; false: it is not exactly of the form. */
bool ics_parse_time(struct str s, bool date, struct ics_time *ret);
bool ics_parse_duration(struct str s, int64_t *ret_days, int64_t *ret_seconds);
/* Why a RRULE is refused; NULL: it is not. */
const char *ics_parse_rule(struct str s, struct ics_rule *ret);

#endif
