/*
 * The POSIX rule at the end of a TZif file ("CET-1CEST,M3.5.0,M10.5.0/3"), which holds
 * after its last transition. Between tz.c and tz_rule.c.
 */
#ifndef COMMON_TZ_RULE_H
#define COMMON_TZ_RULE_H

#include "common/err.h"
#include "common/str.h"

enum tz_day { TZ_DAY_MONTH_WEEK = 1, TZ_DAY_JULIAN = 2, TZ_DAY_ZERO = 3 };

struct tz_change {
	enum tz_day kind;
	int month, week, day; /* Mm.w.d; else only day: Jn from 1 without 29 Feb., or n from 0 */
	int32_t time;	      /* seconds of wall clock after midnight, -167 h to 167 h */
};

struct tz_rule {
	int32_t std, dst; /* seconds east of UTC; equal if there is no second kind of time */
	bool has_dst;
	struct tz_change start, end;
};

/* The whole of s, with the extensions of RFC 8536 3.3.1; ERR_INVALID names the place. */
int tz_rule_parse(struct str s, struct tz_rule *ret, struct err *err);
int32_t tz_rule_offset(const struct tz_rule *r, int64_t utc_s);

#endif
