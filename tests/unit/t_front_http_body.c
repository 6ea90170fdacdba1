/* Bodies of requests: beside the head, sealed, hashed, streamed; 100-continue; too much of it. */
#include "tests/unit/front_help.h"

#include <sys/mman.h>

#include "common/banned.h"

#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static void
fill(struct buf *b, size_t n)
{
	uint8_t *p = buf_grow(b, n);

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)("0123456789abcdef"[i % 16]);
}

/* POST with a body of n bytes, of which `sent` go with it. */
static int
post(size_t n, size_t sent, const char *fields)
{
	AUTO_BUF struct buf b = BUF(n + 1000);
	int fd = client(web);

	buf_printf(&b, POST "%sContent-Length: %zu\r\n\r\n", fields, n);
	fill(&b, sent);
	say_str(fd, buf_str(&b));
	return fd;
}

/* Core hears that the act is over, and upstream nothing of its end. */
static void
broken_off(const struct act *a)
{
	struct rd r = rd_init(buf_str(&seen[expect(MSG_H_CLOSE)].body));

	assert_true(rd_u64(&r) == a->conn && rd_u64(&r) == a->act);
	for (size_t i = 0; i < nseen; i++)
		if (seen[i].type == MSG_FU_BODY)
			assert_int_equal(seen[i].body.p[16], 0);
}

/* --- the four ways ----------------------------------------------------------------- */

static void
body_of_65536_bytes_goes_with_its_head_and_one_more_does_not(void **state UNUSED)
{
	AUTO_FD int one = post(65536, 65535, "");
	AUTO_FD int two = -1;
	AUTO_FD int three = -1;
	AUTO_ACT a = {0};

	assert_int_equal(count(MSG_H_ACT), 0);
	say(one, "f");
	a = act();
	assert_true(a.body == 1 && a.length == 65536 && strlen(a.inlined) == 65536);
	act_free(&a);
	two = post(65537, 0, "");
	a = act();
	assert_true(a.body == 2 && a.length == 65537 && a.inlined[0] == '\0');
	act_free(&a);
	three = post(0, 0, "");
	a = act();
	assert_true(a.body == 1 && a.length == 0);
}

