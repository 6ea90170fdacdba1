/* Answers as the client gets them: framed anew, held back, cut off; what a liar can do with them.
 */
#include "tests/unit/front_help.h"

#include "common/banned.h"

#define CHUNKED OK "Date\r\nTransfer-Encoding: chunked\r\n\r\n"

/* --- framing ------------------------------------------------------------------------- */

/* NET-08, byte by byte. */
static void
answers_without_a_body_have_no_framing_of_one(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = asked(fd, "HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n", false);

	head(&a, 200, "Content-Type:text/plain");
	finish(&a);
	assert_string_equal(hear(fd), OK "Content-Type: text/plain\r\nDate\r\n\r\n");
	act_free(&a);
	a = asked(fd, GET, false);
	head(&a, 204, "Date:Tue, 01 Dec 2026 00:00:00 GMT\nContent-Length:0");
	finish(&a);
	assert_string_equal(hear(fd), "HTTP/1.1 204 No Content\r\nDate\r\n\r\n");
	act_free(&a);
	a = asked(fd, GET, false);
	head(&a, 204, "");
	finish(&a);
	assert_string_equal(hear(fd), "HTTP/1.1 204 No Content\r\nDate\r\n\r\n");
	act_free(&a);
	a = asked(fd, GET, false);
	head(&a, 304, "Content-Length:99\nDate:Tue, 01 Dec 2026 00:00:00 GMT");
	finish(&a);
	assert_string_equal(
	    hear(fd), "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nDate\r\n\r\n");
	act_free(&a);
	a = asked(fd, GET, false);
	head(&a, 200, "Content-Length:2\nDate:Tue, 01 Dec 2026 00:00:00 GMT");
	data(&a, STR("ok"));
	finish(&a);
	assert_string_equal(hear(fd), OK "Content-Length: 2\r\nDate\r\n\r\nok");
}

static void
answer_of_unknown_length_is_chunked_or_ends_with_the_stream(void **state UNUSED)
{
	AUTO_FD int one = client(web);
	AUTO_FD int two = client(web);
	AUTO_FD int three = client(web);
	AUTO_ACT a = asked(one, GET, false);

	head(&a, 200, "");
	assert_string_equal(hear(one), CHUNKED);
	data(&a, STR("data: 1\n\n")); /* an event is not kept for the next one */
	assert_string_equal(hear(one), "9\r\ndata: 1\n\n\r\n");
	data(&a, STR(""));
	assert_string_equal(hear(one), "");
	finish(&a);
	assert_string_equal(hear(one), "0\r\n\r\n");
	act_free(&a);
	a = asked(two, "GET / HTTP/1.0\r\nHost: web.test\r\nConnection: keep-alive\r\n\r\n", false);
	head(&a, 200, "");
	data(&a, STR("x"));
	end(&a, true);
	assert_string_equal(hear(two), OK "Date\r\nConnection: close\r\n\r\nx$");
	assert_int_equal(count(MSG_H_CLOSE), 0);
	act_free(&a);
	/* Of known length HTTP/1.0 can go on. */
	a = asked(
	    three, "GET / HTTP/1.0\r\nHost: web.test\r\nConnection: keep-alive\r\n\r\n", false);
	head(&a, 200, "Content-Length:1");
	data(&a, STR("x"));
	finish(&a);
	assert_string_equal(
	    hear(three), OK "Content-Length: 1\r\nDate\r\nConnection: keep-alive\r\n\r\nx");
}

