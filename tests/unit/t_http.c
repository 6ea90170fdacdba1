/* HTTP request heads: where they end, lines, targets and fields. */
#include "tests/unit/http_help.h"

#include "common/banned.h"

static void
head_ends_with_its_empty_line(void **state UNUSED)
{
	struct str s = STR(GET("A: b\r\n") "GET / HTTP/1.1\r\n\r\n");
	size_t scanned = 0, end = 1;

	assert_int_equal(http_head_end(STR_NONE, &scanned, &end, NULL), 0);
	assert_int_equal(end, 0);
	for (size_t n = 0; n < sizeof(GET("A: b\r\n")) - 1; n++) {
		assert_int_equal(http_head_end((struct str){s.p, n}, &scanned, &end, NULL), 0);
		assert_int_equal(end, 0);
	}
	assert_int_equal(http_head_end(s, &scanned, &end, NULL), 0);
	assert_int_equal(end, sizeof(GET("A: b\r\n")) - 1);
	assert_int_equal(scanned, 0);
	/* An empty line in front is a head of its own, which no parser takes. */
	assert_int_equal(http_head_end(STR("\r\n" GET("")), &scanned, &end, NULL), 0);
	assert_int_equal(end, 2);
	assert_int_equal(http_try(STR("\r\n"), NULL), ERR_SYNTAX);
}

static void
what_cannot_be_in_a_head_is_found_at_once(void **state UNUSED)
{
	static const struct str bad[] = {STR("GET / HTTP/1.1\n"), STR("\n"), STR("GET /\rH"),
	    STR("\r\r"), STR(LINE "A: \0"), STR("\x16"), STR(LINE "A: b\x7f"), STR(LINE "\x1b"),
	    STR(LINE HOST "\r\r"), STR(LINE HOST "\n")};
	static const struct str good[] = {
	    STR("GET / HTTP/1.1\r\n"), STR("\r"), STR("GET /\r"), STR(LINE "A: \t\xc3\xa9")};
	size_t end;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(http_feed(bad[i], &end), ERR_SYNTAX);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(http_feed(good[i], &end), 0);
}

/* A head of n bytes. */
static void
put_head(struct buf *b, size_t n)
{
	buf_put_z(b, LINE HOST "X: ");
	while (b->n < n - 4)
		buf_put_c(b, 'x');
	buf_put_z(b, "\r\n\r\n");
}

static void
head_of_64_kib_passes_and_one_byte_more_does_not(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(70000);
	size_t scanned = 0, end;

	put_head(&b, HTTP_HEAD_MAX);
	assert_int_equal(http_head_end(buf_str(&b), &scanned, &end, NULL), 0);
	assert_int_equal(end, HTTP_HEAD_MAX);
	assert_int_equal(http_try(buf_str(&b), NULL), 0);
	buf_reset(&b);
	put_head(&b, HTTP_HEAD_MAX + 1);
	assert_int_equal(http_head_end(buf_str(&b), &scanned, &end, NULL), ERR_TOO_LARGE);
	assert_int_equal(http_try(buf_str(&b), NULL), ERR_TOO_LARGE);
	/* It is known before the last byte is there. */
	scanned = 0;
	assert_int_equal(
	    http_head_end((struct str){(char *)b.p, HTTP_HEAD_MAX - 1}, &scanned, &end, NULL), 0);
	assert_int_equal(
	    http_head_end((struct str){(char *)b.p, HTTP_HEAD_MAX}, &scanned, &end, NULL),
	    ERR_TOO_LARGE);
}

static void
parser_takes_one_whole_head_and_nothing_behind_it(void **state UNUSED)
{
	assert_int_equal(http_try(STR(GET("")), NULL), 0);
	assert_int_equal(http_try(STR(LINE HOST), NULL), ERR_SYNTAX);
	assert_int_equal(http_try(STR(GET("") "x"), NULL), ERR_SYNTAX);
	assert_int_equal(http_try(STR(GET("") GET("")), NULL), ERR_SYNTAX);
	assert_int_equal(http_try(STR("x"), NULL), ERR_SYNTAX);
	assert_int_equal(http_try(STR(""), NULL), ERR_SYNTAX);
}

