/* What front does behind a 101: only where core's word allows for it, both ways, to either's end.
 */
#include "tests/unit/front_help.h"

#include "common/banned.h"

#define ASK                                                                         \
	"GET / HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade\r\nUpgrade: x\r\n" \
	"\r\n"
#define H101 "HTTP/1.1 101 Switching Protocols\r\n"
#define SWITCHED H101 "X-A: b\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
#define FIELDS "Connection:Upgrade\nUpgrade:x\nX-A:b\nContent-Length:7"

static struct act
switched(int fd)
{
	struct act a;

	say(fd, ASK);
	a = act();
	go_with(&a, 2, 1000, true, "");
	head(&a, 101, FIELDS);
	return a;
}

static void
nothing_waits_for_a_record_behind_a_101(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = switched(fd);

	assert_string_equal(hear(fd), SWITCHED);
	data(&a, STR("from the "));
	assert_string_equal(hear(fd), "from the ");
	data(&a, STR("server"));
	assert_string_equal(hear(fd), "server");
	end(&a, true);
	assert_string_equal(hear(fd), "$");
	assert_int_equal(count(MSG_H_CLOSE), 0);
}

static void
a_101_without_cores_word_ends_the_connection(void **state UNUSED)
{
	static const char *const bad[] = {"X-A:b", "Upgrade:h2c", "Upgrade:a b"};
	AUTO_FD int one = client(web);
	AUTO_ACT a = asked(one, GET, false);

	head(&a, 101, FIELDS);
	assert_string_equal(hear(one), "$");
	(void)expect(MSG_H_CLOSE);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_FD int fd = client(web);

		act_free(&a);
		say(fd, ASK);
		a = act();
		go_with(&a, 2, 1000, true, "");
		head(&a, 101, bad[i]); /* one that says to what, or to nothing that may be */
		assert_string_equal(hear(fd), "$");
	}
}

static void
a_101_that_is_faster_than_cores_word_waits_for_it(void **state UNUSED)
{
	AUTO_FD int one = client(web);
	AUTO_FD int two = client(web);
	AUTO_ACT a = {0};

	say(one, ASK);
	a = act();
	head(&a, 101, FIELDS);
	data(&a, STR("early"));
	assert_string_equal(hear(one), "");
	go_with(&a, 2, 1000, true, "receipt");
	assert_string_equal(hear(one), H101 "Cofferdam-Receipt: receipt\r\nX-A: b\r\nUpgrade: "
					    "x\r\nConnection: Upgrade\r\n\r\nearly");
	act_free(&a);
	say(two, ASK);
	a = act();
	head(&a, 101, FIELDS);
	go_with(&a, 0, 0, true, ""); /* it is none */
	assert_null(strstr(hear(two), "101"));
}

static void
what_the_client_sends_goes_on_credit_and_so_does_its_end(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_BUF struct buf got = BUF(4096);
	AUTO_ACT a = {0};

	say(fd, ASK "pipelined");
	a = act();
	go_with(&a, 2, 1000, true, "");
	pump(5);
	assert_int_equal(count(MSG_FU_BODY), 0);
	head(&a, 101, FIELDS);
	assert_string_equal(hear(fd), SWITCHED);
	assert_int_equal(count(MSG_FU_BODY), 0); /* upstream has not asked */
	more(&a, 4);
	assert_false(part(&a, &got));
	assert_true(str_eqz(buf_str(&got), "pipe"));
	more(&a, 500);
	assert_false(part(&a, &got));
	say(fd, " and more");
	assert_false(part(&a, &got));
	assert_true(str_eqz(buf_str(&got), "pipelined and more"));
	(void)shutdown(fd, SHUT_WR);
	assert_true(part(&a, &got));
	assert_int_equal(got.n, 18);
	data(&a, STR("still said"));
	assert_string_equal(hear(fd), "still said");
	assert_int_equal(count(MSG_H_CLOSE), 0);
	end(&a, true);
	assert_string_equal(hear(fd), "$");
}

static void
the_end_of_a_client_waits_for_what_it_sent(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_BUF struct buf got = BUF(4096);
	AUTO_ACT a = switched(fd);

	assert_string_equal(hear(fd), SWITCHED);
	say(fd, "0123456789");
	(void)shutdown(fd, SHUT_WR);
	pump(5);
	more(&a, 6);
	assert_false(part(&a, &got));
	more(&a, 6);
	assert_true(part(&a, &got));
	assert_true(str_eqz(buf_str(&got), "0123456789"));
}

static void
a_client_may_send_no_more_than_was_leased(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_BUF struct buf got = BUF(4096), big = BUF(2000);
	AUTO_ACT a = switched(fd);

	assert_string_equal(hear(fd), SWITCHED);
	more(&a, 65536);
	for (int i = 0; i < 1000; i++)
		buf_put_c(&big, 'x');
	say_str(fd, buf_str(&big));
	(void)part(&a, &got);
	assert_int_equal(got.n, 1000);
	say(fd, "y");
	assert_non_null(strchr("!$", hear(fd)[0]));
	(void)expect(MSG_H_CLOSE);
}

static void
an_abort_breaks_a_stream_off_so_that_it_can_be_told_from_its_end(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = switched(fd);
	struct buf b;

	assert_string_equal(hear(fd), SWITCHED);
	b = to_act(&a, 0);
	tell(core, MSG_H_ABORT, &b);
	assert_string_equal(hear(fd), "!");
}

/* A silent stream has no clock in front; a request's head has. */
static void
a_stream_may_be_silent(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};

	hub->clocks.body = hub->clocks.idle = hub->clocks.head = 20;
	a = switched(fd);
	more(&a, 100);
	assert_string_equal(hear(fd), SWITCHED);
	pump(80);
	assert_string_equal(hear(fd), "");
	say(fd, "z");
	pump(80);
	data(&a, STR("y"));
	assert_string_equal(hear(fd), "y");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    P(nothing_waits_for_a_record_behind_a_101),
	    P(a_101_without_cores_word_ends_the_connection),
	    P(a_101_that_is_faster_than_cores_word_waits_for_it),
	    P(what_the_client_sends_goes_on_credit_and_so_does_its_end),
	    P(the_end_of_a_client_waits_for_what_it_sent),
	    P(a_client_may_send_no_more_than_was_leased),
	    P(an_abort_breaks_a_stream_off_so_that_it_can_be_told_from_its_end),
	    P(a_stream_may_be_silent),
	};

	return cmocka_run_group_tests_name("front_stream", tests, NULL, NULL);
}
