/* COPY FROM STDIN at the client's side: whose bytes go where, how many, and what is dropped. */
#include "tests/unit/front_pg_help.h"

#include "common/banned.h"

#define COPY_DONE STR("c\0\0\0\4")
#define BIND_EXECUTE STR("B\0\0\0\014\0\0\0\0\0\0\0\0E\0\0\0\011\0\0\0\0\0")

static void
credit(uint64_t conn, uint64_t a, bool open, uint32_t n)
{
	AUTO_BUF struct buf b = BUF(100);

	buf_u64(&b, conn);
	buf_u64(&b, a);
	buf_u8(&b, open);
	buf_u32(&b, n);
	ipc_send(upstream, MSG_UF_COPY, &b, NULL, 0);
	pump(10);
}

/* CopyData of n bytes. */
static struct str
copy_data(struct buf *b, size_t n)
{
	buf_reset(b);
	buf_put_c(b, 'd');
	buf_u32(b, (uint32_t)n + 4);
	memset(buf_grow(b, n), 'x', n);
	return buf_str(b);
}

/* The next FU_COPY: how, and the length of its bytes. */
static uint8_t
sent(uint64_t want_act, size_t *ret_n)
{
	struct rd r = rd_init(buf_str(&seen[expect(MSG_FU_COPY)].body));
	uint64_t a = rd_u64(&r);
	uint8_t how = rd_u8(&r);
	struct str s = rd_lstr(&r);

	assert_true(rd_end(&r));
	assert_int_equal(a, want_act);
	*ret_n = s.n;
	return how;
}

/* Bytes of data in all FU_COPY until there are so many, and what comes soon after. */
static size_t
sum(uint64_t want_act, size_t want)
{
	size_t all = 0, n;

	for (int i = 0; i < 2000 && (all < want || i < 4); i++) {
		while (count(MSG_FU_COPY) != 0) {
			assert_int_equal(sent(want_act, &n), FRONT_COPY_DATA);
			all += n;
		}
		pump(5);
	}
	return all;
}

static uint64_t
copying(int fd, uint64_t conn, uint32_t n)
{
	uint64_t a;

	say(fd, QUERY);
	a = act(NULL, NULL);
	credit(conn, a, true, n);
	return a;
}

static void
data_goes_to_upstream_as_far_as_it_is_asked_for(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	size_t n;

	a = copying(fd, c, 10);
	say(fd, copy_data(&b, 25));
	say(fd, COPY_DONE);
	assert_int_equal(sent(a, &n), FRONT_COPY_DATA);
	assert_int_equal(n, 10);
	pump(20);
	assert_int_equal(count(MSG_FU_COPY), 0);
	credit(c, a, false, 100);
	assert_int_equal(sent(a, &n), FRONT_COPY_DATA);
	assert_int_equal(n, 15);
	assert_int_equal(sent(a, &n), FRONT_COPY_DONE);
	data(c, a, true, TAIL);
	done(c, a, TAIL.n);
	assert_hears(fd, "CZ");
}

static void
data_that_comes_before_it_is_asked_for_waits(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	size_t n;

	say(fd, QUERY);
	say(fd, copy_data(&b, 25));
	a = act(NULL, NULL);
	pump(20);
	assert_int_equal(count(MSG_FU_COPY), 0);
	credit(c, a, true, 100);
	assert_int_equal(sent(a, &n), FRONT_COPY_DATA);
	assert_int_equal(n, 25);
}

/* A client that collects without Sync or Flush and sends its data at once. */
static void
data_behind_collected_messages_ends_the_unit(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	uint8_t kind;
	size_t n;

	say(fd, PARSE);
	say(fd, BIND_EXECUTE);
	say(fd, copy_data(&b, 25));
	a = act(&kind, &n);
	assert_int_equal(kind, FRONT_CUT);
	assert_int_equal(n, PARSE.n + BIND_EXECUTE.n);
	credit(c, a, true, 100);
	assert_int_equal(sent(a, &n), FRONT_COPY_DATA);
	assert_int_equal(n, 25);
}

static void
a_client_that_is_not_asked_for_more_is_not_read(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(100000);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	size_t n = 0, total = 0;
	ssize_t got;

	a = copying(fd, c, 1000);
	(void)copy_data(&b, 60000);
	/* Whole messages until the sockets are full, which they will be soon. */
	while (n < 400) {
		got = send(fd, b.p + total % b.n, b.n - total % b.n, MSG_NOSIGNAL);
		if (got > 0)
			total += (size_t)got;
		else if (++n % 4 == 0)
			pump(1);
	}
	assert_true(total < (size_t)16 << 20);
	assert_int_equal(sum(a, 1000), 1000);
	assert_int_equal(count(MSG_PG_CLOSE), 0);
	/* And the rest goes on as soon as it may. */
	credit(c, a, false, 200000);
	assert_int_equal(sum(a, 200000), 200000);
}

static void
a_message_larger_than_any_buffer_passes_in_pieces(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(6 << 20);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;

	a = copying(fd, c, 6 << 20);
	say(fd, copy_data(&b, 5 << 20));
	assert_int_equal(sum(a, 5 << 20), 5 << 20);
	/* Of all other types the limit holds. */
	say(fd, STR("f\0\x10\0\1"));
	assert_hears(fd, "E$");
}

