/* Front's protocol states: units, refusals, answers held back, limits. */
#include "tests/unit/front_pg_help.h"

#include "common/banned.h"

/* --- tests ------------------------------------------------------------------------ */

static void
parameters_reach_core_and_the_session_opens(void **state UNUSED)
{
	AUTO_FD int fd = -1;

	(void)open_session(&fd);
	assert_int_equal(count(MSG_PG_CLOSE), 0);
	say(fd, STR("X\0\0\0\4"));
	(void)expect(MSG_PG_CLOSE);
	assert_hears(fd, "$");
}

static void
held_bytes_wait_for_core_and_for_each_other(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;

	say(fd, QUERY);
	a = act(NULL, NULL);
	data(c, a, false, ROW);
	data(c, a, true, TAIL);
	assert_hears(fd, "D"); /* the completion is on another's word */
	done(c, a, ROW.n + TAIL.n);
	assert_hears(fd, "CZ");
	/* Core's word may be first: the two come on different wires. */
	say(fd, QUERY);
	a = act(NULL, NULL);
	done(c, a, TAIL.n);
	assert_hears(fd, "");
	data(c, a, true, TAIL);
	assert_hears(fd, "CZ");
}

static void
answer_longer_than_recorded_ends_the_connection(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;

	say(fd, QUERY);
	a = act(NULL, NULL);
	data(c, a, true, TAIL);
	done(c, a, TAIL.n - 1);
	assert_hears(fd, "E$");
	(void)expect(MSG_PG_CLOSE);
}

static void
one_exchange_is_in_flight_at_a_time(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	uint8_t kind;

	say(fd, QUERY);
	say(fd, PARSE);
	say(fd, SYNC);
	a = act(&kind, NULL);
	assert_int_equal(kind, FRONT_QUERY);
	pump(20);
	assert_int_equal(count(MSG_PG_ACT), 0);
	done(c, a, 0);
	a = act(&kind, NULL);
	assert_int_equal(kind, FRONT_SYNC);
	data(c, a, true, TAIL);
	done(c, a, TAIL.n);
	assert_hears(fd, "CZ");
	/* An answer that is nobody's goes nowhere. */
	data(c, a, false, ROW);
	data(c, a + 1, false, ROW);
	assert_hears(fd, "");
	/* Act 0 is what a server says by itself. */
	data(c, 0, false, STR("N\0\0\0\5\0"));
	assert_hears(fd, "N");
}

static void
units_end_at_their_messages_or_are_cut(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	AUTO_BUF struct buf big = BUF(2 << 20);
	uint8_t kind;
	size_t n;

	say(fd, PARSE);
	say(fd, FLUSH);
	a = act(&kind, &n);
	assert_true(kind == FRONT_FLUSH && n == PARSE.n + FLUSH.n);
	done(c, a, 0);
	/* A Query ends what was collected before it. */
	say(fd, PARSE);
	say(fd, QUERY);
	a = act(&kind, &n);
	assert_true(kind == FRONT_CUT && n == PARSE.n);
	done(c, a, 0);
	a = act(&kind, &n);
	assert_true(kind == FRONT_QUERY && n == QUERY.n);
	done(c, a, 0);
	for (int i = 0; i < 257; i++)
		buf_put_str(&big, PARSE);
	buf_put_str(&big, SYNC);
	say(fd, buf_str(&big));
	a = act(&kind, &n);
	assert_true(kind == FRONT_CUT && n == 256 * PARSE.n);
	done(c, a, 0);
	a = act(&kind, &n);
	assert_true(kind == FRONT_SYNC && n == PARSE.n + SYNC.n);
	done(c, a, 0);
	/* 1 MiB exactly is one message and one unit. */
	buf_reset(&big);
	buf_put_c(&big, 'Q');
	buf_u32(&big, (1 << 20) - 1);
	memset(buf_grow(&big, (1 << 20) - 6), 'x', (1 << 20) - 6);
	buf_u8(&big, 0);
	say(fd, buf_str(&big));
	a = act(&kind, &n);
	assert_true(kind == FRONT_QUERY && n == 1 << 20);
	done(c, a, 0);
	/* An empty Flush has nothing to flush. */
	say(fd, FLUSH);
	say(fd, SYNC);
	a = act(&kind, &n);
	assert_true(kind == FRONT_SYNC && n == SYNC.n);
}

