/*
 * Exact sliding windows: how much was counted under a name within its time. The writer keeps them
 * from the records, core counts by them. Memory is bounded; a window for which there was no room
 * is lost, and says so until it would have run out.
 */
#ifndef AUDIT_RATES_H
#define AUDIT_RATES_H

#include "common/buf.h"
#include "common/str.h"

#define RATES_WINDOWS_MAX 16384
#define RATES_MARKS_MAX ((size_t)1 << 20) /* over all windows, 16 bytes each */

/* A rule whose numbers change begins anew: all five are the name. */
struct rate_name {
	struct str rule, key, per; /* key: the run, owner, agent or target */
	unsigned over;
	int64_t in_s;
};

struct rates;
struct rates *rates_new(void);
void rates_free(struct rates *r);
void rates_clear(struct rates *r);
/* False: names were lost for which there is no window, at this instant still. */
bool rates_whole(const struct rates *r, int64_t at_us);
/* n more at this instant, not before the last of that name. */
void rates_add(struct rates *r, const struct rate_name *name, int64_t at_us, unsigned n);
/*
 * What lies in (at - in, at], exact up to two over `over`, where more does not matter. False: it
 * is not known.
 */
bool rates_count(const struct rates *r, const struct rate_name *name, int64_t at_us, unsigned *ret);

/*
 * One window as canonical JSON {"data":{...},"time":"...","type":"rate"} for each of those that are
 * not over at at_us, in parts of at most RATES_TOLD_MAX bytes; and reading one back.
 */
#define RATES_TOLD_MAX ((size_t)65536)
typedef void rates_fn(void *arg, struct str body);
void rates_tell(const struct rates *r, int64_t at_us, rates_fn *fn, void *arg);
struct json;
bool rates_told(struct rates *r, const struct json *data);
/* `counted` of an action's decision, canonical: [{"in","key","over","per","rule"},...]. */
void rates_counted(struct rates *r, struct str counted, int64_t at_us, unsigned n);

#endif