static void
sync_and_flush_in_the_middle_are_read_over(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	size_t n;

	a = copying(fd, c, 100);
	say(fd, SYNC);
	say(fd, FLUSH);
	say(fd, copy_data(&b, 3));
	assert_int_equal(sent(a, &n), FRONT_COPY_DATA);
	assert_int_equal(count(MSG_PG_ACT), 0);
}

static void
an_extended_copy_is_ended_by_the_sync_behind_its_data(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	uint8_t kind;
	size_t n;

	say(fd, PARSE);
	say(fd, BIND_EXECUTE);
	say(fd, SYNC);
	a = act(&kind, NULL);
	assert_int_equal(kind, FRONT_SYNC);
	credit(c, a, true, 100);
	say(fd, COPY_DONE);
	say(fd, SYNC);
	assert_int_equal(sent(a, &n), FRONT_COPY_DONE);
	pump(20);
	assert_int_equal(count(MSG_PG_ACT), 0);
	data(c, a, true, STR("C\0\0\0\5\0"));
	done(c, a, 6);
	a = act(&kind, &n);
	assert_int_equal(kind, FRONT_SYNC);
	assert_int_equal(n, SYNC.n);
	data(c, a, true, STR("Z\0\0\0\5I"));
	done(c, a, 6);
	assert_hears(fd, "CZ");
}

static void
what_is_no_data_fails_the_copy_and_is_not_run(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	size_t n;

	a = copying(fd, c, 100);
	say(fd, QUERY);
	assert_int_equal(sent(a, &n), FRONT_COPY_FAIL);
	assert_true(n > 0);
	data(c, a, true, TAIL);
	done(c, a, TAIL.n);
	assert_hears(fd, "CZ");
	assert_int_equal(count(MSG_PG_ACT), 0);
	say(fd, QUERY); /* the next one is */
	(void)act(NULL, NULL);
}

static void
copy_fail_tells_why_up_to_a_bound(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(20000);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	size_t n;

	a = copying(fd, c, 100);
	say(fd, STR("f\0\0\0\013enough\0"));
	assert_int_equal(sent(a, &n), FRONT_COPY_FAIL);
	assert_int_equal(n, 6);
	done(c, a, 0);
	a = copying(fd, c, 100);
	buf_put_c(&b, 'f');
	buf_u32(&b, 10005);
	memset(buf_grow(&b, 10000), 'y', 10000);
	buf_u8(&b, 0);
	say(fd, buf_str(&b));
	assert_int_equal(sent(a, &n), FRONT_COPY_FAIL);
	assert_int_equal(n, 1000);
}

static void
after_the_servers_error_the_rest_is_dropped(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(6 << 20);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	struct str s;

	a = copying(fd, c, 1000);
	s = copy_data(&b, 5 << 20);
	/* The error comes in the middle of a message. */
	say(fd, str_mem(s.p, 100000));
	assert_int_equal(sum(a, 1000), 1000);
	data(c, a, true, TAIL);
	done(c, a, TAIL.n);
	assert_hears(fd, "CZ");
	credit(c, a, false, 1000); /* one that was under way */
	say(fd, str_mem(s.p + 100000, s.n - 100000));
	say(fd, copy_data(&b, 2 << 20));
	say(fd, COPY_DONE);
	say(fd, QUERY);
	(void)act(NULL, NULL);
	assert_int_equal(count(MSG_FU_COPY), 0);
}

static void
data_where_no_copy_is_open_is_dropped(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(3 << 20);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;

	say(fd, copy_data(&b, 2 << 20));
	say(fd, COPY_DONE);
	say(fd, QUERY);
	a = act(NULL, NULL);
	credit(c, a + 1, true, 100); /* of no act that there is */
	say(fd, copy_data(&b, 10));
	pump(20);
	assert_int_equal(count(MSG_FU_COPY), 0);
	done(c, a, 0);
	say(fd, STR("d\0\0\0\3"));
	assert_hears(fd, "E$");
}

static void
a_client_that_leaves_in_mid_copy_ends_nothing_well(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	size_t n;

	a = copying(fd, c, 100);
	say(fd, copy_data(&b, 10));
	(void)close(TAKE_FD(fd));
	(void)expect(MSG_PG_CLOSE);
	assert_int_equal(sent(a, &n), FRONT_COPY_DATA);
	assert_int_equal(count(MSG_FU_COPY), 0);
	/* Terminate is the same. */
	c = open_session(&fd);
	a = copying(fd, c, 100);
	say(fd, STR("X\0\0\0\4"));
	(void)expect(MSG_PG_CLOSE);
	assert_int_equal(count(MSG_FU_COPY), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    front_test(data_goes_to_upstream_as_far_as_it_is_asked_for),
	    front_test(data_that_comes_before_it_is_asked_for_waits),
	    front_test(data_behind_collected_messages_ends_the_unit),
	    front_test(a_client_that_is_not_asked_for_more_is_not_read),
	    front_test(a_message_larger_than_any_buffer_passes_in_pieces),
	    front_test(sync_and_flush_in_the_middle_are_read_over),
	    front_test(an_extended_copy_is_ended_by_the_sync_behind_its_data),
	    front_test(what_is_no_data_fails_the_copy_and_is_not_run),
	    front_test(copy_fail_tells_why_up_to_a_bound),
	    front_test(after_the_servers_error_the_rest_is_dropped),
	    front_test(data_where_no_copy_is_open_is_dropped),
	    front_test(a_client_that_leaves_in_mid_copy_ends_nothing_well),
	};

	return cmocka_run_group_tests_name("front_copy", tests, NULL, NULL);
}
