/* The loop's HTTP client, its event streams and when it tries again. */
#include "tests/unit/model_help.h"

#include "agent/model_retry.h"
#include "agent/model_sse.h"
#include "agent/model_url.h"

#include "common/banned.h"

/* --- event streams --------------------------------------------------------------- */

struct heard {
	struct buf b;
	unsigned n, stop_at;
};

static int
hear(void *arg, struct str name, struct str data, struct err *err UNUSED)
{
	struct heard *h = arg;

	buf_printf(&h->b, "[%.*s|%.*s]", STR_ARG(name), STR_ARG(data));
	return ++h->n == h->stop_at ? 1 : 0;
}

static void
stream_is(struct str text, size_t step, const char *want)
{
	AUTO_BUF struct buf got = BUF(4096);
	struct heard h = {.b = BUF(4096)};
	struct sse s;
	struct err e;

	sse_init(&s);
	for (size_t at = 0; at < text.n; at += step)
		assert_int_equal(
		    sse_feed(&s, (struct str){text.p + at, text.n - at < step ? text.n - at : step},
			hear, &h, &e),
		    0);
	buf_put_str(&got, buf_str(&h.b));
	if (!str_eqz(buf_str(&got), want))
		fail_msg("step %zu: %.*s", step, STR_ARG(buf_str(&got)));
	buf_free(&h.b);
	sse_free(&s);
}

static void
events_are_the_same_for_every_cut_and_line_end(void **state UNUSED)
{
	static const char text[] = "\xef\xbb\xbf: hello\n"
				   "event: a\ndata: 1\n\n"
				   "data:2\rdata\rdata:  3\r\r"
				   "id: 7\r\nretry: 5\r\nevent: b\r\ndata: x:y\r\n\r\n"
				   "event: no data\n\n"
				   "data\n\n"
				   "other: field\ndata: last\n\n"
				   "data: never ended\n";

	for (size_t step = 1; step <= sizeof(text); step++)
		stream_is(str_z(text), step, "[a|1][|2\n\n 3][b|x:y][|][|last]");
}

static void
the_reader_of_events_says_when_it_has_enough(void **state UNUSED)
{
	struct heard h = {.b = BUF(4096), .stop_at = 2};
	struct sse s;
	struct err e;

	sse_init(&s);
	assert_int_equal(sse_feed(&s, STR("data: 1\n\ndata: 2\n\ndata: 3\n\n"), hear, &h, &e), 1);
	assert_true(str_eqz(buf_str(&h.b), "[|1][|2]"));
	buf_free(&h.b);
	sse_free(&s);
}

static void
an_endless_line_and_an_endless_event_are_refused(void **state UNUSED)
{
	AUTO_FREE char *big = xmalloc(SSE_EVENT_MAX);
	struct heard h = {.b = BUF(64)};
	struct sse s;
	struct err e;

	memset(big, 'x', SSE_EVENT_MAX);
	sse_init(&s);
	assert_int_equal(sse_feed(&s, (struct str){big, SSE_EVENT_MAX}, hear, &h, &e), 0);
	assert_int_equal(sse_feed(&s, STR("x"), hear, &h, &e), ERR_TOO_LARGE);
	sse_free(&s);
	sse_init(&s);
	memcpy(big, "data:", 5);
	big[SSE_EVENT_MAX - 1] = '\n';
	assert_int_equal(sse_feed(&s, (struct str){big, SSE_EVENT_MAX}, hear, &h, &e), 0);
	assert_int_equal(sse_feed(&s, STR("data:0123456789\n"), hear, &h, &e), ERR_TOO_LARGE);
	sse_free(&s);
	buf_free(&h.b);
}

/* --- the client ------------------------------------------------------------------ */

static int
collect(void *arg, struct str bytes, struct err *err UNUSED)
{
	buf_put_str(arg, bytes);
	return memmem(((struct buf *)arg)->p, ((struct buf *)arg)->n, "STOP", 4) != NULL ? 1 : 0;
}

static int
post(struct server *s, struct str body, struct buf *streamed, struct model_http_answer *a,
    uint64_t until_us, struct err *e)
{
	static const struct http_field extra = {{"x-extra", 7}, {"yes", 3}};
	struct model_http h = server_http(s);
	struct model_post p = {.host = STR("model.test:8080"),
	    .path = STR("/v1/messages"),
	    .fields = &extra,
	    .nfields = 1,
	    .body = body,
	    .until_us = until_us,
	    .stream = collect,
	    .stream_arg = streamed};

	h.idle_ms = 1000;
	return model_http_post(&h, &p, a, e);
}

