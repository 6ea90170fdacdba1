/* The compiled calendars of a policy, for people: `policy calendar`, `check`, `explain`. */
#ifndef POLICY_CALENDAR_H
#define POLICY_CALENDAR_H

#include "policy/policy.h"

struct policy_calendar {
	struct str id, tz;
	bool open;		      /* else a freeze */
	int64_t valid_from, valid_to; /* seconds since 1970Z, [from, to) */
	size_t nintervals;
};
size_t policy_calendar_count(const struct policy *p);
struct policy_calendar policy_calendar_at(const struct policy *p, size_t i);
/* Interval i of calendar c: [from, to), seconds since 1970Z. */
void policy_calendar_interval(
    const struct policy *p, size_t c, size_t i, int64_t *ret_from, int64_t *ret_to);

#endif
