/* Wall-clock times of calendars while they are compiled; see policy_compile.c. */
#ifndef POLICY_POLICY_WALL_H
#define POLICY_POLICY_WALL_H

#include "common/tz.h"
#include "policy/policy_internal.h"

/* One wall-clock time as instants: equal but at a clock change. */
struct reading {
	int64_t early, late;
};

struct compiler {
	struct reader *r;
	struct calendar *cal;
	struct tz *tz;
	struct interval *iv; /* unsorted */
	size_t n, cap;
};

struct reading wall_read(const struct compiler *c, int64_t local_s);
/*
 * The window between two times, cut to `valid`. A freeze takes the early reading of its start
 * and the late one of its end, an open window the opposite; narrowed to nothing, it is dropped.
 */
void wall_window_put(struct compiler *c, struct reading start, struct reading end);

/* Each takes its text off the front of *s; false: it is not there. */
/* HH:MM[:SS] as seconds of the day; 24:00 only where it may stand for the day's end. */
bool wall_parse_clock(struct str *s, bool is_end, int64_t *ret);
bool wall_parse_date(struct str *s, int64_t *ret_days); /* days since 1970-01-01 */
bool wall_parse_day(struct str *s, unsigned *ret);	/* "Mon" is 0 */

#endif