/* Plays one answer and says what came of it. */
static void
answer_is(const char *text, size_t step, int want, unsigned status, const char *body)
{
	struct played p = {.text = text, .step = step};
	AUTO_BUF struct buf streamed = BUF(1 << 20);
	AUTO_ANSWER struct model_http_answer a = {0};
	AUTO_SERVER struct server s;
	struct err e = {0};
	int rc;

	server_start(&s, &p, 1);
	rc = post(&s, STR("{}"), &streamed, &a, soon(20), &e);
	if (rc != want)
		fail_msg("%d, not %d: %s", rc, want, e.msg);
	if (rc != 0)
		return;
	assert_int_equal(a.head.status, status);
	if (!str_eqz(buf_str(a.streamed ? &streamed : &a.body), body))
		fail_msg(
		    "step %zu: \"%.*s\"", step, STR_ARG(buf_str(a.streamed ? &streamed : &a.body)));
}

static void
an_answer_is_the_same_for_every_framing_and_cut(void **state UNUSED)
{
	static const char chunked[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
				      "content-type: text/event-stream; charset=utf-8\r\n"
				      "transfer-encoding: chunked\r\n\r\n"
				      "6\r\ndata: \r\n3\r\n1\n\n\r\n0\r\n\r\n";
	static const char length[] =
	    "HTTP/1.1 429 Slow\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
	static const char closed[] = SSE_OK "data: 1\n\n";

	for (size_t step = 1; step < 40; step++) {
		answer_is(chunked, step, 0, 200, "data: 1\n\n");
		answer_is(length, step, 0, 429, "{}");
		answer_is(closed, step, 0, 200, "data: 1\n\n");
	}
	answer_is(SSE_OK "data: STOP\n\nand more", 0, 0, 200, "data: STOP\n\nand more");
}

static void
an_answer_that_breaks_off_or_is_none_is_an_error(void **state UNUSED)
{
	answer_is("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", 0, ERR_UNAVAILABLE, 0, "");
	answer_is("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 0,
	    ERR_UNAVAILABLE, 0, "");
	answer_is("HTTP/1.1 200", 0, ERR_UNAVAILABLE, 0, "");
	answer_is(NULL, 0, ERR_UNAVAILABLE, 0, "");
	answer_is("SSH-2.0-OpenSSH\r\n\r\n", 0, ERR_SYNTAX, 0, "");
	answer_is("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", 0,
	    ERR_SYNTAX, 0, "");
}

static void
a_request_says_where_it_goes_and_holds_no_credential(void **state UNUSED)
{
	struct played p = {.text = SSE_OK};
	AUTO_BUF struct buf streamed = BUF(64);
	AUTO_ANSWER struct model_http_answer a = {0};
	AUTO_FREE char *log = NULL;
	AUTO_SERVER struct server s;
	struct err e;

	server_start(&s, &p, 1);
	assert_int_equal(post(&s, STR("{\"a\":1}"), &streamed, &a, soon(20), &e), 0);
	log = server_log(&s);
	assert_non_null(strstr(log, "POST /v1/messages HTTP/1.1\r\nHost: model.test:8080\r\n"));
	assert_non_null(strstr(log, "\r\nx-extra: yes\r\n"));
	assert_non_null(strstr(log, "\r\nContent-Length: 7\r\n\r\n{\"a\":1}"));
	assert_null(strcasestr(log, "authorization"));
	assert_null(strcasestr(log, "api-key"));
}

/* It answers behind the head and reads no body: what is said counts, not that it was not read. */
static void
an_answer_before_the_request_is_sent_is_the_answer(void **state UNUSED)
{
	static const char text[] =
	    "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig";
	AUTO_FREE char *big = xmalloc(3 << 20);
	AUTO_BUF struct buf streamed = BUF(64);
	AUTO_ANSWER struct model_http_answer a = {0};
	struct server s = {.log = -1};
	struct err e = {0};

	memset(big, ' ', 3 << 20);
	assert_int_equal(agent_socket_make(&s.sock, &e), 0);
	s.pid = fork();
	if (s.pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0) {
		char room[100];
		int fd;

		while ((fd = accept(s.sock.listen, NULL, NULL)) < 0)
			(void)usleep(1000);
		(void)!recv(fd, room, sizeof(room), 0);
		server_all(fd, text, sizeof(text) - 1, 0);
		(void)close(fd);
		_exit(0);
	}
	assert_int_equal(post(&s, (struct str){big, 3 << 20}, &streamed, &a, soon(20), &e), 0);
	assert_int_equal(a.head.status, 413);
	assert_true(str_eqz(buf_str(&a.body), "big"));
	server_stop(&s);
}

static void
silence_and_the_end_of_the_runs_time_end_the_wait(void **state UNUSED)
{
	struct played p[] = {{.text = SSE_OK "data: 1\n\n", .hang = true}};
	AUTO_BUF struct buf streamed = BUF(64);
	AUTO_ANSWER struct model_http_answer a = {0}, b = {0};
	AUTO_SERVER struct server s, t;
	uint64_t begin = clock_boot_us();
	struct err e;

	server_start(&s, p, 1);
	server_start(&t, p, 1);
	assert_int_equal(post(&s, STR("{}"), &streamed, &a, soon(20), &e), ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "1 s"));
	assert_int_equal(
	    post(&t, STR("{}"), &streamed, &b, clock_boot_us() + 300000, &e), ERR_TIMEOUT);
	assert_true(clock_boot_us() - begin < 5000000);
}

