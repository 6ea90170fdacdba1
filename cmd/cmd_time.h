/* An instant as people give it to a command. */
#ifndef CMD_CMD_TIME_H
#define CMD_CMD_TIME_H

#include <stdbool.h>
#include <stdint.h>

#define CMD_TIME_WANTED "as 2026-11-29T14:00:00Z, 2026-11-29, 90s, 15m, 2h or 7d"

/* An instant, a day (its first or, with end, last microsecond), or as long ago as 90s, 15m, 2h, 7d;
 * in microseconds. False: it is none of these. */
bool cmd_time_read(const char *arg, bool end, int64_t *ret_us);

#endif
