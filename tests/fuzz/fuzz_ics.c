/*
 * Fuzzes the reader of calendar files: what it takes it must lay out without a crash, and every
 * window must begin before it ends, in the instants that its own zone has.
 */
#include <assert.h>

#include "common/clock.h"
#include "policy/ics.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
windows(const struct ics *ics, const struct tz *tz, bool open, struct arena *mem)
{
	const struct ics_how how = {
	    .tz = tz, .open = open, .limit_s = clock_days(2100, 1, 1) * 86400, .name = "x.ics"};
	struct ics_window *w = NULL;
	struct err err = {0};
	size_t n = 0;

	if (ics_windows(ics, &how, mem, &w, &n, &err) != 0) {
		assert(err.code < 0 && err.msg[0] != '\0');
		return;
	}
	assert(n <= ICS_WINDOWS_MAX);
	for (size_t i = 0; i < n; i++)
		assert(w[i].from < w[i].to && w[i].event >= ics->v && w[i].event < ics->v + ics->n);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *mem = arena_new((size_t)256 << 20);
	AUTO(tz) struct tz *tz = NULL;
	struct err err = {0};
	struct ics ics;

	if (ics_read(str_mem(data, size), "x.ics", mem, &ics, &err) != 0) {
		assert(err.code < 0 && err.msg[0] != '\0');
	} else if (tz_load(NULL, STR("Europe/London"), &tz, &err) == 0) {
		windows(&ics, tz, false, mem);
		windows(&ics, tz, true, mem);
		windows(&ics, NULL, false, mem);
	}
	arena_free(mem);
	return 0;
}