static void
refusal_is_an_error_and_the_session_goes_on(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	uint8_t kind;
	size_t n;

	say(fd, QUERY);
	refuse(c, act(NULL, NULL), 1);
	assert_hears(fd, "EZ");
	say(fd, PARSE);
	say(fd, SYNC);
	refuse(c, act(NULL, NULL), 1);
	assert_hears(fd, "EZ");
	/* Without its Sync: all is dropped up to it, a Query too. */
	say(fd, PARSE);
	say(fd, FLUSH);
	refuse(c, act(NULL, NULL), 1);
	assert_hears(fd, "E");
	say(fd, QUERY);
	say(fd, PARSE);
	assert_hears(fd, "");
	say(fd, SYNC);
	assert_hears(fd, "Z");
	assert_int_equal(count(MSG_PG_ACT), 0);
	/* What reached the server before needs the Sync. */
	say(fd, PARSE);
	say(fd, FLUSH);
	done(c, act(NULL, NULL), 0);
	say(fd, PARSE);
	say(fd, SYNC);
	refuse(c, act(NULL, NULL), 1);
	a = act(&kind, &n);
	assert_true(kind == FRONT_SYNC && n == SYNC.n);
	assert_hears(fd, "E");
	data(c, a, true, STR("Z\0\0\0\5T"));
	done(c, a, 6);
	assert_hears(fd, "Z");
	/* A refusal that ends it. */
	say(fd, QUERY);
	refuse(c, act(NULL, NULL), 0);
	assert_hears(fd, "E$");
}

static void
refused_open_tells_why(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = client();

	say(fd, startup(&b));
	refuse(seen[expect(MSG_PG_OPEN)].conn, 0, 0);
	assert_hears(fd, "E$");
	assert_int_equal(count(MSG_PG_CLOSE), 0); /* core knows */
}

static void
answer_that_cannot_be_held_ends_the_connection(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	AUTO_BUF struct buf b = BUF(200000);

	buf_put_z(&b, "d");
	buf_u32(&b, 100000 + 4);
	memset(buf_grow(&b, 100000), 'x', 100000);
	say(fd, QUERY);
	a = act(NULL, NULL);
	for (int i = 0; i < 83; i++)
		data(c, a, true, buf_str(&b));
	assert_hears(fd, "");
	data(c, a, true, buf_str(&b));
	assert_hears(fd, "E$");
	(void)expect(MSG_PG_CLOSE);
}

static void
slow_client_pauses_the_server(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	uint64_t c = open_session(&fd), a;
	AUTO_BUF struct buf b = BUF(200000);
	size_t k, got = 0;
	struct rd r;
	char waste[16384];

	buf_put_z(&b, "d");
	buf_u32(&b, 100000 + 4);
	memset(buf_grow(&b, 100000), 'x', 100000);
	say(fd, QUERY);
	a = act(NULL, NULL);
	for (int i = 0; i < 100; i++)
		data(c, a, false, buf_str(&b));
	k = expect(MSG_FU_PAUSE);
	r = rd_init(buf_str(&seen[k].body));
	assert_int_equal(rd_u8(&r), 1);
	for (int i = 0; i < 2000 && got < 100 * b.n; i++) {
		ssize_t n = recv(fd, waste, sizeof(waste), 0);

		if (n > 0)
			got += (size_t)n;
		else
			pump(1);
	}
	assert_int_equal(got, 100 * b.n);
	k = expect(MSG_FU_PAUSE);
	r = rd_init(buf_str(&seen[k].body));
	assert_int_equal(rd_u8(&r), 0);
}

