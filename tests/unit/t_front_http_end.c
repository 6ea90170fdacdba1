/* What ends a connection: answers that are none, what a liar says of them, runs, wires and clocks.
 */
#include "tests/unit/front_help.h"

#include "common/banned.h"

/* --- broken answers -------------------------------------------------------------------- */

static void
answer_that_is_not_as_long_as_it_says_is_cut(void **state UNUSED)
{
	static const char *const what[] = {"too long", "too short", "broken off", "to HEAD"};

	for (size_t i = 0; i < ARRAY_LEN(what); i++) {
		AUTO_FD int fd = client(web);
		AUTO_ACT a =
		    asked(fd, i == 3 ? "HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n" : GET, false);

		head(&a, 200, i == 2 ? "" : "Content-Length:3");
		data(&a, i == 0 ? STR("abcd") : STR("ab"));
		end(&a, i != 2);
		assert_true(strstr(hear(fd), i == 1 ? "ab$" : i == 2 ? "ab\r\n$" : "\r\n\r\n$"));
	}
}

static void
answer_that_ends_with_the_stream_and_is_broken_off_ends_in_a_reset(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = asked(fd, "GET / HTTP/1.0\r\nHost: web.test\r\n\r\n", false);

	head(&a, 200, "");
	data(&a, STR("ab"));
	assert_true(strstr(hear(fd), "\r\n\r\nab"));
	end(&a, false);
	assert_string_equal(hear(fd), "!");
}

static void
field_that_cannot_stand_in_a_head_ends_the_connection(void **state UNUSED)
{
	static const char *const bad[] = {"X:a\r", "X Y:1", ":1",
	    "Content-Length:1\nContent-Length:2", "Content-Length:-1", "Content-Length:1x"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_FD int fd = client(web);
		AUTO_ACT a = asked(fd, GET, false);

		head(&a, 200, bad[i]);
		assert_string_equal(hear(fd), "$");
		(void)expect(MSG_H_CLOSE);
	}
	assert_int_equal(wires_lost, 0);
}

static void
words_about_nothing_are_no_harm(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = asked(fd, GET, false);
	struct act other = a;

	other.act++;
	head(&other, 200, "");
	data(&other, STR("x"));
	end(&other, true);
	done(&other);
	more(&other, 1000);
	go(&other, true, 10, true);
	need(&other, 1, 10);
	refuse(&other, 200, true, "x");
	abort_act(&other);
	other = (struct act){.conn = 12345};
	head(&other, 200, "");
	abort_act(&other);
	more(&a, 1000);
	assert_string_equal(hear(fd), "");
	head(&a, 200, "Content-Length:2");
	data(&a, STR("ok"));
	end(&a, true);
	end(&a, true); /* twice: the answer is there already, the connection is not */
	assert_true(starts(hear(fd), OK "Content-Length: 2\r\nDate\r\n\r\nok"));
	assert_int_equal(wires_lost, 0);
}

static void
core_that_is_out_of_step_ends_the_connection(void **state UNUSED)
{
	for (int i = 0; i < 4; i++) {
		AUTO_FD int fd = client(web);
		AUTO_ACT a = {0};

		say(fd, i == 3 ? "GET /\n" : GET);
		a = act();
		if (i == 0)
			go(&a, true, 10, false); /* there is no body */
		else if (i == 1)
			need(&a, 1, 10);
		else
			go(&a, false, 0, false);
		if (i == 2)
			go(&a, false, 0, false); /* twice */
		assert_true(starts(hear(fd), UNAVAILABLE));
	}
}

/* --- ends ------------------------------------------------------------------------------- */

