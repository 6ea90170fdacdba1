/*
 * Fuzzes the TZif reader: a file that is accepted must answer every question without a
 * crash, and each instant it names for a wall clock reading must read so.
 */
#include <assert.h>

#include "common/tz.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
ask(const struct tz *z, int64_t t)
{
	int32_t off = tz_offset(z, t);
	int64_t out[2], local;
	int n;

	assert(off >= -89999 && off <= 93599);
	if (t > INT64_MAX / 8 || t < INT64_MIN / 8) {
		(void)tz_local(z, t, out);
		return;
	}
	local = t + off;
	n = tz_local(z, local, out);
	assert(n >= 1 && n <= 2 && out[0] <= t && (n == 1 ? out[0] == t : out[1] >= t));
	for (int i = 0; i < n; i++)
		assert(out[i] + tz_offset(z, out[i]) == local);
	n = tz_local(z, t, out);
	assert(n == 1 || out[0] < out[1]);
	for (int i = 0; n == 0 && i < 2; i++)
		assert(out[i] + tz_offset(z, out[i]) != t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(tz) struct tz *z = NULL;
	struct err e = {0};

	if (tz_parse(str_mem(data, size), &z, &e) != 0) {
		assert(e.code < 0 && e.msg[0] != '\0');
		return 0;
	}
	ask(z, INT64_MIN);
	ask(z, INT64_MAX);
	for (int64_t t = -2208988800; t < 4102444800; t += 40000003)
		ask(z, t);
	return 0;
}