static void
lost_wires_end_what_hangs_on_them(void **state UNUSED)
{
	AUTO_FD int fd = -1;
	AUTO_FD int other = -1;

	(void)open_session(&fd);
	ipc_free(upstream);
	upstream = NULL;
	assert_hears(fd, "E$");
	(void)expect(MSG_PG_CLOSE);
	wire(IPC_ROLE_UPSTREAM, &upstream);
	(void)open_session(&other); /* the listener is still served */
	ipc_free(core);
	core = NULL;
	assert_hears(other, "E$");
	assert_int_equal(client(), -1);
	wire(IPC_ROLE_CORE, &core);
	listen_on("r-1", 2);
	{
		AUTO_FD int third = -1;

		(void)open_session(&third);
	}
}

static void
no_certificate_no_tls(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = client();

	say(fd, STR("\0\0\0\010\004\322\026\057"));
	(void)expect(MSG_F_LEAF_ASK);
	buf_u32(&b, 1);
	buf_lz(&b, "db.internal");
	buf_lz(&b, "");
	ipc_send(core, MSG_F_LEAF, &b, NULL, 0);
	assert_hears(fd, "E$");
}

static void
connection_1025_of_a_run_is_refused(void **state UNUSED)
{
	static int fds[1025];
	struct rlimit lim;
	size_t refused = 0;
	char c;
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int other = -1;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = lim.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_max < 2200) {
		print_message("# skipped: not for this user\n");
		return;
	}
	(void)startup(&b);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = client();
		assert_true(fds[i] >= 0);
		assert_int_equal(send(fds[i], b.p, b.n, MSG_NOSIGNAL), b.n);
		if (i % 64 == 0)
			pump(2);
	}
	for (int i = 0; i < 500 && (count(MSG_PG_OPEN) < 1024 || i < 10); i++)
		pump(5);
	assert_int_equal(count(MSG_PG_OPEN), 1024);
	for (int turn = 0; refused == 0 && turn < 500; turn++) {
		pump(5);
		for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
			if (recv(fds[i], &c, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
				continue;
			assert_hears(fds[i], "E$");
			refused++;
		}
	}
	assert_int_equal(refused, 1); /* which one, is front's affair */
	/* Another run's connections are its own. */
	listen_on("r-2", 2);
	forget();
	(void)open_session(&other);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	pump(20);
}

static void
run_that_ends_takes_its_own_connections_only(void **state UNUSED)
{
	AUTO_FD int first = -1;
	AUTO_FD int second = -1;
	AUTO_BUF struct buf b = BUF(100);

	(void)open_session(&first);
	listen_on("r-2", 2);
	(void)open_session(&second);
	buf_lz(&b, "r-1");
	ipc_send(core, MSG_F_UNLISTEN, &b, NULL, 0);
	assert_hears(first, "E$");
	assert_hears(second, "");
	say(second, QUERY);
	(void)expect(MSG_PG_ACT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    front_test(parameters_reach_core_and_the_session_opens),
	    front_test(held_bytes_wait_for_core_and_for_each_other),
	    front_test(answer_longer_than_recorded_ends_the_connection),
	    front_test(one_exchange_is_in_flight_at_a_time),
	    front_test(units_end_at_their_messages_or_are_cut),
	    front_test(refusal_is_an_error_and_the_session_goes_on),
	    front_test(refused_open_tells_why),
	    front_test(answer_that_cannot_be_held_ends_the_connection),
	    front_test(slow_client_pauses_the_server),
	    front_test(lost_wires_end_what_hangs_on_them),
	    front_test(no_certificate_no_tls),
	    front_test(connection_1025_of_a_run_is_refused),
	    front_test(run_that_ends_takes_its_own_connections_only),
	};

	return cmocka_run_group_tests_name("front_pg", tests, NULL, NULL);
}
