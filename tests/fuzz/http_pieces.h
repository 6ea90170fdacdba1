/* What the HTTP fuzz targets share: a head in pieces, fields compared and written. Test code. */
#ifndef TESTS_FUZZ_HTTP_PIECES_H
#define TESTS_FUZZ_HTTP_PIECES_H

#include <assert.h>

#include "common/http.h"

/* An exact-size copy on the heap, so that ASan sees a read past the end. The caller frees. */
static inline char *
exact_copy(struct str s)
{
	char *copy = malloc(s.n != 0 ? s.n : 1);

	assert(copy != NULL);
	if (s.n != 0)
		(void)memcpy(copy, s.p, s.n);
	return copy;
}

/* The end of the first head, found in one piece and byte by byte alike; 0: none. */
static inline size_t
head_of(struct str in)
{
	size_t scanned = 0, slow = 0, end = 0, at = 0;
	struct err err = {0};
	int rc = http_head_end(in, &scanned, &end, &err), step = 0;

	assert(rc == 0 || (rc == err.code && err.msg[0] != '\0'));
	assert(end <= in.n && end <= HTTP_HEAD_MAX && (rc == 0 || end == 0));
	for (size_t n = 0; n <= in.n && step == 0 && at == 0; n++) {
		step = http_head_end((struct str){in.p, n}, &slow, &at, NULL);
		assert(at == 0 || at == n);
	}
	assert(step == rc && at == end);
	return end;
}

static inline void
check_fields(struct str head, const struct http_field *f, size_t n)
{
	assert(n <= HTTP_FIELDS_MAX);
	for (size_t i = 0; i < n; i++) {
		assert(http_is_token(f[i].name) && http_is_value(f[i].value));
		assert(str_eq(f[i].value, str_trim(f[i].value)));
		assert(f[i].name.p >= head.p && f[i].value.p + f[i].value.n + 4 <= head.p + head.n);
		assert(
		    http_field_find(f, n, "Host") == NULL || !http_field_is_hop(f, n, STR("Host")));
	}
}

static inline void
put_fields(struct buf *b, const struct http_field *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		http_put_field(b, f[i].name, f[i].value);
	http_put_end(b);
}

static inline void
assert_same_fields(const struct http_field *a, size_t na, const struct http_field *b, size_t nb)
{
	assert(na == nb);
	for (size_t i = 0; i < na; i++)
		assert(str_eq(a[i].name, b[i].name) && str_eq(a[i].value, b[i].value));
}

#endif
