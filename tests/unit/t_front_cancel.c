/* Cancel requests at the client's side: whose key does what. */
#include "tests/unit/front_pg_help.h"

#include "common/banned.h"

/* As open_session(), and the key that the client was given. */
static uint64_t
keyed_session(int *ret_fd, uint8_t key[8])
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_BUF struct buf r = BUF(1000);
	uint8_t in[1000];
	const uint8_t *k;
	uint64_t id;
	ssize_t n;

	*ret_fd = client();
	say(*ret_fd, startup(&b));
	id = seen[expect(MSG_PG_OPEN)].conn;
	buf_u64(&r, id);
	buf_lz(&r, "");
	buf_u32(&r, 0);
	ipc_send(core, MSG_PG_OPENED, &r, NULL, 0);
	pump(20);
	n = recv(*ret_fd, in, sizeof(in), 0);
	assert_true(n > 0);
	k = memmem(in, (size_t)n, "K\0\0\0\014", 5);
	assert_non_null(k);
	memcpy(key, k + 5, 8);
	return id;
}

static void
cancel(struct str key)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = client();

	pgwire_put_cancel(&b, key);
	say(fd, buf_str(&b));
	assert_hears(fd, "$"); /* closed without a word, whatever it was */
}

static void
the_key_that_a_client_was_given_names_its_session(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	AUTO_FD int other = -1;
	uint8_t key[8], second[8];
	uint64_t id = keyed_session(&fd, key);

	(void)keyed_session(&other, second);
	assert_memory_not_equal(key, second, 8);
	cancel(str_mem(key, 8));
	assert_int_equal(seen[expect(MSG_PG_CANCEL)].conn, id);
	assert_int_equal(count(MSG_PG_CANCEL), 0);
	assert_int_equal(count(MSG_PG_CLOSE), 0); /* the session itself goes on */
}

static void
any_other_key_names_nobody(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint8_t key[12] = {0};

	(void)keyed_session(&fd, key);
	for (size_t i = 0; i < 8; i++) {
		key[i] ^= 1;
		cancel(str_mem(key, 8));
		key[i] ^= 1;
	}
	cancel(str_mem(key, 9));
	cancel(str_mem(key, 12));
	assert_int_equal(count(MSG_PG_CANCEL), 0);
	cancel(str_mem(key, 8));
	(void)expect(MSG_PG_CANCEL);
}

static void
a_key_is_of_no_use_at_another_runs_listener(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint16_t first = port;
	uint8_t key[8];

	(void)keyed_session(&fd, key);
	listen_on("r-2", 2);
	cancel(str_mem(key, 8));
	assert_int_equal(count(MSG_PG_CANCEL), 0);
	port = first;
	cancel(str_mem(key, 8));
	(void)expect(MSG_PG_CANCEL);
}

static void
a_key_dies_with_its_session(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint8_t key[8];

	(void)keyed_session(&fd, key);
	(void)close(TAKE_FD(fd));
	(void)expect(MSG_PG_CLOSE);
	cancel(str_mem(key, 8));
	assert_int_equal(count(MSG_PG_CANCEL), 0);
}

static void
a_session_that_is_not_open_yet_has_no_key(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_BUF struct buf k = BUF(8);
	AUTO_FD int fd = client();
	uint64_t id;

	say(fd, startup(&b));
	id = seen[expect(MSG_PG_OPEN)].conn;
	buf_u32(&k, (uint32_t)id & 0x7fffffff);
	buf_u32(&k, 0);
	cancel(buf_str(&k));
	assert_int_equal(count(MSG_PG_CANCEL), 0);
}

static void
a_flood_is_not_looked_at(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(100);
	AUTO_FD int fd = -1;
	uint8_t key[8];

	(void)keyed_session(&fd, key);
	pgwire_put_cancel(&b, str_mem(key, 8));
	for (int i = 0; i < 200; i++) {
		AUTO_FD int c = client();

		assert_int_equal(send(c, b.p, b.n, MSG_NOSIGNAL), b.n);
		if (i % 20 == 0)
			pump(2);
	}
	pump(50);
	assert_true(count(MSG_PG_CANCEL) <= 100); /* 50 in each second that this took */
	pump(1100);
	forget();
	cancel(str_mem(key, 8));
	(void)expect(MSG_PG_CANCEL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    front_test(the_key_that_a_client_was_given_names_its_session),
	    front_test(any_other_key_names_nobody),
	    front_test(a_key_is_of_no_use_at_another_runs_listener),
	    front_test(a_key_dies_with_its_session),
	    front_test(a_session_that_is_not_open_yet_has_no_key),
	    front_test(a_flood_is_not_looked_at),
	};

	return cmocka_run_group_tests_name("front_cancel", tests, NULL, NULL);
}