static void
sealed_body_is_what_was_sent_and_cannot_be_changed(void **state UNUSED)
{
	AUTO_FD int fd = post(100000, 50000, "");
	AUTO_ACT a = act();
	AUTO_BUF struct buf all = BUF(200000);
	AUTO_BUF struct buf got = BUF(200000);
	size_t k;
	int mem;

	need(&a, 1, 100000);
	pump(10);
	assert_int_equal(count(MSG_H_BODY), 0);
	fill(&all, 100000);
	buf_put_z(&all, "GET /next HTTP/1.1\r\nHost: web.test\r\n\r\n");
	say_str(fd, str_mem(all.p + 50000, all.n - 50000));
	k = expect(MSG_H_BODY);
	mem = seen[k].fd;
	assert_int_equal(
	    fcntl(mem, F_GET_SEALS), F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	assert_int_equal(pread(mem, buf_grow(&got, 150000), 150000, 0), 100000);
	assert_memory_equal(got.p, all.p, 100000);
	assert_int_equal(pwrite(mem, "x", 1, 0), -1);
	/* The next request is where it was, and comes when this one is over. */
	assert_int_equal(count(MSG_H_ACT), 0);
	refuse(&a, 403, false, "{}");
	{
		AUTO_ACT b = act();

		assert_true(starts(b.head, "GET /next "));
	}
}

static void
hashed_body_is_read_and_let_go(void **state UNUSED)
{
	AUTO_FD int fd = post(100000, 100000, "");
	AUTO_ACT a = act();
	AUTO_BUF struct buf all = BUF(200000);
	struct hash sum;
	struct rd r;

	fill(&all, 100000);
	sum = hash_sha256(buf_str(&all));
	need(&a, 2, 100000);
	r = rd_init(buf_str(&seen[expect(MSG_H_HASHED)].body));
	assert_true(rd_u64(&r) == a.conn && rd_u64(&r) == a.act);
	assert_int_equal(rd_u64(&r), 100000);
	assert_memory_equal(rd_bytes(&r, 32).p, sum.b, 32);
	refuse(&a, 403, false, "{}");
	assert_true(starts(hear(fd), "HTTP/1.1 403 "));
}

/* Core has the start as it is; upstream has it from core, and from front only what is behind it. */
static void
the_start_goes_to_core_and_the_rest_is_streamed(void **state UNUSED)
{
	AUTO_FD int fd = post(200000, 200000, "");
	AUTO_ACT a = act();
	AUTO_BUF struct buf all = BUF(300000);
	AUTO_BUF struct buf start = BUF(300000);
	AUTO_BUF struct buf rest = BUF(300000);
	size_t k;
	int mem;

	fill(&all, 200000);
	need(&a, 3, 65536);
	k = expect(MSG_H_BODY);
	mem = seen[k].fd;
	assert_int_equal(lseek(mem, 0, SEEK_END), 65536);
	assert_int_equal(pread(mem, buf_grow(&start, 65536), 65536, 0), 65536);
	assert_memory_equal(start.p, all.p, 65536);
	go(&a, true, 200000, false);
	pump(20);
	assert_int_equal(count(MSG_FU_BODY), 0); /* upstream has not asked */
	more(&a, 200000);
	while (!part(&a, &rest))
		;
	assert_int_equal(rest.n, 200000 - 65536);
	assert_memory_equal(rest.p, all.p + 65536, rest.n);
	head(&a, 200, "Content-Length:0");
	end(&a, true);
	done(&a);
	assert_true(starts(hear(fd), "HTTP/1.1 200 "));
}

static void
streamed_body_goes_out_as_far_as_upstream_asks(void **state UNUSED)
{
	AUTO_FD int fd = post(200000, 200000, "");
	AUTO_ACT a = act();
	AUTO_BUF struct buf all = BUF(300000);
	AUTO_BUF struct buf got = BUF(300000);

	fill(&all, 200000);
	go(&a, true, 200000, false);
	pump(20);
	assert_int_equal(count(MSG_FU_BODY), 0);
	more(&a, 10);
	assert_false(part(&a, &got));
	assert_int_equal(got.n, 10);
	more(&a, 100000);
	while (got.n < 100010)
		assert_false(part(&a, &got));
	pump(20);
	assert_int_equal(count(MSG_FU_BODY), 0);
	more(&a, 200000);
	while (!part(&a, &got))
		;
	assert_int_equal(got.n, 200000);
	assert_memory_equal(got.p, all.p, 200000);
	assert_int_equal(count(MSG_FU_BODY), 0);
	head(&a, 200, "Content-Length:0");
	end(&a, true);
	done(&a);
	assert_true(starts(hear(fd), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate\r\n\r\n"));
	say(fd, POST "Content-Length: 0\r\n\r\n");
	{
		AUTO_ACT b = act();

		assert_string_equal(b.fault, "");
	}
}

static void
chunked_body_is_streamed_as_its_content(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};
	AUTO_BUF struct buf got = BUF(1000);

	say(fd, CHUNKED);
	/* Core hears of it when the first chunk has shown what it is. */
	pump(10);
	assert_int_equal(count(MSG_H_ACT), 0);
	say(fd, "5\r\nhello\r\n");
	a = act();
	assert_true(a.body == 3 && a.length == 0);
	/* Upstream may ask before core's word has come. */
	more(&a, 1000);
	go(&a, true, 1000, false);
	assert_false(part(&a, &got));
	say(fd, "1\r\n,\r\n0\r\nX-Sum: 1\r\n\r\n");
	while (!part(&a, &got))
		;
	assert_int_equal(got.n, 6);
	assert_memory_equal(got.p, "hello,", 6);
}

/* --- too much, too little ------------------------------------------------------------ */

static void
one_byte_over_the_limit_is_413_however_it_is_cut(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};
	AUTO_BUF struct buf got = BUF(100000);

	say(fd, CHUNKED "1\r\nx\r\n");
	a = act();
	go(&a, true, 1000, false);
	more(&a, 100000);
	for (int i = 1; i < 1000; i++)
		say_str(fd, STR("1\r\nx\r\n"));
	while (got.n < 1000)
		assert_false(part(&a, &got));
	assert_string_equal(hear(fd), "");
	say(fd, "1\r\nx\r\n");
	assert_true(starts(hear(fd), "HTTP/1.1 413 Content Too Large\r\n" PROBLEM));
	broken_off(&a);
}

static void
length_over_the_limit_is_413_before_anything_is_read(void **state UNUSED)
{
	AUTO_FD int one = post(100001, 0, "");
	AUTO_ACT a = act();
	AUTO_FD int two = -1;

	need(&a, 1, 100000);
	assert_true(starts(hear(one), "HTTP/1.1 413 "));
	broken_off(&a);
	act_free(&a);
	two = post(100001, 0, "Expect: 100-continue\r\n");
	a = act();
	go(&a, true, 100000, false);
	assert_true(starts(hear(two), "HTTP/1.1 413 "));
	broken_off(&a);
}

static void
chunk_that_is_none_breaks_a_streamed_body_off(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_ACT a = {0};

	say(fd, CHUNKED "5\r\nhello\r\n");
	a = act();
	go(&a, true, 1000, false);
	more(&a, 1000);
	say(fd, "0x0\r\n\r\nDELETE / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	assert_true(starts(hear(fd), "HTTP/1.1 400 Bad Request\r\n" PROBLEM));
	broken_off(&a);
	assert_int_equal(count(MSG_H_ACT), 0);
}

static void
client_that_stops_in_a_body_gets_408(void **state UNUSED)
{
	AUTO_FD int one = -1;
	AUTO_FD int two = -1;
	AUTO_FD int three = -1;
	AUTO_ACT a = {0};

	hub->clocks.body = 40;
	one = post(100, 10, "");
	pump(60);
	assert_true(starts(hear(one), "HTTP/1.1 408 Request Timeout\r\n" PROBLEM));
	assert_int_equal(count(MSG_H_ACT), 0); /* it had not come so far */
	three = post(100, 0, "Expect: 100-continue\r\n");
	a = act();
	go(&a, true, 100, false);
	pump(80);
	assert_string_equal(hear(three), ""); /* it is right to wait */
	act_free(&a);
	two = post(100000, 10, "");
	a = act();
	pump(80);
	assert_string_equal(hear(two), ""); /* nobody has asked for it */
	go(&a, true, 100000, false);
	more(&a, 100000);
	pump(60);
	assert_true(starts(hear(two), "HTTP/1.1 408 Request Timeout\r\n" PROBLEM));
	broken_off(&a);
}

static void
bodies_of_one_run_that_wait_are_bounded(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(20 << 20);
	int fds[5];
	struct act acts[5];
	uint16_t own = web;
	AUTO_FD int other = -1;
	AUTO_FD int second = -1;
	AUTO_ACT a = {0};

	fill(&b, 13 << 20);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = post(14 << 20, 0, "");
		acts[i] = act();
		need(&acts[i], 1, 16 << 20);
		say_str(fds[i], buf_str(&b));
	}
	assert_true(starts(hear(fds[4]), "HTTP/1.1 503 Service Unavailable\r\n" PROBLEM));
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(hear(fds[i]), "");
	/* Another run has its own share. */
	web = listen_run(900, FRONT_HTTP, "r-2", "web.test", 80);
	second = post(14 << 20, 0, "");
	a = act();
	need(&a, 1, 16 << 20);
	say_str(second, buf_str(&b));
	assert_string_equal(hear(second), "");
	web = own;
	/* What one leaves is another's. */
	(void)close(fds[0]);
	pump(20);
	other = post(14 << 20, 0, "");
	act_free(&acts[0]);
	acts[0] = act();
	need(&acts[0], 1, 16 << 20);
	say_str(other, buf_str(&b));
	assert_string_equal(hear(other), "");
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		act_free(&acts[i]);
		if (i != 0)
			(void)close(fds[i]);
	}
}

