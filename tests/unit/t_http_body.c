/* HTTP bodies: where they end, what is content, however the input is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/http.h"

#include "common/banned.h"

#define LENGTH_NONE 0

/*
 * Reads `in` cut in two at `cut`, the parts in copies of their own: content to *content, the end to
 * *end, the last answer back.
 */
static int
read_cut(struct str in, size_t cut, enum http_body kind, uint64_t length, struct buf *content,
    size_t *end)
{
	struct str part[] = {{in.p, cut}, {in.p + cut, in.n - cut}}, rest, run;
	struct http_reader r;
	int rc = 0;

	*end = 0;
	http_reader_init(&r, kind, length);
	for (size_t i = 0; i < 2 && rc == 0; i++) {
		char *copy = malloc(part[i].n != 0 ? part[i].n : 1);

		assert_non_null(copy);
		(void)memcpy(copy, part[i].p, part[i].n);
		rest = (struct str){copy, part[i].n};
		do {
			rc = http_reader_next(&r, &rest, &run, NULL);
			buf_put_str(content, run);
		} while (rc == 0 && rest.n != 0);
		*end += part[i].n - rest.n;
		free(copy);
	}
	assert_int_equal(r.total, content->n);
	return rc;
}

/* At every cut: `rc`, this content, and for a body that ends, `behind` bytes left. */
static void
assert_body(
    struct str in, enum http_body kind, uint64_t length, int rc, const char *content, size_t behind)
{
	for (size_t cut = 0; cut <= in.n; cut++) {
		AUTO_BUF struct buf b = BUF(4096);
		size_t end;
		int got = read_cut(in, cut, kind, length, &b, &end);

		if (got != rc || !str_eqz(buf_str(&b), content))
			fail_msg(
			    "%s cut at %zu: %d, \"%.*s\"", in.p, cut, got, STR_ARG(buf_str(&b)));
		if (rc >= 0)
			assert_int_equal(end, in.n - behind);
	}
}

static void
length_counts_the_content_and_leaves_the_rest(void **state UNUSED)
{
	assert_body(STR("hello"), HTTP_BODY_LENGTH, 5, 1, "hello", 0);
	assert_body(STR("helloGET /"), HTTP_BODY_LENGTH, 5, 1, "hello", 5);
	assert_body(STR("hell"), HTTP_BODY_LENGTH, 5, 0, "hell", 0);
	assert_body(STR("GET /"), HTTP_BODY_LENGTH, 0, 1, "", 5);
	assert_body(STR("DELETE /prod HTTP/1.1\r\n\r\nx"), HTTP_BODY_LENGTH, 25, 1,
	    "DELETE /prod HTTP/1.1\r\n\r\n", 1);
	assert_body(STR("abc"), HTTP_BODY_LENGTH, INT64_MAX, 0, "abc", 0);
}

static void
no_body_is_known_without_input(void **state UNUSED)
{
	struct str in = STR_NONE, run = STR("x");
	struct http_reader r;

	http_reader_init(&r, HTTP_BODY_NONE, LENGTH_NONE);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 1);
	assert_int_equal(run.n, 0);
	http_reader_init(&r, HTTP_BODY_LENGTH, 0);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 1);
	http_reader_init(&r, HTTP_BODY_LENGTH, 1);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 0);
	http_reader_init(&r, HTTP_BODY_CHUNKED, LENGTH_NONE);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 0);
	assert_body(STR("GET /"), HTTP_BODY_NONE, LENGTH_NONE, 1, "", 5);
}

static void
body_until_close_never_ends_by_itself(void **state UNUSED)
{
	assert_body(STR("0\r\n\r\nx"), HTTP_BODY_CLOSE, LENGTH_NONE, 0, "0\r\n\r\nx", 0);
	assert_body(STR(""), HTTP_BODY_CLOSE, LENGTH_NONE, 0, "", 0);
}

