/* HTTP response heads, and messages as they are written. */
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/http_help.h"

#include "common/banned.h"

static int
try(struct str head, bool to_head, struct http_response *r, struct err *err)
{
	size_t end;

	(void)http_feed(head, &end);
	return http_response_parse(head, to_head, r, err);
}

static void
status_line_has_exactly_one_reading(void **state UNUSED)
{
	static const struct {
		struct str refused, allowed;
	} cases[] = {
	    {STR("HTTP/1.1\r\n\r\n"), STR("HTTP/1.1 200\r\n\r\n")},
	    {STR("HTTP/1.1 20 OK\r\n\r\n"), STR("HTTP/1.1 200 OK\r\n\r\n")},
	    {STR("HTTP/1.1 2000 OK\r\n\r\n"), STR("HTTP/1.1 200 0 OK\r\n\r\n")},
	    {STR("HTTP/1.1 099 OK\r\n\r\n"), STR("HTTP/1.1 100 OK\r\n\r\n")},
	    {STR("HTTP/1.1 +20 OK\r\n\r\n"), STR("HTTP/1.1 999 OK\r\n\r\n")},
	    {STR("HTTP/1.1 20x OK\r\n\r\n"), STR("HTTP/1.1 200 xOK\r\n\r\n")},
	    {STR("HTTP/1.1  200 OK\r\n\r\n"), STR("HTTP/1.1 200  OK\r\n\r\n")},
	    {STR("HTTP/1.1\t200 OK\r\n\r\n"), STR("HTTP/1.1 200 \tOK\r\n\r\n")},
	    {STR(" HTTP/1.1 200 OK\r\n\r\n"), STR("HTTP/1.1 200 \r\n\r\n")},
	    {STR("HTTP/1.2 200 OK\r\n\r\n"), STR("HTTP/1.0 200 OK\r\n\r\n")},
	    {STR("HTTP/2 200 OK\r\n\r\n"), STR("HTTP/1.1 200 OK\r\n\r\n")},
	    {STR("http/1.1 200 OK\r\n\r\n"), STR("HTTP/1.1 200 ok\r\n\r\n")},
	    {STR("ICY 200 OK\r\n\r\n"), STR("HTTP/1.1 200 OK\r\n\r\n")},
	    {STR("HTTP/1.1 200 O\x01\r\n\r\n"), STR("HTTP/1.1 200 O\xc3\xa9\r\n\r\n")},
	    {STR("HTTP/1.1 200 OK\n\n"), STR("HTTP/1.1 200 OK\r\n\r\n")},
	    {STR("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"),
		STR("HTTP/1.1 200 OK\r\nX: a b\r\n\r\n")},
	    {STR("HTTP/1.1 200 OK\r\nX : a\r\n\r\n"), STR("HTTP/1.1 200 OK\r\nX:  a\r\n\r\n")},
	    {STR("HTTP/1.1 200 OK\r\n"), STR("HTTP/1.1 200 OK\r\n\r\n")},
	    {STR("HTTP/1.1 200 OK\r\n\r\nx"), STR("HTTP/1.1 200 OK\r\n\r\n")},
	};
	static struct http_response r;
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (try(cases[i].refused, false, &r, &err) != ERR_SYNTAX)
			fail_msg("%s passed", cases[i].refused.p);
		assert_true(r.status == 0 && r.nfields == 0 && err.msg[0] != '\0');
		if (try(cases[i].allowed, false, &r, &err) != 0)
			fail_msg("%s: %s", cases[i].allowed.p, err.msg);
	}
}

#define OK(fields) STR("HTTP/1.1 200 OK\r\n" fields "\r\n")

