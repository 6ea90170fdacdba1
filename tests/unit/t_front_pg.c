/*
 * Front's protocol states with real sockets: the test is client, core and upstream at once,
 * on one loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "broker/front_pg.h"

#include "common/banned.h"

#define SEEN_MAX 4096

static struct loop *loop;
static struct front_hub *hub;
static struct ipc *core, *upstream;
static struct {
	uint16_t type;
	uint64_t conn;
	struct buf body; /* after the connection's number */
} seen[SEEN_MAX];
static size_t nseen;
static uint16_t port;
static int core_lost;

/* --- the other sides ------------------------------------------------------------- */

static int
on_message(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type, struct rd *b, int *fds UNUSED,
    size_t nfds UNUSED, struct err *err UNUSED)
{
	assert_true(nseen < SEEN_MAX);
	seen[nseen].type = type;
	seen[nseen].conn = type == MSG_F_LEAF_ASK ? 0 : rd_u64(b);
	buf_init(&seen[nseen].body, 2000000);
	buf_put(&seen[nseen].body, b->p, b->n);
	nseen++;
	return 0;
}

static void
on_gone(void *arg, struct ipc *w, const char *why UNUSED)
{
	*(struct ipc **)arg = NULL;
	core_lost++;
	ipc_free(w);
}

static void
stop(void *arg UNUSED)
{
	loop_stop(loop, 0);
}

static void
pump(uint64_t ms)
{
	(void)loop_timer_add(loop, ms, stop, NULL);
	(void)loop_run(loop);
}

/* The first message of that type, waited for and taken; its number, or SEEN_MAX. */
static size_t
expect(uint16_t type)
{
	for (int i = 0; i < 200; i++) {
		for (size_t k = 0; k < nseen; k++)
			if (seen[k].type == type) {
				seen[k].type = 0;
				return k;
			}
		pump(5);
	}
	fail_msg("%s did not come", ipc_msg_name(type));
	return SEEN_MAX;
}

static size_t
count(uint16_t type)
{
	size_t n = 0;

	for (size_t k = 0; k < nseen; k++)
		n += seen[k].type == type;
	return n;
}

static void
wire(enum ipc_role peer, struct ipc **ret)
{
	int s[2];
	struct err err = {0};

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(front_hub_wire(hub, peer, s[0], &err), 0);
	*ret = ipc_new(loop, s[1], peer, IPC_ROLE_FRONT, on_message, on_gone, ret);
}

static void
listen_on(const char *run, uint32_t id)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	port = ntohs(a.sin_port);
	buf_u32(&b, id);
	buf_u8(&b, 1);
	buf_lz(&b, run);
	buf_lz(&b, "db");
	buf_lz(&b, "db.internal");
	buf_u32(&b, 5432);
	ipc_send(core, MSG_F_LISTEN, &b, &fd, 1);
	pump(10);
}

static int
set_up(void **state UNUSED)
{
	loop = loop_new();
	hub = front_hub_new(loop);
	wire(IPC_ROLE_CORE, &core);
	wire(IPC_ROLE_UPSTREAM, &upstream);
	listen_on("r-1", 1);
	return 0;
}

static void
forget(void)
{
	for (size_t i = 0; i < nseen; i++)
		buf_free(&seen[i].body);
	nseen = 0;
}

static int
tear_down(void **state UNUSED)
{
	front_hub_free(hub);
	ipc_free(core);
	ipc_free(upstream);
	core = upstream = NULL;
	loop_free(loop);
	forget();
	core_lost = 0;
	return 0;
}

/* --- a client -------------------------------------------------------------------- */

static int
client(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	    .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
		(void)close(fd);
		return -1;
	}
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static void
say(int fd, struct str s)
{
	while (s.n != 0) {
		ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			pump(1);
			continue;
		}
		assert_true(n > 0);
		s.p += n;
		s.n -= (size_t)n;
	}
	pump(10);
}