static bool
killed(void *arg)
{
	return *(bool *)arg;
}

static void
the_brokers_word_ends_the_wait(void **state UNUSED)
{
	struct played p = {.text = SSE_OK, .hang = true};
	AUTO_BUF struct buf streamed = BUF(64);
	AUTO_ANSWER struct model_http_answer a = {0};
	AUTO_SERVER struct server s;
	struct model_http h;
	struct model_post post = {.host = STR("h"),
	    .path = STR("/"),
	    .body = STR("{}"),
	    .until_us = soon(20),
	    .stream = collect,
	    .stream_arg = &streamed};
	bool yes = true;
	int wire[2];
	struct err e;

	server_start(&s, &p, 1);
	assert_int_equal(pipe(wire), 0);
	h = server_http(&s);
	h.watch_fd = &wire[0];
	h.watch = killed;
	h.watch_arg = &yes;
	assert_int_equal(write(wire[1], "x", 1), 1);
	assert_int_equal(model_http_post(&h, &post, &a, &e), ERR_STATE);
	assert_int_equal(model_http_wait(&h, 20000, soon(30), &e), ERR_STATE);
	h.watch = NULL;
	h.watch_fd = NULL;
	assert_int_equal(model_http_wait(&h, 10, soon(30), &e), 0);
	assert_int_equal(model_http_wait(&h, 10000, clock_boot_us() + 1000, &e), ERR_TIMEOUT);
	(void)close(wire[0]);
	(void)close(wire[1]);
}

/* --- retries --------------------------------------------------------------------- */

static struct http_response
answered(unsigned status, const char *name, const char *value)
{
	struct http_response r = {.status = status, .nfields = name != NULL ? 1 : 0};

	r.fields[0] = (struct http_field){str_z(name), str_z(value)};
	return r;
}

static void
retries_follow_the_status_unless_the_server_says(void **state UNUSED)
{
	static const unsigned yes[] = {408, 409, 429, 500, 502, 503, 529};
	static const unsigned no[] = {200, 301, 400, 401, 402, 403, 404, 410, 413, 422};
	struct http_response r;

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		r = answered(yes[i], NULL, NULL);
		assert_true(model_retry_is_due(&r));
		r = answered(yes[i], "X-Should-Retry", "false");
		assert_false(model_retry_is_due(&r));
	}
	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		r = answered(no[i], NULL, NULL);
		assert_false(model_retry_is_due(&r));
		r = answered(no[i], "x-should-retry", "true");
		assert_true(model_retry_is_due(&r));
	}
	r = answered(500, "x-should-retry", "maybe");
	assert_true(model_retry_is_due(&r));
}

