/*
 * Fuzzes our request reader beside llhttp: the input is what one connection sends. Each request
 * that we accept must be the same to both, and end at the same byte, until the connection would
 * close.
 */
#include <stdio.h>

#include "tests/fuzz/llhttp_check.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_mem(data, size);
	struct llhttp_result r;

	if (size == 0)
		return 0;
	do {
		llhttp_check(in, LLHTTP_NOTHING, &r);
		if (r.differs != NULL) {
			(void)fprintf(stderr, "llhttp differs: %s\n", r.differs);
			abort();
		}
		in.p += r.end;
		in.n -= r.end;
	} while (r.more);
	return 0;
}
