/*
 * An instant as people give it to a command: an instant in UTC, a day, or how long ago. Runs in
 * `cofferdam COMMAND`, as the person who types it. It takes no local time and never guesses one.
 */
#include "cmd/cmd_time.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/str.h"

#include "common/banned.h"

#define AGO_MAX 1000000

bool
cmd_time_read(const char *arg, bool end, int64_t *ret_us)
{
	static const struct {
		char unit;
		int64_t us;
	} units[] = {{'s', 1000000}, {'m', 60000000}, {'h', 3600000000}, {'d', 86400000000}};
	struct str s = str_z(arg);
	char day[CLOCK_TEXT_SIZE];
	uint64_t n;

	if (clock_parse(s, ret_us, NULL) == 0)
		return true;
	if (s.n == 10) {
		(void)snprintf(
		    day, sizeof(day), "%s%s", arg, end ? "T23:59:59.999999Z" : "T00:00:00.000000Z");
		if (clock_parse(str_z(day), ret_us, NULL) == 0)
			return true;
	}
	for (size_t i = 0; s.n > 1 && i < ARRAY_LEN(units); i++)
		if (s.p[s.n - 1] == units[i].unit &&
		    str_to_u64(str_mem(s.p, s.n - 1), AGO_MAX, &n)) {
			*ret_us = clock_wall_us() - (int64_t)n * units[i].us;
			return true;
		}
	return false;
}