static void
waits_are_as_asked_or_double_with_less_by_chance(void **state UNUSED)
{
	static const struct {
		const char *name, *value;
		uint32_t ms;
	} asked[] = {{"retry-after-ms", "1250", 1250}, {"retry-after-ms", "7.9", 7},
	    {"retry-after", "2", 2000}, {"Retry-After", "0.5", 500}, {"retry-after", "90", 90000},
	    {"retry-after", "Sun, 06 Nov 1994 08:49:37 GMT", 37000},
	    /* what is no positive delay leaves the rule */
	    {"retry-after", "0", 500}, {"retry-after", "-3", 500}, {"retry-after", "soon", 500},
	    {"retry-after", "Sun, 06 Nov 1994 08:48:37 GMT", 500},
	    {"retry-after", "Sun, 06 Nov 1994 08:49:37 CET", 500},
	    {"retry-after", "99999999999999999999", 500}, {"retry-after-ms", "2147483648", 500}};
	const int64_t now = 784111740; /* Sun, 06 Nov 1994 08:49:00 GMT */
	struct http_response r;

	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		r = answered(429, asked[i].name, asked[i].value);
		if (model_retry_wait_ms(&r, 0, 0, now) != asked[i].ms)
			fail_msg("%s: %s: %u", asked[i].name, asked[i].value,
			    model_retry_wait_ms(&r, 0, 0, now));
	}
	for (unsigned n = 0; n < 10; n++) {
		uint32_t most = n < 4 ? 500u << n : 8000;

		assert_int_equal(model_retry_wait_ms(NULL, n, 0, now), most);
		assert_int_equal(model_retry_wait_ms(NULL, n, 1000, now), most - most / 4);
		assert_in_range(
		    model_retry_wait_ms(NULL, n, 0xdeadbeef, now), most - most / 4, most);
	}
}

/* --- base URLs ------------------------------------------------------------------- */

static void
a_base_url_is_an_origin_and_a_plain_path(void **state UNUSED)
{
	static const char *const bad[] = {"", "model.test", "ftp://model.test", "https://",
	    "https:///v1", "https://u@model.test", "https://model.test?x",
	    "https://model.test/v1?x", "https://model.test/#f", "https://model.test/a//b",
	    "https://model.test/../b", "https://model.test/a b", "https://model.test:0",
	    "https://model.test/%2e"};
	static const struct {
		const char *text, *authority, *path;
	} good[] = {{"https://api.model.test", "api.model.test", ""},
	    {"https://API.model.test:443/", "api.model.test", ""},
	    {"https://api.model.test:8443/v1/", "api.model.test:8443", "/v1"},
	    {"http://127.0.0.1:11434/v1", "127.0.0.1:11434", "/v1"},
	    {"http://localhost/openai/v1", "localhost:80", "/openai/v1"},
	    {"http://[::1]:80", "[::1]:80", ""}};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct model_url u = {0};

		if (model_url_parse(bad[i], &u, &e) != ERR_INVALID &&
		    model_url_parse(bad[i], &u, &e) != ERR_SYNTAX)
			fail_msg("%s is taken", bad[i]);
		assert_non_null(strstr(e.msg, "--base-url"));
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct model_url u = {0};

		if (model_url_parse(good[i].text, &u, &e) != 0)
			fail_msg("%s", e.msg);
		assert_string_equal(u.authority, good[i].authority);
		assert_string_equal(u.path, good[i].path);
		model_url_free(&u);
	}
	assert_int_equal(model_remote_check("anthropic:x", NULL, &e), 0);
	assert_int_equal(model_remote_check("openai:x/y:1b", NULL, &e), 0);
	assert_int_equal(model_remote_check("anthropic:", NULL, &e), ERR_INVALID);
	assert_int_equal(model_remote_check("anthropicx:y", NULL, &e), ERR_INVALID);
	assert_int_equal(model_remote_check("other:x", NULL, &e), ERR_INVALID);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(events_are_the_same_for_every_cut_and_line_end),
	    cmocka_unit_test(the_reader_of_events_says_when_it_has_enough),
	    cmocka_unit_test(an_endless_line_and_an_endless_event_are_refused),
	    cmocka_unit_test(an_answer_is_the_same_for_every_framing_and_cut),
	    cmocka_unit_test(an_answer_that_breaks_off_or_is_none_is_an_error),
	    cmocka_unit_test(a_request_says_where_it_goes_and_holds_no_credential),
	    cmocka_unit_test(an_answer_before_the_request_is_sent_is_the_answer),
	    cmocka_unit_test(silence_and_the_end_of_the_runs_time_end_the_wait),
	    cmocka_unit_test(the_brokers_word_ends_the_wait),
	    cmocka_unit_test(retries_follow_the_status_unless_the_server_says),
	    cmocka_unit_test(waits_are_as_asked_or_double_with_less_by_chance),
	    cmocka_unit_test(a_base_url_is_an_origin_and_a_plain_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
