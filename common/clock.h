/*
 * Time as a value. Whoever needs the wall clock gets it handed in, so that a test can
 * choose it and a replay can repeat it. Instants are microseconds since 1970-01-01Z.
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include "common/err.h"
#include "common/str.h"

enum clock_mode { CLOCK_MODE_KERNEL_SYNC = 0, CLOCK_MODE_TRUSTED = 1 };

struct instant {
	int64_t us; /* wall clock */
	bool known; /* false: unsynchronised or gone backwards; counts as frozen */
};

/* The wall clock now, judged by mode (adjtimex(2) STA_UNSYNC) and against not_before_us (last log
 * record). */
struct instant clock_now(enum clock_mode mode, int64_t not_before_us);
int64_t clock_wall_us(void);
uint64_t clock_boot_us(void); /* CLOCK_BOOTTIME, for durations */

#define CLOCK_TEXT_SIZE 28 /* "2026-11-29T14:31:13.000000Z" and NUL */
/* RFC 3339, UTC, six decimals; years 0000 to 9999 (others are clamped). */
void clock_format(int64_t us, char out[CLOCK_TEXT_SIZE]);
/* "2026-03-11T12:00:05Z", whole seconds (rounded down): out[21]. */
void clock_format_s(int64_t us, char out[CLOCK_TEXT_SIZE]);
/* RFC 3339 with Z only, 0 to 6 decimals; every field range-checked (30 February is an error). */
int clock_parse(struct str s, int64_t *ret_us, struct err *err);
/* Days since 1970-01-01 of a proleptic Gregorian date, and back. Month and day are 1-based, checked
 * by the caller. */
int64_t clock_days(int year, int month, int day);
void clock_civil(int64_t days, int *year, int *month, int *day);
int clock_month_days(int year, int month);

#endif