/* What has come by now: message types as a word, '$' for the end of the stream. */
static const char *
hear(int fd)
{
	static char out[4096];
	static uint8_t in[4 << 20];
	size_t n = 0, k = 0, at = 0;
	bool end = false;

	for (int i = 0; i < 3; i++) {
		ssize_t got;

		pump(5);
		while ((got = recv(fd, in + n, sizeof(in) - n, 0)) > 0)
			n += (size_t)got;
		end = end || got == 0 || (got < 0 && errno != EAGAIN);
	}
	while (at + 5 <= n && k < sizeof(out) - 2) {
		out[k++] = (char)in[at];
		at += 1 + ((size_t)in[at + 1] << 24 | (size_t)in[at + 2] << 16 |
			      (size_t)in[at + 3] << 8 | in[at + 4]);
	}
	if (end)
		out[k++] = '$';
	out[k] = '\0';
	return out;
}

static struct str
startup(struct buf *b)
{
	struct pgwire_param p[] = {{STR("user"), STR("x")}, {STR("application_name"), STR("t")}};

	pgwire_put_startup(b, p, 2);
	return buf_str(b);
}

static uint64_t
open_session(int *ret_fd)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_BUF struct buf r = BUF(1000);
	uint64_t id;

	*ret_fd = client();
	say(*ret_fd, startup(&b));
	id = seen[expect(MSG_PG_OPEN)].conn;
	buf_u64(&r, id);
	buf_u32(&r, 1);
	buf_lz(&r, "server_version");
	buf_lz(&r, "15");
	ipc_send(core, MSG_PG_OPENED, &r, NULL, 0);
	assert_string_equal(hear(*ret_fd), "RSKZ");
	return id;
}

static void
data(uint64_t conn, uint64_t act, bool hold, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(1 << 18);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	buf_u8(&b, hold);
	buf_lstr(&b, bytes);
	ipc_send(upstream, MSG_UF_DATA, &b, NULL, 0);
}

static void
done(uint64_t conn, uint64_t act, uint64_t bytes)
{
	AUTO_BUF struct buf b = BUF(100);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	buf_u64(&b, bytes);
	ipc_send(core, MSG_PG_DONE, &b, NULL, 0);
}

static void
refuse(uint64_t conn, uint64_t act, uint8_t how)
{
	AUTO_BUF struct buf b = BUF(1000);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	buf_u8(&b, how);
	buf_lz(&b, "42501");
	buf_lz(&b, "no");
	buf_lz(&b, "");
	buf_lz(&b, "");
	ipc_send(core, MSG_PG_REFUSED, &b, NULL, 0);
}

/* Takes the next PG_ACT and tells kind and length of its messages. */
static uint64_t
act(uint8_t *ret_kind, size_t *ret_bytes)
{
	struct rd r = rd_init(buf_str(&seen[expect(MSG_PG_ACT)].body));
	uint64_t id = rd_u64(&r);
	uint8_t kind = rd_u8(&r);
	struct str s = rd_lstr(&r);

	assert_true(rd_end(&r));
	if (ret_kind != NULL)
		*ret_kind = kind;
	if (ret_bytes != NULL)
		*ret_bytes = s.n;
	return id;
}

#define QUERY STR("Q\0\0\0\015select 1\0")
#define PARSE STR("P\0\0\0\010\0\0\0\0")
#define SYNC STR("S\0\0\0\4")
#define FLUSH STR("H\0\0\0\4")
#define ROW STR("D\0\0\0\6\0\0")
#define TAIL STR("C\0\0\0\5\0Z\0\0\0\5I")

/* --- tests ------------------------------------------------------------------------ */