/* --- 100-continue (NET-07) ----------------------------------------------------------- */

static void
denied_expectation_gets_no_100_and_no_body_is_read(void **state UNUSED)
{
	AUTO_FD int fd = post(2 << 20, 0, "Expect: 100-Continue\r\n");
	AUTO_ACT a = act();

	assert_true(a.expects == 1 && a.body == 2);
	refuse(&a, 403, false, "{}");
	assert_string_equal(hear(fd), "HTTP/1.1 403 Forbidden\r\n" PROBLEM
				      "Content-Length: 2\r\nConnection: close\r\n\r\n{}$");
	assert_int_equal(count(MSG_FU_BODY), 0);
}

static void
allowed_expectation_gets_one_100_and_then_the_body_flows(void **state UNUSED)
{
	AUTO_FD int fd = post(70000, 0, "Expect: 100-Continue\r\n");
	AUTO_ACT a = act();
	AUTO_BUF struct buf b = BUF(100000);
	AUTO_BUF struct buf got = BUF(100000);

	go(&a, true, 70000, false);
	assert_string_equal(hear(fd), "");
	more(&a, 40000);
	assert_string_equal(hear(fd), CONTINUE);
	fill(&b, 70000);
	say_str(fd, buf_str(&b));
	more(&a, 40000);
	while (!part(&a, &got))
		;
	assert_int_equal(got.n, 70000);
	assert_string_equal(hear(fd), "");
}