static void
connection_closes_when_the_client_wants_it_or_core(void **state UNUSED)
{
	AUTO_FD int one = client(web);
	AUTO_FD int two = client(web);
	AUTO_FD int three = client(web);
	AUTO_ACT a =
	    asked(one, "GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n", false);

	head(&a, 200, "Content-Length:1");
	data(&a, STR("x"));
	finish(&a);
	assert_string_equal(
	    hear(one), OK "Content-Length: 1\r\nDate\r\nConnection: close\r\n\r\nx$");
	act_free(&a);
	say(two, GET);
	a = act();
	refuse(&a, 403, true, "{}");
	assert_non_null(strstr(hear(two), "Connection: close\r\n\r\n{}$"));
	act_free(&a);
	say(three, "HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	a = act();
	refuse(&a, 403, false, "{}");
	assert_string_equal(hear(three), "HTTP/1.1 403 Forbidden\r\nDate\r\nContent-Type: "
					 "application/problem+json\r\nContent-Length: 2\r\n\r\n");
}

static void
fields_of_a_connection_stay_on_their_side(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = asked(fd, GET, false);

	head(&a, 200,
	    "Connection:x-hop\nX-Hop:1\nKeep-Alive:timeout=1\nTransfer-Encoding:chunked\n"
	    "Upgrade:h2c\nSet-Cookie:a=1\nSet-Cookie:b=2\nContent-Length:0");
	finish(&a);
	assert_string_equal(
	    hear(fd), OK "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\nDate\r\n\r\n");
}

static void
interim_answers_are_relayed_to_who_knows_them(void **state UNUSED)
{
	AUTO_FD int one = client(web);
	AUTO_FD int two = client(web);
	AUTO_ACT a = asked(one, GET, true);

	head(&a, 103, "Link:</a.css>; rel=preload");
	head(&a, 100, "");
	{
		const char *said = hear(one);

		assert_true(starts(said, "HTTP/1.1 103 "));
		assert_string_equal(strchr(said, '\n'), "\nLink: </a.css>; rel=preload\r\n\r\n");
	}
	head(&a, 101, "Upgrade:websocket"); /* nothing could follow it */
	assert_string_equal(hear(one), "$");
	(void)expect(MSG_H_CLOSE);
	act_free(&a);
	a = asked(two, "GET / HTTP/1.0\r\nHost: web.test\r\n\r\n", false);
	head(&a, 103, "Link:</a.css>; rel=preload");
	assert_string_equal(hear(two), "");
}

/* --- held back ----------------------------------------------------------------------- */

static void
end_of_a_held_answer_waits_for_its_record(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = asked(fd, GET, true);

	head(&a, 200, "Content-Length:4");
	assert_string_equal(hear(fd), "");
	data(&a, STR("ab"));
	assert_string_equal(hear(fd), OK "Content-Length: 4\r\nDate\r\n\r\n");
	data(&a, STR("cd"));
	end(&a, true);
	assert_string_equal(hear(fd), "ab");
	done(&a);
	assert_string_equal(hear(fd), "cd");
	act_free(&a);
	/* Of one without a body, the head is the end. */
	a = asked(fd, "HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n", true);
	head(&a, 200, "");
	end(&a, true);
	assert_string_equal(hear(fd), "");
	done(&a);
	assert_string_equal(hear(fd), OK "Date\r\n\r\n");
	act_free(&a);
	/* Core's word may be the first: the two come on different wires. */
	a = asked(fd, GET, true);
	done(&a);
	head(&a, 200, "");
	data(&a, STR("x"));
	assert_string_equal(hear(fd), CHUNKED);
	end(&a, true);
	assert_string_equal(hear(fd), "1\r\nx\r\n0\r\n\r\n");
}

static void
answer_that_is_faster_than_cores_word_waits_for_it(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};

	say(fd, GET);
	a = act();
	head(&a, 200, "Content-Length:2");
	data(&a, STR("o"));
	data(&a, STR("k"));
	end(&a, true);
	assert_string_equal(hear(fd), "");
	go(&a, false, 0, true);
	assert_string_equal(hear(fd), OK "Content-Length: 2\r\nDate\r\n\r\no");
	done(&a);
	assert_string_equal(hear(fd), "k");
	act_free(&a);
	say(fd, GET);
	a = act();
	head(&a, 200, "Content-Length:2");
	data(&a, STR("ok"));
	end(&a, true);
	assert_string_equal(hear(fd), "");
	go(&a, false, 0, false);
	assert_string_equal(hear(fd), OK "Content-Length: 2\r\nDate\r\n\r\nok");
	act_free(&a);
}