static void
end_of_a_run_is_503_or_a_cut(void **state UNUSED)
{
	AUTO_FD int waits = client(web);
	AUTO_FD int reads = client(web);
	AUTO_FD int idle = client(web);
	AUTO_FD int through = client(web);
	AUTO_FD int other = client(listen_run(900, FRONT_HTTP, "r-2", "web.test", 80));
	AUTO_ACT a = asked(reads, GET, false);
	AUTO_ACT b = asked(through, GET, false);
	AUTO_ACT c = asked(waits, GET, false);
	AUTO_BUF struct buf run = BUF(100);

	head(&a, 200, "");
	data(&a, STR("x"));
	head(&b, 200, "Content-Length:0");
	end(&b, true);
	(void)hear(reads);
	(void)hear(through);
	buf_lz(&run, "r-1");
	ipc_send(core, MSG_F_UNLISTEN, &run, NULL, 0);
	assert_true(starts(hear(waits), UNAVAILABLE));
	assert_string_equal(hear(reads), "$");
	assert_string_equal(hear(idle), "$");
	assert_string_equal(hear(through), "$");
	say(other, GET);
	(void)expect(MSG_H_ACT);
	assert_int_equal(client(web), -1);
}

static void
lost_upstream_ends_what_was_sent_there(void **state UNUSED)
{
	AUTO_FD int sent = client(web);
	AUTO_FD int judged = client(web);
	AUTO_ACT a = asked(sent, GET, false);
	AUTO_ACT b = {0};

	say(judged, GET);
	b = act();
	ipc_free(TAKE_PTR(upstream));
	assert_true(starts(hear(sent), UNAVAILABLE));
	(void)expect(MSG_H_CLOSE);
	assert_string_equal(hear(judged), "");
	wire(IPC_ROLE_UPSTREAM, &upstream);
	go(&b, false, 0, false);
	head(&b, 200, "Content-Length:0");
	finish(&b);
	assert_true(starts(hear(judged), OK));
	ipc_free(TAKE_PTR(core));
	assert_string_equal(hear(judged), "$");
	assert_int_equal(client(web), -1);
}

static void
aborted_exchange_ends_the_connection(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_FD int idle = client(web);
	AUTO_ACT a = asked(fd, GET, true);

	abort_act(&a);
	assert_true(starts(hear(fd), UNAVAILABLE));
	act_free(&a);
	a = asked(idle, GET, false);
	head(&a, 200, "Content-Length:0");
	finish(&a);
	(void)hear(idle);
	a.act = 0; /* whatever it does */
	abort_act(&a);
	assert_string_equal(hear(idle), "$");
}

static void
clocks_run_for_heads_and_between_requests(void **state UNUSED)
{
	AUTO_FD int slow = client(web);
	AUTO_FD int idle = client(web);
	AUTO_FD int waits = client(web);

	hub->clocks.head = 60;
	hub->clocks.idle = 60;
	say(waits, GET);
	for (int i = 0; i < 4; i++) {
		say(slow, "G"); /* more bytes are no more time */
		pump(10);
	}
	pump(20);
	assert_true(starts(hear(slow), "HTTP/1.1 408 Request Timeout\r\n"));
	assert_string_equal(hear(waits), ""); /* core takes its time */
	{
		AUTO_ACT a = act();

		refuse(&a, 403, false, "{}");
		(void)hear(waits);
		pump(100);
		assert_string_equal(hear(waits), "$");
	}
	assert_string_equal(hear(idle), "$");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    P(answer_that_is_not_as_long_as_it_says_is_cut),
	    P(answer_that_ends_with_the_stream_and_is_broken_off_ends_in_a_reset),
	    P(field_that_cannot_stand_in_a_head_ends_the_connection),
	    P(words_about_nothing_are_no_harm),
	    P(core_that_is_out_of_step_ends_the_connection),
	    P(end_of_a_run_is_503_or_a_cut),
	    P(lost_upstream_ends_what_was_sent_there),
	    P(aborted_exchange_ends_the_connection),
	    P(clocks_run_for_heads_and_between_requests),
	};

	return cmocka_run_group_tests_name("front_http_end", tests, NULL, NULL);
}
