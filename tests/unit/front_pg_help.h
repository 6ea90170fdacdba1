/*
 * Front's protocol states with real sockets: the test is client, core and upstream at once,
 * on one loop. Shared by t_front_pg.c and t_front_copy.c.
 */
#ifndef TESTS_UNIT_FRONT_PG_HELP_H
#define TESTS_UNIT_FRONT_PG_HELP_H

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

static inline int
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

static inline void
on_gone(void *arg, struct ipc *w, const char *why UNUSED)
{
	*(struct ipc **)arg = NULL;
	core_lost++;
	ipc_free(w);
}

static inline void
stop(void *arg UNUSED)
{
	loop_stop(loop, 0);
}

static inline void
pump(uint64_t ms)
{
	(void)loop_timer_add(loop, ms, stop, NULL);
	(void)loop_run(loop);
}

/* The first message of that type, waited for and taken; its number, or SEEN_MAX. */
static inline size_t
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

static inline size_t
count(uint16_t type)
{
	size_t n = 0;

	for (size_t k = 0; k < nseen; k++)
		n += seen[k].type == type;
	return n;
}

static inline void
wire(enum ipc_role peer, struct ipc **ret)
{
	int s[2];
	struct err err = {0};

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(front_hub_wire(hub, peer, s[0], &err), 0);
	*ret = ipc_new(loop, s[1], peer, IPC_ROLE_FRONT, on_message, on_gone, ret);
}

static inline void
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

static inline int
set_up(void **state UNUSED)
{
	loop = loop_new();
	hub = front_hub_new(loop);
	wire(IPC_ROLE_CORE, &core);
	wire(IPC_ROLE_UPSTREAM, &upstream);
	listen_on("r-1", 1);
	return 0;
}

static inline void
forget(void)
{
	for (size_t i = 0; i < nseen; i++)
		buf_free(&seen[i].body);
	nseen = 0;
}

static inline int
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

static inline int
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

static inline void
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

/*
 * What has come by now: message types as a word, '$' for the end of the stream. Where something is
 * wanted, that is waited for: machines are slow at times.
 */
static inline const char *
hear(int fd, const char *want)
{
	static char out[4096];
	static uint8_t in[4 << 20];
	size_t n = 0, k = 0, at = 0;
	bool end = false;

	out[0] = '\0';
	for (int i = 0; want[0] == '\0' ? i < 3 : i < 2000 && strcmp(out, want) != 0; i++) {
		ssize_t got;

		pump(5);
		while ((got = recv(fd, in + n, sizeof(in) - n, 0)) > 0)
			n += (size_t)got;
		end = end || got == 0 || (got < 0 && errno != EAGAIN);
		for (k = at = 0; at + 5 <= n && k < sizeof(out) - 2; k++) {
			out[k] = (char)in[at];
			at += 1 + ((size_t)in[at + 1] << 24 | (size_t)in[at + 2] << 16 |
				      (size_t)in[at + 3] << 8 | in[at + 4]);
		}
		if (end)
			out[k++] = '$';
		out[k] = '\0';
	}
	return out;
}
#define assert_hears(fd, want) assert_string_equal(hear(fd, want), want)

static inline struct str
startup(struct buf *b)
{
	struct pgwire_param p[] = {{STR("user"), STR("x")}, {STR("application_name"), STR("t")}};

	pgwire_put_startup(b, p, 2);
	return buf_str(b);
}

static inline uint64_t
open_session(int *ret_fd)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_BUF struct buf r = BUF(1000);
	uint64_t id;

	*ret_fd = client();
	say(*ret_fd, startup(&b));
	id = seen[expect(MSG_PG_OPEN)].conn;
	buf_u64(&r, id);
	buf_lz(&r, "");
	buf_u32(&r, 1);
	buf_lz(&r, "server_version");
	buf_lz(&r, "15");
	ipc_send(core, MSG_PG_OPENED, &r, NULL, 0);
	assert_hears(*ret_fd, "RSKZ");
	return id;
}

static inline void
data(uint64_t conn, uint64_t act, bool hold, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(1 << 18);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	buf_u8(&b, hold);
	buf_lstr(&b, bytes);
	ipc_send(upstream, MSG_UF_DATA, &b, NULL, 0);
}

static inline void
done(uint64_t conn, uint64_t act, uint64_t bytes)
{
	AUTO_BUF struct buf b = BUF(100);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	buf_u64(&b, bytes);
	buf_u32(&b, 0);
	ipc_send(core, MSG_PG_DONE, &b, NULL, 0);
}

static inline void
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
	buf_lz(&b, "");
	ipc_send(core, MSG_PG_REFUSED, &b, NULL, 0);
}

/* Takes the next PG_ACT and tells kind and length of its messages. */
static inline uint64_t
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

#define front_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
