/* HTTP towards clients: requests that are one, and what is none; answers as they are framed. */
#include "tests/unit/front_help.h"

#include "common/banned.h"

#define S(literal)                           \
	{                                    \
		literal, sizeof(literal) - 1 \
	}

/* A request that core lets go, answered with `body` of known length. */
static void
serve(const struct act *a, const char *body)
{
	char length[40];

	go(a, false, 0, false);
	(void)snprintf(length, sizeof(length), "Content-Length:%zu", strlen(body));
	head(a, 200, length);
	data(a, str_z(body));
	end(a, true);
	done(a);
}

/* --- requests ---------------------------------------------------------------------- */

static void
head_reaches_core_in_origin_form_with_its_fields_as_they_were(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};

	say(fd, "\r\nGET http://web.test/a?b=%20c HTTP/1.1\r\nhOST:web.test\r\nX-a: 1 "
		"\r\nx-A:\t2\r\n\r\n");
	a = act();
	assert_string_equal(a.fault, "");
	assert_string_equal(
	    a.head, "GET /a?b=%20c HTTP/1.1\r\nhOST: web.test\r\nX-a: 1\r\nx-A: 2\r\n\r\n");
	assert_string_equal(a.host, "web.test");
	assert_int_equal(a.port, 80);
	assert_true(a.tls == 0 && a.body == 0 && a.expects == 0);
	assert_string_equal(a.connect, "");
	assert_string_equal(a.sni, "");
}

static void
head_may_come_byte_by_byte(void **state UNUSED)
{
	static const char text[] = GET;
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};

	for (size_t i = 0; i + 1 < sizeof(text); i++) {
		assert_int_equal(count(MSG_H_ACT), 0);
		assert_int_equal(send(fd, text + i, 1, MSG_NOSIGNAL), 1);
		pump(1);
	}
	a = act();
	serve(&a, "ok");
	assert_string_equal(hear(fd), OK "Content-Length: 2\r\nDate\r\n\r\nok");
}

static void
pipelined_requests_are_acts_one_after_the_other(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};
	AUTO_ACT b = {0};

	say(fd,
	    "GET /1 HTTP/1.1\r\nHost: web.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: web.test\r\n\r\n");
	a = act();
	pump(20);
	assert_int_equal(count(MSG_H_ACT), 0);
	go(&a, false, 0, false);
	head(&a, 200, "Content-Length:1");
	data(&a, STR("1"));
	end(&a, true);
	/* The client has all of the first, and core's record of it is not there yet. */
	assert_string_equal(hear(fd), OK "Content-Length: 1\r\nDate\r\n\r\n1");
	assert_int_equal(count(MSG_H_ACT), 0);
	done(&a);
	b = act();
	assert_non_null(strstr(b.head, "GET /2 "));
	assert_true(b.act != a.act && b.conn == a.conn);
	serve(&b, "2");
	assert_string_equal(hear(fd), OK "Content-Length: 1\r\nDate\r\n\r\n2");
}

/* Each of them is recorded as what it is not, gets core's answer, and ends the connection with all
 * that stands behind it. */