static void
upstream_that_asks_before_cores_word_gets_its_100_then(void **state UNUSED)
{
	AUTO_FD int fd = post(10, 0, "Expect: 100-continue\r\n");
	AUTO_ACT a = act();

	more(&a, 100);
	assert_string_equal(hear(fd), "");
	go(&a, true, 10, false);
	assert_string_equal(hear(fd), CONTINUE);
}

static void
body_that_is_to_be_judged_is_asked_for_with_100(void **state UNUSED)
{
	AUTO_FD int fd = post(10, 0, "Expect: 100-continue\r\n");
	AUTO_ACT a = act();

	assert_int_equal(a.body, 2);
	need(&a, 1, 10);
	assert_string_equal(hear(fd), CONTINUE);
	say(fd, "0123456789");
	(void)expect(MSG_H_BODY);
	go(&a, false, 0, false);
	head(&a, 200, "Content-Length:0");
	end(&a, true);
	done(&a);
	assert_string_equal(hear(fd), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate\r\n\r\n");
}

static void
final_answer_instead_of_100_is_relayed_and_the_body_not_read(void **state UNUSED)
{
	AUTO_FD int fd = post(2 << 20, 0, "Expect: 100-Continue\r\n");
	AUTO_ACT a = act();

	go(&a, true, 2 << 20, false);
	head(&a, 417, "Content-Length:2");
	data(&a, STR("no"));
	end(&a, true);
	done(&a);
	assert_string_equal(hear(fd), "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n"
				      "Date\r\nConnection: close\r\n\r\nno$");
	assert_int_equal(count(MSG_FU_BODY), 0);
	assert_int_equal(count(MSG_H_CLOSE), 0);
}

static void
answer_in_the_middle_of_a_body_can_be_read_by_a_client_that_still_sends(void **state UNUSED)
{
	AUTO_FD int fd = post(2 << 20, 300000, "");
	AUTO_ACT a = act();
	AUTO_BUF struct buf b = BUF(2 << 20);

	go(&a, true, 2 << 20, false);
	more(&a, 1000);
	head(&a, 403, "Content-Length:2");
	data(&a, STR("no"));
	end(&a, true);
	done(&a);
	fill(&b, 1 << 20);
	say_str(fd, buf_str(&b));
	assert_string_equal(hear(fd), "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nDate\r\n"
				      "Connection: close\r\n\r\nno$");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    P(body_of_65536_bytes_goes_with_its_head_and_one_more_does_not),
	    P(sealed_body_is_what_was_sent_and_cannot_be_changed),
	    P(hashed_body_is_read_and_let_go),
	    P(the_start_goes_to_core_and_the_rest_is_streamed),
	    P(streamed_body_goes_out_as_far_as_upstream_asks),
	    P(chunked_body_is_streamed_as_its_content),
	    P(one_byte_over_the_limit_is_413_however_it_is_cut),
	    P(length_over_the_limit_is_413_before_anything_is_read),
	    P(chunk_that_is_none_breaks_a_streamed_body_off),
	    P(client_that_stops_in_a_body_gets_408),
	    P(bodies_of_one_run_that_wait_are_bounded),
	    P(denied_expectation_gets_no_100_and_no_body_is_read),
	    P(allowed_expectation_gets_one_100_and_then_the_body_flows),
	    P(upstream_that_asks_before_cores_word_gets_its_100_then),
	    P(body_that_is_to_be_judged_is_asked_for_with_100),
	    P(final_answer_instead_of_100_is_relayed_and_the_body_not_read),
	    P(answer_in_the_middle_of_a_body_can_be_read_by_a_client_that_still_sends),
	};

	return cmocka_run_group_tests_name("front_http_body", tests, NULL, NULL);
}