static void
chunks_are_joined_and_what_follows_is_left(void **state UNUSED)
{
	static const struct {
		struct str in;
		int rc;
		const char *content;
		size_t behind;
	} cases[] = {
	    {STR("5\r\nhello\r\n0\r\n\r\n"), 1, "hello", 0},
	    {STR("5\r\nhello\r\n0\r\n\r\nGET /"), 1, "hello", 5},
	    {STR("1\r\na\r\n1\r\nb\r\nA\r\n0123456789\r\n0\r\n\r\n"), 1, "ab0123456789", 0},
	    {STR("a\r\n0123456789\r\n00\r\n\r\n"), 1, "0123456789", 0},
	    {STR("0000000000000005\r\nhello\r\n0\r\n\r\n"), 1, "hello", 0},
	    {STR("0\r\n\r\n0\r\n\r\n"), 1, "", 5},
	    {STR("2\r\n\r\n\r\n0\r\n\r\n"), 1, "\r\n", 0},
	    {STR("1a\r\nDELETE /prod HTTP/1.1\r\n\r\n\n\r\n0\r\n\r\n"), 1,
		"DELETE /prod HTTP/1.1\r\n\r\n\n", 0},
	    {STR("5\r\nhel"), 0, "hel", 0},
	    {STR("5\r\nhello\r\n0\r\n\r"), 0, "hello", 0},
	    {STR("7fffffffffffffff\r\nx"), 0, "x", 0},
	    {STR("5\r\nhello\r\n7ffffffffffffffa\r\nx"), 0, "hellox", 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_body(cases[i].in, HTTP_BODY_CHUNKED, LENGTH_NONE, cases[i].rc,
		    cases[i].content, cases[i].behind);
}

static void
chunk_line_is_hex_digits_and_crlf(void **state UNUSED)
{
	static const struct {
		struct str in;
		const char *content;
	} cases[] = {
	    {STR("0x5\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("5;ext\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("5;\nhello\r\n0\r\n\r\n"), ""},
	    {STR("\r\n\r\n"), ""},
	    {STR("5;ext=\"a\"\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("5 \r\nhello\r\n0\r\n\r\n"), ""},
	    {STR(" 5\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("5\t\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("+5\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("-5\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("g\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("5\nhello\r\n0\r\n\r\n"), ""},
	    {STR("5\rhello\r\n0\r\n\r\n"), ""},
	    {STR("ffffffffffffffff1\r\nhello"), ""},
	    {STR("00000000000000005\r\nhello\r\n0\r\n\r\n"), ""},
	    {STR("ffffffffffffffff\r\nhello"), ""},
	    {STR("8000000000000000\r\nhello"), ""},
	    {STR("5\r\nhello\r\n7ffffffffffffffb\r\nx"), "hello"},
	    {STR("5\r\nhello0\r\n\r\n"), "hello"},
	    {STR("5\r\nhello\n0\r\n\r\n"), "hello"},
	    {STR("5\r\nhello\r0\r\n\r\n"), "hello"},
	    {STR("4\r\nhello\r\n0\r\n\r\n"), "hell"},
	    {STR("6\r\nhello\r\n0\r\n\r\n"), "hello\r"},
	    {STR("0\n\r\n"), ""},
	    {STR("0\r\n\n"), ""},
	    {STR("0\r\n\rx"), ""},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_body(
		    cases[i].in, HTTP_BODY_CHUNKED, LENGTH_NONE, ERR_SYNTAX, cases[i].content, 0);
}

static void
trailers_are_dropped_but_not_those_that_frame(void **state UNUSED)
{
	static const char *const good[] = {"X: y",
	    "X:", "x-amz-checksum-crc32: AAAAAA==", "Host2: y", "Hos: y", "Transfer-Encodings: y",
	    "Content-MD5: y", "Content-Lengt: 5", "T: y", "TEE: y", "X: a\tb \xc3\xa9",
	    "X: y\r\nZ: y"};
	static const char *const bad[] = {"Transfer-Encoding: chunked", "content-length: 5",
	    "HOST: b.test", "connection: close", "Upgrade: x", "TE: x", "Trailer: x", "Expect: x",
	    "Keep-Alive: x", "Proxy-Connection: x", "X: y\r\nHost: b.test", "X y: z", "X : y",
	    ": y", "X", "X: y\r\n z: y", "X: a\x01", "X: a\x7f", "X: y\rz", "X: y\nz", "X\n"};

	for (size_t i = 0; i < ARRAY_LEN(good) + ARRAY_LEN(bad); i++) {
		bool ok = i < ARRAY_LEN(good);
		AUTO_BUF struct buf b = BUF(1024);

		buf_printf(
		    &b, "1\r\na\r\n0\r\n%s\r\n\r\nGET", ok ? good[i] : bad[i - ARRAY_LEN(good)]);
		assert_body(
		    buf_str(&b), HTTP_BODY_CHUNKED, LENGTH_NONE, ok ? 1 : ERR_SYNTAX, "a", 3);
	}
}

static int
trailers_of(size_t n)
{
	AUTO_BUF struct buf b = BUF(10000), content = BUF(1);
	size_t end;

	buf_put_z(&b, "0\r\nX: ");
	for (size_t i = 3; i < n; i++)
		buf_put_c(&b, 'y');
	buf_put_z(&b, "\r\n\r\n");
	return read_cut(buf_str(&b), 7, HTTP_BODY_CHUNKED, LENGTH_NONE, &content, &end);
}

static void
trailers_over_8_kib_are_refused(void **state UNUSED)
{
	/* The line feeds are not counted. */
	assert_int_equal(trailers_of(8192 - 2), 1);
	assert_int_equal(trailers_of(8192 - 1), ERR_SYNTAX);
}

static void
after_its_end_a_body_takes_nothing(void **state UNUSED)
{
	struct str in = STR("0\r\n\r\n5\r\nhello\r\n"), run;
	struct http_reader r;

	http_reader_init(&r, HTTP_BODY_CHUNKED, LENGTH_NONE);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 1);
	assert_int_equal(in.n, 10);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 1);
	assert_true(in.n == 10 && run.n == 0);
	in = STR("hello");
	http_reader_init(&r, HTTP_BODY_LENGTH, 2);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 1);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 1);
	assert_true(in.n == 3 && run.n == 0 && r.total == 2);
}

static void
content_is_borrowed_not_copied(void **state UNUSED)
{
	struct str in = STR("3\r\nabc\r\n2\r\nde\r\n"), run;
	const char *start = in.p;
	struct http_reader r;

	http_reader_init(&r, HTTP_BODY_CHUNKED, LENGTH_NONE);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 0);
	assert_ptr_equal(run.p, start + 3);
	assert_int_equal(run.n, 3);
	assert_int_equal(http_reader_next(&r, &in, &run, NULL), 0);
	assert_ptr_equal(run.p, start + 11);
	assert_int_equal(r.total, 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(length_counts_the_content_and_leaves_the_rest),
	    cmocka_unit_test(no_body_is_known_without_input),
	    cmocka_unit_test(body_until_close_never_ends_by_itself),
	    cmocka_unit_test(chunks_are_joined_and_what_follows_is_left),
	    cmocka_unit_test(chunk_line_is_hex_digits_and_crlf),
	    cmocka_unit_test(trailers_are_dropped_but_not_those_that_frame),
	    cmocka_unit_test(trailers_over_8_kib_are_refused),
	    cmocka_unit_test(after_its_end_a_body_takes_nothing),
	    cmocka_unit_test(content_is_borrowed_not_copied),
	};

	return cmocka_run_group_tests_name("http_body", tests, NULL, NULL);
}