static void
ambiguous_framing_is_refused_in_answers_too(void **state UNUSED)
{
	static const struct {
		struct str head;
		int rc;
	} cases[] = {
	    {OK("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), ERR_SYNTAX},
	    {OK("Content-Length: 5\r\nContent-Length: 6\r\n"), ERR_SYNTAX},
	    {OK("Content-Length: 5, 5\r\n"), ERR_SYNTAX},
	    {OK("Transfer-Encoding: xchunked\r\n"), ERR_SYNTAX},
	    {OK("Transfer-Encoding: gzip, chunked\r\n"), ERR_UNSUPPORTED},
	    {STR("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), ERR_SYNTAX},
	    {OK("Content-Type: a/b\r\nContent-Type: a/b\r\n"), 0},
	};
	static struct http_response r;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(try(cases[i].head, false, &r, NULL), cases[i].rc);
		/* Not even for an answer without a body. */
		assert_int_equal(try(cases[i].head, true, &r, NULL), cases[i].rc);
	}
}

static void
body_of_an_answer_is_as_rfc_9112_says(void **state UNUSED)
{
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define SEVEN "Content-Length: 7\r\n"
	static const struct {
		struct str head;
		bool to_head;
		enum http_body body;
		uint64_t length;
		bool keep;
	} cases[] = {
	    {OK(SEVEN), false, HTTP_BODY_LENGTH, 7, true},
	    {OK(SEVEN "Connection: close\r\n"), false, HTTP_BODY_LENGTH, 7, false},
	    {OK("Content-Length: 0\r\n"), false, HTTP_BODY_LENGTH, 0, true},
	    {OK(CHUNKED), false, HTTP_BODY_CHUNKED, 0, true},
	    {OK(""), false, HTTP_BODY_CLOSE, 0, false},
	    {OK("Connection: keep-alive\r\n"), false, HTTP_BODY_CLOSE, 0, false},
	    {OK(SEVEN), true, HTTP_BODY_NONE, 0, true},
	    {OK(CHUNKED), true, HTTP_BODY_NONE, 0, true},
	    {OK(""), true, HTTP_BODY_NONE, 0, true},
	    {STR("HTTP/1.1 204 No Content\r\n" SEVEN "\r\n"), false, HTTP_BODY_NONE, 0, true},
	    {STR("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"), false, HTTP_BODY_NONE,
		0, true},
	    {STR("HTTP/1.1 100 Continue\r\n\r\n"), false, HTTP_BODY_NONE, 0, true},
	    {STR("HTTP/1.1 199 x\r\n" CHUNKED "\r\n"), false, HTTP_BODY_NONE, 0, true},
	    {STR("HTTP/1.1 205 Reset\r\n" SEVEN "\r\n"), false, HTTP_BODY_LENGTH, 7, true},
	    {STR("HTTP/1.0 200 OK\r\n" SEVEN "\r\n"), false, HTTP_BODY_LENGTH, 7, false},
	    {STR("HTTP/1.0 200 OK\r\n" SEVEN "Connection: keep-alive\r\n\r\n"), false,
		HTTP_BODY_LENGTH, 7, true},
	};
	static struct http_response r;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(try(cases[i].head, cases[i].to_head, &r, NULL), 0);
		if (r.body != cases[i].body || r.length != cases[i].length ||
		    r.keep_alive != cases[i].keep)
			fail_msg("%s: body %d, length %llu, keep %d", cases[i].head.p, (int)r.body,
			    (unsigned long long)r.length, r.keep_alive);
	}
	assert_int_equal(try(STR("HTTP/1.0 404 Not\r\nA: b\r\n\r\n"), false, &r, NULL), 0);
	assert_int_equal(r.status, 404);
	assert_int_equal(r.minor, 0);
	assert_str(http_field_find(r.fields, r.nfields, "a")->value, "b");
}

/* --- written --------------------------------------------------------------------- */

static void
messages_are_written_byte_by_byte_so(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(4096);

	http_put_request(&b, STR("GET"), STR("/a?b"));
	http_put_field(&b, STR("Host"), STR("a.test"));
	http_put_field(&b, STR("X"), STR_NONE);
	http_put_end(&b);
	assert_str(buf_str(&b), "GET /a?b HTTP/1.1\r\nHost: a.test\r\nX: \r\n\r\n");
	buf_reset(&b);
	http_put_status(&b, 200);
	http_put_status(&b, 431);
	http_put_status(&b, 299);
	assert_str(buf_str(&b),
	    "HTTP/1.1 200 OK\r\nHTTP/1.1 431 Request Header Fields Too Large\r\n"
	    "HTTP/1.1 299 \r\n");
	buf_reset(&b);
	http_put_chunk(&b, STR("0123456789abcdefX"));
	http_put_chunk(&b, STR_NONE);
	http_put_last_chunk(&b);
	assert_str(buf_str(&b), "11\r\n0123456789abcdefX\r\n0\r\n\r\n");
}

/* Does writing this end the process? */
static bool
dies(void (*put)(struct buf *b))
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		AUTO_BUF struct buf b = BUF(4096);

		(void)signal(SIGABRT, SIG_DFL);
		(void)close(STDERR_FILENO);
		put(&b);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void
put_split_value(struct buf *b)
{
	http_put_field(b, STR("X"), STR("a\r\nY: b"));
}

static void
put_split_name(struct buf *b)
{
	http_put_field(b, STR("X: a\r\nY"), STR("b"));
}

static void
put_spaced_target(struct buf *b)
{
	http_put_request(b, STR("GET"), STR("/ HTTP/1.1"));
}

static void
put_split_target(struct buf *b)
{
	http_put_request(b, STR("GET"), STR("/\r\nX:"));
}

static void
put_spaced_method(struct buf *b)
{
	http_put_request(b, STR("GET /x"), STR("/"));
}

static void
put_four_digits(struct buf *b)
{
	http_put_status(b, 1000);
}

static void
put_what_is_allowed(struct buf *b)
{
	http_put_request(b, STR("M-X"), STR("/?\\\"{|}"));
	http_put_field(b, STR("X"), STR("a\tb \xc3\xa9"));
	http_put_status(b, 999);
}

static void
what_would_split_a_message_is_never_written(void **state UNUSED)
{
	assert_true(dies(put_split_value));
	assert_true(dies(put_split_name));
	assert_true(dies(put_spaced_target));
	assert_true(dies(put_split_target));
	assert_true(dies(put_spaced_method));
	assert_true(dies(put_four_digits));
	assert_false(dies(put_what_is_allowed));
}

static void
every_status_is_read_again_as_it_was_written(void **state UNUSED)
{
	static struct http_response r;

	for (unsigned status = 100; status <= 999; status++) {
		AUTO_BUF struct buf b = BUF(4096);

		http_put_status(&b, status);
		http_put_end(&b);
		assert_int_equal(http_response_parse(buf_str(&b), false, &r, NULL), 0);
		assert_int_equal(r.status, status);
	}
	assert_string_equal(http_reason(421), "Misdirected Request");
	assert_string_equal(http_reason(600), "");
}

static void
date_is_imf_fixdate(void **state UNUSED)
{
	static const struct {
		int64_t s;
		const char *text;
	} cases[] = {
	    {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
	    {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
	    {951827696, "Tue, 29 Feb 2000 12:34:56 GMT"},
	    {4102444799, "Thu, 31 Dec 2099 23:59:59 GMT"},
	    {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"},
	    {INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"},
	    {-1, "Thu, 01 Jan 1970 00:00:00 GMT"},
	};
	char out[30];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		http_date(cases[i].s, out);
		assert_string_equal(out, cases[i].text);
	}
}

static void
tokens_and_values_are_told_apart_by_every_byte(void **state UNUSED)
{
	size_t tokens = 0, values = 0;

	for (unsigned c = 0; c < 256; c++) {
		char one = (char)c;

		tokens += http_is_token((struct str){&one, 1});
		values += http_is_value((struct str){&one, 1});
	}
	assert_int_equal(tokens, 10 + 26 + 26 + 15);
	assert_int_equal(values, 256 - 32 - 1 + 1);
	assert_false(http_is_token(STR_NONE));
	assert_true(http_is_value(STR_NONE));
	assert_true(http_name_is(STR("content-TYPE"), "Content-Type"));
	assert_false(http_name_is(STR("content-typ"), "Content-Type"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(status_line_has_exactly_one_reading),
	    cmocka_unit_test(ambiguous_framing_is_refused_in_answers_too),
	    cmocka_unit_test(body_of_an_answer_is_as_rfc_9112_says),
	    cmocka_unit_test(messages_are_written_byte_by_byte_so),
	    cmocka_unit_test(what_would_split_a_message_is_never_written),
	    cmocka_unit_test(every_status_is_read_again_as_it_was_written),
	    cmocka_unit_test(date_is_imf_fixdate),
	    cmocka_unit_test(tokens_and_values_are_told_apart_by_every_byte),
	};

	return cmocka_run_group_tests_name("http_response", tests, NULL, NULL);
}