static void
receipt_stands_in_the_head_whichever_comes_first_and_no_servers_own(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};

	say(fd, GET);
	a = act();
	go_with(&a, false, 0, false, "o#17:ab:18");
	pump(5);
	head(&a, 200, "Content-Length:2\ncofferdam-RECEIPT:theirs\nX-Theirs:1");
	data(&a, STR("ok"));
	finish(&a);
	assert_string_equal(hear(fd), OK "Cofferdam-Receipt: o#17:ab:18\r\nContent-Length: 2\r\n"
					 "X-Theirs: 1\r\nDate\r\n\r\nok");
	act_free(&a);
	for (int held = 0; held < 2; held++) {
		say(fd, GET);
		a = act();
		head(&a, 200, "Content-Length:4");
		data(&a, STR("\r\n"));
		data(&a, STR("ok"));
		end(&a, true);
		assert_string_equal(hear(fd), "");
		go_with(&a, false, 0, held == 1, "o#17:ab:18");
		assert_string_equal(hear(fd),
		    held == 1 ? OK "Cofferdam-Receipt: o#17:ab:18\r\nContent-Length: 4\r\n"
				   "Date\r\n\r\n\r\n"
			      : OK "Cofferdam-Receipt: o#17:ab:18\r\nContent-Length: 4\r\n"
				   "Date\r\n\r\n\r\nok");
		done(&a);
		assert_string_equal(hear(fd), held == 1 ? "ok" : "");
		act_free(&a);
	}
}

static void
refusal_replaces_a_held_answer_of_which_nothing_was_seen(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = asked(fd, GET, true);

	head(&a, 200, "Content-Length:2");
	pump(5);
	refuse(&a, 502, false, "{}");
	assert_true(starts(hear(fd), "HTTP/1.1 502 Bad Gateway\r\n"));
	act_free(&a);
	a = asked(fd, GET, false);
	head(&a, 200, "Content-Length:2");
	data(&a, STR("o"));
	assert_string_equal(hear(fd), OK "Content-Length: 2\r\nDate\r\n\r\no");
	refuse(&a, 502, false, "{}"); /* too late for another head */
	assert_string_equal(hear(fd), "$");
}

static void
slow_reader_holds_the_server_up(void **state UNUSED)
{
	static char big[200000];
	AUTO_FD int fd = client(web);
	AUTO_ACT a = asked(fd, GET, false);
	size_t sent = 0, got = 0;
	struct rd r;

	memset(big, 'x', sizeof(big));
	head(&a, 200, "Content-Length:200000000");
	while (count(MSG_FU_HOLD) == 0 && sent < 20000000) {
		data(&a, str_mem(big, sizeof(big)));
		sent += sizeof(big);
		pump(2);
	}
	r = rd_init(buf_str(&seen[expect(MSG_FU_HOLD)].body));
	assert_true(rd_u64(&r) == a.conn && rd_u64(&r) == a.act && rd_u8(&r) == 1);
	assert_true(sent < 20000000);
	for (int i = 0; i < 4000 && count(MSG_FU_HOLD) == 0; i++) {
		ssize_t n = recv(fd, big, sizeof(big), 0);

		if (n > 0)
			got += (size_t)n;
		else
			pump(1);
	}
	r = rd_init(buf_str(&seen[expect(MSG_FU_HOLD)].body));
	assert_true(rd_u64(&r) == a.conn && rd_u64(&r) == a.act && rd_u8(&r) == 0);
	/* One that reads nothing at all for long is given up. */
	hub->clocks.stall = 30;
	for (int i = 0; i < 2000 && count(MSG_H_CLOSE) == 0; i++) {
		if (count(MSG_FU_HOLD) % 2 == 0) /* as told: on, off, on */
			data(&a, str_mem(big, sizeof(big)));
		pump(2);
	}
	(void)expect(MSG_H_CLOSE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    P(answers_without_a_body_have_no_framing_of_one),
	    P(answer_of_unknown_length_is_chunked_or_ends_with_the_stream),
	    P(connection_closes_when_the_client_wants_it_or_core),
	    P(fields_of_a_connection_stay_on_their_side),
	    P(interim_answers_are_relayed_to_who_knows_them),
	    P(end_of_a_held_answer_waits_for_its_record),
	    P(receipt_stands_in_the_head_whichever_comes_first_and_no_servers_own),
	    P(answer_that_is_faster_than_cores_word_waits_for_it),
	    P(refusal_replaces_a_held_answer_of_which_nothing_was_seen),
	    P(slow_reader_holds_the_server_up),
	};

	return cmocka_run_group_tests_name("front_http_answer", tests, NULL, NULL);
}