static void
ambiguous_requests_are_faults_and_nothing_behind_them_is_read(void **state UNUSED)
{
	static const struct str bad[] = {
	    S("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\nTransfer-Encoding: "
	      "chunked\r\n\r\n0\r\n\r\n"),
	    S(POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
	    S(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
	    S(POST "Content-Length: +5\r\n\r\nhello"),
	    S(POST "Content-Length: 5, 5\r\n\r\nhello"),
	    S(POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
	    S(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
	    S(POST "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
	    S(POST "Transfer-Encoding: chunked\r\n\r\n5;ext\r\nhello\r\n0\r\n\r\n"),
	    S(POST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\nhello\r\n0\r\n\r\n"),
	    S(POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0x0\r\n\r\n"),
	    S("GET / HTTP/1.1\r\nHost: web.test\r\nX: a\r\n b\r\n\r\n"),
	    S("GET / HTTP/1.1\nHost: web.test\n\n"),
	    S("GET / HTTP/1.1\r\nHost: web.test\r\nX Y: 1\r\n\r\n"),
	    S("GET / HTTP/1.1\r\nHost: web.test\r\nX: a\0b\r\n\r\n"),
	    S("GET / HTTP/1.1\r\n\r\n"),
	    S("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	    S("GET http://[::1 HTTP/1.1\r\nHost: web.test\r\n\r\n"),
	    S("GET https://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n"),
	    S("CONNECT web.test:443 HTTP/1.1\r\nHost: web.test:443\r\n\r\n"),
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_FD int fd = client(web);
		AUTO_ACT a = {0};
		AUTO_BUF struct buf b = BUF(10000);

		buf_put_str(&b, bad[i]);
		buf_put_z(&b, "DELETE /prod HTTP/1.1\r\nHost: web.test\r\n\r\n");
		say_str(fd, buf_str(&b));
		a = act();
		if (a.fault[0] == '\0')
			fail_msg("%s: \"%s\"", bad[i].p, a.fault);
		assert_memory_equal(a.head, bad[i].p, 4);
		refuse(&a, 400, true, "{}");
		assert_string_equal(hear(fd), "HTTP/1.1 400 Bad Request\r\nDate\r\nContent-Type: "
					      "application/problem+json\r\nContent-Length: "
					      "2\r\nConnection: close\r\n\r\n{}$");
		assert_int_equal(count(MSG_H_ACT), 0);
		assert_int_equal(count(MSG_H_CLOSE), 0);
	}
}

static void
embedded_request_is_a_body_and_no_act(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};

	say(fd, "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 42\r\n\r\n"
		"DELETE /prod HTTP/1.1\r\nHost: web.test:80\r\n\r\n");
	a = act();
	assert_true(a.body == 1 && a.length == 42);
	assert_true(strncmp(a.inlined, "DELETE /prod HTTP/1.1", 21) == 0);
	serve(&a, "ok");
	(void)hear(fd);
	/* Two bytes were behind the body; they begin the next request. */
	say(fd, GET);
	{
		AUTO_ACT b = act();

		assert_string_equal(b.fault, "");
	}
}

static void
limits_of_a_head_have_their_own_status(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(200000);
	AUTO_FD int one = client(web);
	AUTO_FD int two = client(web);
	AUTO_FD int three = client(web);
	AUTO_ACT a = {0};

	/* Without an end: refused once it is too long, not when it ends. */
	buf_put_z(&b, "GET / HTTP/1.1\r\nHost: web.test\r\nX: ");
	while (b.n < HTTP_HEAD_MAX)
		buf_put_c(&b, 'x');
	say_str(one, buf_str(&b));
	a = act();
	assert_true(strncmp(a.fault, "head: no end within", 19) == 0);
	assert_int_equal(strlen(a.head), FRONT_HTTP_RAW_MAX);
	act_free(&a);
	buf_reset(&b);
	buf_put_z(&b, "GET /");
	for (size_t i = 0; i < HTTP_TARGET_MAX; i++)
		buf_put_c(&b, 'x');
	buf_put_z(&b, " HTTP/1.1\r\nHost: web.test\r\n\r\n");
	say_str(two, buf_str(&b));
	a = act();
	assert_true(strncmp(a.fault, "target: ", 8) == 0);
	act_free(&a);
	/* One byte less is a target. */
	buf_drop(&b, 6);
	say(three, "GET /");
	say_str(three, buf_str(&b));
	a = act();
	assert_string_equal(a.fault, "");
}

static void
client_that_goes_away_is_told_to_core_once(void **state UNUSED)
{
	int fd = client(web);
	AUTO_ACT a = {0};
	struct rd r;

	say(fd, GET);
	a = act();
	go(&a, false, 0, false);
	(void)close(fd);
	r = rd_init(buf_str(&seen[expect(MSG_H_CLOSE)].body));
	assert_true(rd_u64(&r) == a.conn && rd_u64(&r) == a.act && rd_end(&r));
	/* What comes now is nobody's. */
	head(&a, 200, "");
	data(&a, STR("x"));
	end(&a, true);
	done(&a);
	pump(20);
	assert_int_equal(count(MSG_H_CLOSE), 0);
	assert_int_equal(wires_lost, 0);
	/* One that goes between requests is not worth a word. */
	fd = client(web);
	say(fd, GET);
	act_free(&a);
	a = act();
	serve(&a, "ok");
	(void)hear(fd);
	(void)close(fd);
	pump(20);
	assert_int_equal(count(MSG_H_CLOSE), 0);
}

static void
loop_and_proxy_take_their_own_forms_only(void **state UNUSED)
{
	uint16_t proxy = listen_on(FRONT_PROXY, "proxy.cofferdam.internal", 3128);
	uint16_t model = listen_on(FRONT_LOOP, "", 0);
	static const char *const to_proxy[] = {GET,
	    "GET https://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n",
	    "OPTIONS * HTTP/1.1\r\nHost: web.test\r\n\r\n"};
	AUTO_ACT a = {0};

	for (size_t i = 0; i < ARRAY_LEN(to_proxy); i++) {
		AUTO_FD int fd = client(proxy);

		say(fd, to_proxy[i]);
		a = act();
		assert_true(a.fault[0] != '\0');
		assert_string_equal(a.host, "");
		act_free(&a);
	}
	{
		AUTO_FD int fd = client(proxy);

		say(fd, "GET http://A.test.:8080 HTTP/1.1\r\nHost: a.test:8080\r\n\r\n");
		a = act();
		assert_string_equal(a.fault, "");
		assert_string_equal(a.host, "a.test");
		assert_true(a.port == 8080 && a.tls == 0);
		assert_true(strncmp(a.head, "GET / HTTP/1.1\r\n", 16) == 0);
		act_free(&a);
	}
	{
		AUTO_FD int fd = client(model);

		say(fd, "POST /v1/messages HTTP/1.1\r\nHost: api.model.test\r\nContent-Length: "
			"2\r\n\r\n{}");
		a = act();
		assert_string_equal(a.host, "api.model.test");
		assert_true(a.port == 443 && a.tls == 0 && a.body == 1);
		act_free(&a);
	}
	{
		AUTO_FD int fd = client(model);

		say(fd, "GET http://api.model.test/ HTTP/1.1\r\nHost: api.model.test\r\n\r\n");
		a = act();
		assert_true(a.fault[0] != '\0');
	}
}

static void
misplaced_requests_are_told_why_and_end_the_connection(void **state UNUSED)
{
	uint16_t proxy = listen_on(FRONT_PROXY, "proxy.cofferdam.internal", 3128);
	static const struct {
		bool proxy;
		const char *text, *why;
	} bad[] = {
	    {false, "CONNECT web.test:443 HTTP/1.1\r\nHost: web.test:443\r\n\r\n",
		"CONNECT is for the proxy"},
	    {false, "GET https://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n",
		"the target's scheme is not the connection's"},
	    {true, GET, "the proxy takes CONNECT and absolute targets only"},
	    {true, "GET https://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n",
		"https:// is reached by CONNECT"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_FD int fd = client(bad[i].proxy ? proxy : web);
		AUTO_ACT a = {0};

		say(fd, bad[i].text);
		a = act();
		assert_string_equal(a.fault, bad[i].why);
		refuse(&a, 400, false, "{}"); /* whatever core says of the connection */
		assert_non_null(strstr(hear(fd), "Connection: close\r\n\r\n{}$"));
	}
}

/* Else answers would pile up here for who only asks. */
static void
requests_wait_for_a_client_that_does_not_read(void **state UNUSED)
{
	static char body[60000];
	AUTO_FD int fd = client(web);
	AUTO_BUF struct buf b = BUF(10000);
	size_t n = 0, got = 0;

	memset(body, 'x', sizeof(body) - 1);
	for (int i = 0; i < 50; i++)
		buf_put_z(&b, GET);
	for (int i = 0; i < 20; i++) {
		say_str(fd, buf_str(&b));
		for (; count(MSG_H_ACT) != 0; n++) {
			AUTO_ACT a = act();

			refuse(&a, 403, false, body);
			pump(2);
		}
	}
	assert_true(n > 10 && n < 700);
	for (int i = 0; i < 400 && count(MSG_H_ACT) == 0; i++) {
		ssize_t k = recv(fd, body, sizeof(body), 0);

		got += k > 0 ? (size_t)k : 0;
		if (k <= 0)
			pump(1);
	}
	assert_int_equal(count(MSG_H_ACT), 1);
	assert_true(got != 0);
}

static void
names_reach_core_as_they_were_used(void **state UNUSED)
{
	AUTO_FD int one = client(web);
	AUTO_FD int two = client(web);
	AUTO_ACT a = {0};

	/* Core compares them; front does not mend. */
	say(one, "GET / HTTP/1.1\r\nHost: B.test.:81\r\n\r\n");
	a = act();
	assert_string_equal(a.host, "b.test");
	assert_int_equal(a.port, 81);
	refuse(&a, 421, false, "{}");
	assert_true(strncmp(hear(one), "HTTP/1.1 421 Misdirected Request\r\n", 34) == 0);
	act_free(&a);
	/* The refusal of a whole request leaves the connection as it was. */
	say(one, GET);
	a = act();
	assert_string_equal(a.host, "web.test");
	act_free(&a);
	/* HTTP/1.0 may leave Host out where the target names it: core gets one all the same, and
	 * the version, since 1.0 has no upgrades. */
	say(two, "GET http://web.test/x HTTP/1.0\r\n\r\n");
	a = act();
	assert_string_equal(a.head, "GET /x HTTP/1.0\r\nHost: web.test\r\n\r\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    P(misplaced_requests_are_told_why_and_end_the_connection),
	    P(requests_wait_for_a_client_that_does_not_read),
	    P(head_reaches_core_in_origin_form_with_its_fields_as_they_were),
	    P(head_may_come_byte_by_byte),
	    P(pipelined_requests_are_acts_one_after_the_other),
	    P(ambiguous_requests_are_faults_and_nothing_behind_them_is_read),
	    P(embedded_request_is_a_body_and_no_act),
	    P(limits_of_a_head_have_their_own_status),
	    P(client_that_goes_away_is_told_to_core_once),
	    P(loop_and_proxy_take_their_own_forms_only),
	    P(names_reach_core_as_they_were_used),
	};

	return cmocka_run_group_tests_name("front_http", tests, NULL, NULL);
}
