/*
 * Receipts come from anybody, origins from a configuration: a receipt has one spelling, what is
 * written is read back, and no origin's is taken for another's.
 */
#include <assert.h>
#include <stdlib.h>

#include "audit/receipt.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
as_receipt(struct str text)
{
	AUTO_BUF struct buf again = BUF(2 * RECEIPT_MAX);
	struct receipt r;
	struct str origin;

	if (receipt_parse(text, &origin, &r, NULL) != 0)
		return;
	assert(text.n <= RECEIPT_MAX && r.seq < r.size);
	/* The origin stands as it was written, and behind it only one spelling. */
	buf_put_str(&again, origin);
	receipt_put(&again, STR(""), &r);
	assert(str_eq(buf_str(&again), text));
}

/* Is s, unescaped, the origin? So another reader would go about it. */
static bool
unescapes_to(struct str s, struct str origin)
{
	static const char digits[] = "0123456789ABCDEF";
	AUTO_BUF struct buf b = BUF(4 * RECEIPT_MAX);

	for (size_t i = 0; i < s.n; i++) {
		const char *hi, *lo;

		if (s.p[i] != '%') {
			buf_put_c(&b, s.p[i]);
			continue;
		}
		assert(i + 2 < s.n);
		hi = memchr(digits, s.p[i + 1], 16);
		lo = memchr(digits, s.p[i + 2], 16);
		assert(hi != NULL && lo != NULL);
		buf_u8(&b, (uint8_t)((hi - digits) << 4 | (lo - digits)));
		i += 2;
	}
	return str_eq(buf_str(&b), origin);
}

static void
as_origin(struct str origin, struct str other)
{
	AUTO_BUF struct buf b = BUF(RECEIPT_MAX);
	struct receipt r = {.seq = other.n, .size = other.n + 1}, is;
	struct str escaped;

	if (origin.n == 0 || origin.n > ORIGIN_MAX)
		return;
	r.leaf = hash_sha256(other);
	receipt_put(&b, origin, &r);
	assert(!buf_over(&b) && str_is_ascii_print(buf_str(&b)));
	for (size_t i = 0; i < b.n; i++)
		assert(memchr(" \"'\\$`", b.p[i], 6) == NULL);
	assert(receipt_parse(buf_str(&b), &escaped, &is, NULL) == 0);
	assert(is.seq == r.seq && is.size == r.size && hash_eq(&is.leaf, &r.leaf));
	assert(receipt_is_of(escaped, origin) && unescapes_to(escaped, origin));
	assert(receipt_is_of(escaped, other) == str_eq(origin, other));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_mem(data, size), left = text, origin;

	as_receipt(text);
	if (str_cut(&left, '\n', &origin))
		as_origin(origin, left);
	else
		as_origin(text, STR("o.example"));
	return 0;
}