static void
parameters_reach_core_and_the_session_opens(void **state UNUSED)
{
	AUTO_FD int fd = -1;

	(void)open_session(&fd);
	assert_int_equal(count(MSG_PG_CLOSE), 0);
	say(fd, STR("X\0\0\0\4"));
	(void)expect(MSG_PG_CLOSE);
	assert_string_equal(hear(fd), "$");
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
	assert_string_equal(hear(fd), "D"); /* the completion is on another's word */
	done(c, a, ROW.n + TAIL.n);
	assert_string_equal(hear(fd), "CZ");
	/* Core's word may be first: the two come on different wires. */
	say(fd, QUERY);
	a = act(NULL, NULL);
	done(c, a, TAIL.n);
	assert_string_equal(hear(fd), "");
	data(c, a, true, TAIL);
	assert_string_equal(hear(fd), "CZ");
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
	assert_string_equal(hear(fd), "E$");
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
	assert_string_equal(hear(fd), "CZ");
	/* An answer that is nobody's goes nowhere. */
	data(c, a, false, ROW);
	data(c, a + 1, false, ROW);
	assert_string_equal(hear(fd), "");
	/* Act 0 is what a server says by itself. */
	data(c, 0, false, STR("N\0\0\0\5\0"));
	assert_string_equal(hear(fd), "N");
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
	assert_string_equal(hear(fd), "EZ");
	say(fd, PARSE);
	say(fd, SYNC);
	refuse(c, act(NULL, NULL), 1);
	assert_string_equal(hear(fd), "EZ");
	/* Without its Sync: all is dropped up to it, a Query too. */
	say(fd, PARSE);
	say(fd, FLUSH);
	refuse(c, act(NULL, NULL), 1);
	assert_string_equal(hear(fd), "E");
	say(fd, QUERY);
	say(fd, PARSE);
	assert_string_equal(hear(fd), "");
	say(fd, SYNC);
	assert_string_equal(hear(fd), "Z");
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
	assert_string_equal(hear(fd), "E");
	data(c, a, true, STR("Z\0\0\0\5T"));
	done(c, a, 6);
	assert_string_equal(hear(fd), "Z");
	/* A refusal that ends it. */
	say(fd, QUERY);
	refuse(c, act(NULL, NULL), 0);
	assert_string_equal(hear(fd), "E$");
}

static void
refused_open_tells_why(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = client();

	say(fd, startup(&b));
	refuse(seen[expect(MSG_PG_OPEN)].conn, 0, 0);
	assert_string_equal(hear(fd), "E$");
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
	assert_string_equal(hear(fd), "");
	data(c, a, true, buf_str(&b));
	assert_string_equal(hear(fd), "E$");
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
	assert_string_equal(hear(fd), "E$");
	(void)expect(MSG_PG_CLOSE);
	wire(IPC_ROLE_UPSTREAM, &upstream);
	(void)open_session(&other); /* the listener is still served */
	ipc_free(core);
	core = NULL;
	assert_string_equal(hear(other), "E$");
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
	assert_string_equal(hear(fd), "E$");
}

static void
connection_1025_of_a_run_is_refused(void **state UNUSED)
{
	static int fds[1025];
	struct rlimit lim;
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
	pump(50);
	assert_int_equal(count(MSG_PG_OPEN), 1024);
	assert_string_equal(hear(fds[1024]), "E$");
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
	assert_string_equal(hear(first), "E$");
	assert_string_equal(hear(second), "");
	say(second, QUERY);
	(void)expect(MSG_PG_ACT);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(parameters_reach_core_and_the_session_opens),
	    T(held_bytes_wait_for_core_and_for_each_other),
	    T(answer_longer_than_recorded_ends_the_connection),
	    T(one_exchange_is_in_flight_at_a_time),
	    T(units_end_at_their_messages_or_are_cut),
	    T(refusal_is_an_error_and_the_session_goes_on),
	    T(refused_open_tells_why),
	    T(answer_that_cannot_be_held_ends_the_connection),
	    T(slow_client_pauses_the_server),
	    T(lost_wires_end_what_hangs_on_them),
	    T(no_certificate_no_tls),
	    T(connection_1025_of_a_run_is_refused),
	    T(run_that_ends_takes_its_own_connections_only),
	};

	return cmocka_run_group_tests_name("front_pg", tests, NULL, NULL);
}