static void
request_line_has_exactly_one_reading(void **state UNUSED)
{
	static const struct http_pair cases[] = {
	    {"no version", STR("GET /\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"no version", STR("GET /\r\n\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"no method", STR("GET\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"no method", STR(" GET / HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET  / HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"empty", STR("GET  HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET /  HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET / HTTP/1.1 \r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET / x HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX,
		STR("GET /%20x HTTP/1.1\r\n" HOST "\r\n")},
	    {"no method", STR("GET\t/ HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"no version", STR("GET /\tHTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET / HTTP/1.1\t\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET / http/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET / HTTP/1.2\r\n" HOST "\r\n"), ERR_SYNTAX,
		STR("GET / HTTP/1.0\r\n" HOST "\r\n")},
	    {"version", STR("GET / HTTP/0.9\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET / HTTP/1.10\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET / HTTP/01.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"version", STR("GET / XTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"HTTP/2", STR("PRI * HTTP/2.0\r\n\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"no method", STR("G(T / HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX,
		STR("G!T / HTTP/1.1\r\n" HOST "\r\n")},
	    {"no method", STR("G\xc3\x89T / HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"25 bytes", STR("ABCDEFGHIJKLMNOPQRSTUVWXY / HTTP/1.1\r\n" HOST "\r\n"), ERR_SYNTAX,
		STR("ABCDEFGHIJKLMNOPQRSTUVWX / HTTP/1.1\r\n" HOST "\r\n")},
	};

	http_assert_pairs(cases);
}

#define TO(target) STR("GET " target " HTTP/1.1\r\n" HOST "\r\n")

static void
target_is_a_path_and_query_of_rfc_3986(void **state UNUSED)
{
	static const struct http_pair cases[] = {
	    {"byte 0x5c", TO("/public/..\\secret"), ERR_SYNTAX, TO("/public/..%5csecret")},
	    {"byte 0x7c", TO("/a|b"), ERR_SYNTAX, TO("/a?|b")},
	    {"byte 0x7b", TO("/{id}"), ERR_SYNTAX, TO("/a?{id}")},
	    {"byte 0x5b", TO("/a[1]"), ERR_SYNTAX, TO("/?a[1]")},
	    {"byte 0x22", TO("/\"a\""), ERR_SYNTAX, TO("/?q=\"a\"")},
	    {"byte 0x3c", TO("/<a>"), ERR_SYNTAX, TO("/?q=<a>")},
	    {"byte 0x5e", TO("/^"), ERR_SYNTAX, TO("/?^")},
	    {"byte 0x60", TO("/`"), ERR_SYNTAX, TO("/?`")},
	    {"byte 0x23", TO("/a#b"), ERR_SYNTAX, TO("/a%23b")},
	    {"byte 0x23", TO("/a?b#c"), ERR_SYNTAX, TO("/a?b%23c")},
	    {"byte 0xc3", TO("/\xc3\xa9"), ERR_SYNTAX, TO("/%c3%a9")},
	    {"byte 0xc3", TO("/?\xc3\xa9"), ERR_SYNTAX, TO("/?%c3%a9")},
	    {"byte 0x09", TO("/a\tb"), ERR_SYNTAX, TO("/a%09b")},
	    {"byte 0x09", TO("/?a\tb"), ERR_SYNTAX, TO("/?a%09b")},
	    {"two hex", TO("/100%"), ERR_SYNTAX, TO("/100%25")},
	    {"two hex", TO("/%4"), ERR_SYNTAX, TO("/%41")},
	    {"two hex", TO("/%g0"), ERR_SYNTAX, TO("/%a0")},
	    {"two hex", TO("/%0g"), ERR_SYNTAX, TO("/%0A")},
	    {"two hex", TO("/?a=100%&b"), ERR_SYNTAX, TO("/?a=100%25&b")},
	    {"neither", TO("a"), ERR_SYNTAX, TO("/a")},
	    {"neither", TO("?a"), ERR_SYNTAX, TO("/?a")},
	    {"neither", TO("**"), ERR_SYNTAX, TO("/**")},
	    {"OPTIONS only", TO("*"), ERR_SYNTAX, STR("OPTIONS * HTTP/1.1\r\n" HOST "\r\n")},
	    {"neither", TO("a.test:80"), ERR_SYNTAX, TO("http://a.test:80")},
	    {"scheme", TO("ftp://a.test/"), ERR_SYNTAX, TO("HTTP://a.test/")},
	    {"neither", TO("http:/a.test/"), ERR_SYNTAX, TO("http://a.test/")},
	    {"byte 0x23", TO("http://a.test/#a"), ERR_SYNTAX, TO("http://a.test/?a")},
	    {"host", TO("http://a.test#a"), ERR_SYNTAX, TO("http://a.test?a")},
	    {"host", TO("http://a.test\\@b.test/"), ERR_SYNTAX, TO("http://a.test/@b.test/")},
	};

	http_assert_pairs(cases);
}

static void
target_over_16_kib_is_too_large(void **state UNUSED)
{
	for (size_t n = HTTP_TARGET_MAX; n <= HTTP_TARGET_MAX + 1; n++) {
		AUTO_BUF struct buf b = BUF(HTTP_HEAD_MAX);

		buf_put_z(&b, "GET /");
		for (size_t i = 1; i < n; i++)
			buf_put_c(&b, 'a');
		buf_put_z(&b, " HTTP/1.1\r\n" HOST "\r\n");
		assert_int_equal(
		    http_try(buf_str(&b), NULL), n > HTTP_TARGET_MAX ? ERR_TOO_LARGE : 0);
	}
}

static void
origin_form_is_cut_at_the_first_question_mark(void **state UNUSED)
{
	static struct http_request r;

	http_parsed(TO("/public/a%20b?x=%2e%2e?y"), &r);
	assert_int_equal(r.form, HTTP_ORIGIN);
	assert_str(r.method, "GET");
	assert_str(r.target, "/public/a%20b?x=%2e%2e?y");
	assert_str(r.path, "/public/a%20b");
	assert_str(r.query, "x=%2e%2e?y");
	assert_true(r.has_query);
	assert_string_equal(r.host, "a.test");
	assert_int_equal(r.port, 0);
	assert_int_equal(r.minor, 1);
	http_parsed(TO("/a?"), &r);
	assert_true(r.has_query && r.query.n == 0);
	http_parsed(TO("/a"), &r);
	assert_false(r.has_query);
	/* What these stand for is for policy to say. */
	http_parsed(TO("//a/../%2e;b/%00"), &r);
	assert_str(r.path, "//a/../%2e;b/%00");
}

static void
absolute_form_names_scheme_and_authority(void **state UNUSED)
{
	static struct http_request r;

	http_parsed(TO("http://A.Test.:80/x?y"), &r);
	assert_int_equal(r.form, HTTP_ABSOLUTE);
	assert_false(r.tls);
	assert_string_equal(r.host, "a.test");
	assert_int_equal(r.port, 80);
	assert_str(r.path, "/x");
	assert_str(r.query, "y");
	http_parsed(TO("HTTPS://a.test?y=/"), &r);
	assert_true(r.tls);
	assert_str(r.path, "/");
	assert_str(r.query, "y=/");
	assert_int_equal(r.port, 0);
	http_parsed(STR("OPTIONS * HTTP/1.1\r\nHost: [::1]:8\r\n\r\n"), &r);
	assert_int_equal(r.form, HTTP_ASTERISK);
	assert_str(r.path, "*");
	assert_string_equal(r.host, "::1");
	assert_int_equal(r.port, 8);
}

static void
fields_are_a_token_a_colon_and_a_value(void **state UNUSED)
{
	static const struct http_pair cases[] = {
	    {"not a token", STR(GET("X : a\r\n")), ERR_SYNTAX, STR(GET("X:  a\r\n"))},
	    {"not a token", STR(GET("X\t: a\r\n")), ERR_SYNTAX, STR(GET("X:\ta\r\n"))},
	    {"not a token", STR(GET("X Y: a\r\n")), ERR_SYNTAX, STR(GET("X-Y: a\r\n"))},
	    {"not a token", STR(GET(": a\r\n")), ERR_SYNTAX, STR(GET("X: :a\r\n"))},
	    {"not a token", STR(GET("X(: a\r\n")), ERR_SYNTAX, STR(GET("X!: a\r\n"))},
	    {"not a token", STR(GET("X\xc3\xa9: a\r\n")), ERR_SYNTAX, STR(GET("X: \xc3\xa9\r\n"))},
	    {"no colon", STR(GET("X\r\n")), ERR_SYNTAX, STR(GET("X:\r\n"))},
	    {"white space", STR(GET("X: a\r\n b\r\n")), ERR_SYNTAX, STR(GET("X: a b\r\n"))},
	    {"white space", STR(GET("X: a\r\n\tb: c\r\n")), ERR_SYNTAX,
		STR(GET("X: a\r\nb: c\r\n"))},
	    {"white space", STR(LINE " " HOST "\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"white space", STR(GET(" \r\n")), ERR_SYNTAX, STR(GET(""))},
	    {"bare LF", STR(GET("X: a\nY: b\r\n")), ERR_SYNTAX, STR(GET("X: a\r\nY: b\r\n"))},
	    {"bare CR", STR(GET("X: a\rY: b\r\n")), ERR_SYNTAX, STR(GET("X: a\r\nY: b\r\n"))},
	    {"control", STR(GET("X: a\0b\r\n")), ERR_SYNTAX, STR(GET("X: a\tb\r\n"))},
	    {"control", STR(GET("X: \x7f\r\n")), ERR_SYNTAX, STR(GET("X: ~\r\n"))},
	    {"read as framing", STR(GET("Content_Length: 0\r\n")), ERR_SYNTAX,
		STR(GET("X_Content_Length: 0\r\n"))},
	    {"read as framing", STR(GET("TRANSFER_encoding: chunked\r\n")), ERR_SYNTAX,
		STR(GET("X_Transfer_Encoding: chunked\r\n"))},
	    {"more than one Content-Encoding",
		STR(GET("Content-Encoding: identity\r\ncontent-encoding: br\r\n")), ERR_SYNTAX,
		STR(GET("Content-Encoding: identity, br\r\n"))},
	    {"more than one Content-Type", STR(GET("Content-Type: a/b\r\ncontent-type: a/b\r\n")),
		ERR_SYNTAX, STR(GET("Content-Type: a/b\r\nX-Content-Type: a/b\r\n"))},
	    {"more than one Authorization", STR(GET("Authorization: a\r\nauthorization: b\r\n")),
		ERR_SYNTAX, STR(GET("Authorization: a\r\nX-Auth: b\r\n"))},
	};

	http_assert_pairs(cases);
}

static void
field_values_lose_the_white_space_around_them(void **state UNUSED)
{
	static struct http_request r;

	http_parsed(STR(GET("X: \t a b\t \r\nx:\r\nY:z\r\n")), &r);
	assert_int_equal(r.nfields, 4);
	assert_str(r.fields[0].name, "Host");
	assert_str(r.fields[1].value, "a b");
	assert_str(r.fields[2].name, "x");
	assert_str(r.fields[2].value, "");
	assert_str(r.fields[3].value, "z");
	assert_ptr_equal(http_field_find(r.fields, r.nfields, "X"), &r.fields[1]);
	assert_null(http_field_find(r.fields, r.nfields, "XY"));
}

static void
two_hundred_fields_pass_and_one_more_does_not(void **state UNUSED)
{
	for (size_t n = HTTP_FIELDS_MAX; n <= HTTP_FIELDS_MAX + 1; n++) {
		AUTO_BUF struct buf b = BUF(HTTP_HEAD_MAX);

		buf_put_z(&b, LINE HOST);
		for (size_t i = 1; i < n; i++)
			buf_put_z(&b, "X: y\r\n");
		buf_put_z(&b, "\r\n");
		assert_int_equal(
		    http_try(buf_str(&b), NULL), n > HTTP_FIELDS_MAX ? ERR_TOO_LARGE : 0);
	}
}

static void
method_is_claimed_by_a_head_that_is_none(void **state UNUSED)
{
	assert_str(http_method_claim(STR("DELETE /a\\b HTTP/1.1\nX")), "DELETE");
	assert_str(http_method_claim(STR("DELETE ")), "DELETE");
	assert_str(http_method_claim(STR("DELETE")), "");
	assert_str(http_method_claim(STR("\x16\x03\x01 ")), "");
	assert_str(http_method_claim(STR(" / HTTP/1.1")), "");
	assert_str(http_method_claim(STR("ABCDEFGHIJKLMNOPQRSTUVWXY /")), "");
	assert_str(http_method_claim(STR_NONE), "");
}

static void
lists_are_searched_by_whole_elements(void **state UNUSED)
{
	static const struct http_field f[] = {{STR("A"), STR("x, keep-Alive ,y;q=1")},
	    {STR("B"), STR("z")}, {STR("a"), STR(",,last\t")}, {STR("C"), STR_NONE}};

	assert_true(http_field_has(f, 4, "a", "Keep-Alive"));
	assert_true(http_field_has(f, 4, "A", "last"));
	assert_true(http_field_has(f, 4, "A", "x"));
	assert_false(http_field_has(f, 4, "A", "keep"));
	assert_false(http_field_has(f, 4, "A", "y"));
	assert_false(http_field_has(f, 4, "A", "z"));
	assert_false(http_field_has(f, 4, "C", "z"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(head_ends_with_its_empty_line),
	    cmocka_unit_test(what_cannot_be_in_a_head_is_found_at_once),
	    cmocka_unit_test(head_of_64_kib_passes_and_one_byte_more_does_not),
	    cmocka_unit_test(parser_takes_one_whole_head_and_nothing_behind_it),
	    cmocka_unit_test(request_line_has_exactly_one_reading),
	    cmocka_unit_test(target_is_a_path_and_query_of_rfc_3986),
	    cmocka_unit_test(target_over_16_kib_is_too_large),
	    cmocka_unit_test(origin_form_is_cut_at_the_first_question_mark),
	    cmocka_unit_test(absolute_form_names_scheme_and_authority),
	    cmocka_unit_test(fields_are_a_token_a_colon_and_a_value),
	    cmocka_unit_test(field_values_lose_the_white_space_around_them),
	    cmocka_unit_test(two_hundred_fields_pass_and_one_more_does_not),
	    cmocka_unit_test(method_is_claimed_by_a_head_that_is_none),
	    cmocka_unit_test(lists_are_searched_by_whole_elements),
	};

	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
