/*
 * Connect's envelopes, the paths and the escapes of sandboxd: messages lie within the input, one
 * after the other; a path that is taken is absolute, clean and ends with NUL.
 */
#include <assert.h>
#include <stdlib.h>

#include "agent/e2b.h"

#include "common/banned.h"

static void
frames(struct str in)
{
	const char *at = in.p, *end = in.p + in.n;
	struct err e = {0};

	for (;;) {
		struct str message = STR_NONE, before = in;
		bool last = false;
		int rc = e2b_frame_take(&in, &message, &last, &e);

		if (rc != 1) {
			assert(in.p == before.p && in.n == before.n);
			assert(rc == 0 || e.code == rc);
			return;
		}
		assert(in.p > at && in.p + in.n == end);
		assert(message.n <= E2B_FRAME_MAX && message.p + message.n == in.p);
		at = in.p;
	}
}

static void
path(struct str in)
{
	AUTO_BUF struct buf b = BUF(8192);
	struct str rest, part;

	if (!e2b_path(in, &b))
		return;
	assert(b.n >= 2 && !buf_over(&b) && b.p[0] == '/' && b.p[b.n - 1] == '\0');
	rest = str_mem(b.p + 1, b.n - 2);
	assert(memchr(b.p, '\0', b.n) == b.p + b.n - 1);
	while (rest.n != 0) {
		if (!str_cut(&rest, '/', &part)) {
			part = rest;
			rest = STR_NONE;
		}
		assert(part.n != 0 && !str_eqz(part, ".") && !str_eqz(part, ".."));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	AUTO_BUF struct buf b = BUF(n + 1);
	struct str in = str_mem(data, n);

	frames(in);
	path(in);
	if (e2b_unescape(in, true, &b))
		assert(b.n <= n);
	return 0;
}
