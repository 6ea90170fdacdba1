/* What the tests of the HTTP reader share: a refusal beside the nearest head that is allowed. */
#ifndef TESTS_UNIT_HTTP_HELP_H
#define TESTS_UNIT_HTTP_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/http.h"

#define LINE "GET / HTTP/1.1\r\n"
#define HOST "Host: a.test\r\n"
#define GET(fields) LINE HOST fields "\r\n"
#define POST(fields) "POST / HTTP/1.1\r\n" HOST fields "\r\n"

struct http_pair {
	const char *why; /* part of the message */
	struct str refused;
	int rc;
	struct str allowed;
};

/* The end of the head found byte by byte, which must be what one look finds. */
static inline int
http_feed(struct str s, size_t *ret_end)
{
	size_t scanned = 0, whole = 0, end = 0, at = 0;
	int once = http_head_end(s, &whole, &end, NULL), rc = 0;

	for (size_t n = 0; n <= s.n && rc == 0 && at == 0; n++)
		rc = http_head_end((struct str){s.p, n}, &scanned, &at, NULL);
	assert_int_equal(rc, once);
	assert_int_equal(at, end);
	*ret_end = end;
	return rc;
}

/* Parsed from a copy of exactly its size, which is gone afterwards. */
static inline int
http_try(struct str s, struct err *err)
{
	static struct http_request r;
	char *copy = malloc(s.n);
	int rc;

	assert_non_null(copy);
	(void)memcpy(copy, s.p, s.n);
	rc = http_request_parse((struct str){copy, s.n}, &r, err);
	free(copy);
	if (rc != 0)
		assert_true(r.form == 0 && r.nfields == 0 && r.host[0] == '\0');
	return rc;
}

static inline void
http_assert_pair(const struct http_pair *c)
{
	struct err err = {0};
	size_t end;
	int fed = http_feed(c->refused, &end), rc = http_try(c->refused, &err);

	if (rc != c->rc || strstr(err.msg, c->why) == NULL)
		fail_msg("%s: %d, wanted %d \"%s\": %s", c->refused.p, rc, c->rc, c->why, err.msg);
	/* What is found before the end of the head is found by the parser too. */
	if (fed != 0)
		assert_int_equal(fed, rc);
	rc = http_try(c->allowed, &err);
	if (rc != 0)
		fail_msg("%s: %s", c->allowed.p, err.msg);
	assert_int_equal(http_feed(c->allowed, &end), 0);
	assert_int_equal(end, c->allowed.n);
}

#define http_assert_pairs(cases)                         \
	for (size_t i_ = 0; i_ < ARRAY_LEN(cases); i_++) \
	http_assert_pair(&(cases)[i_])

static inline void
http_parsed(struct str s, struct http_request *r)
{
	struct err err = {0};

	if (http_request_parse(s, r, &err) != 0)
		fail_msg("%.*s: %s", STR_ARG(s), err.msg);
}

#define assert_str(s, z) assert_true(str_eqz((s), (z)))

#endif
