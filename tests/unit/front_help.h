/*
 * Front on one loop with a test that is client, core and upstream at once. HTTP listeners; what
 * front says is kept until the test asks for it.
 */
#ifndef TESTS_UNIT_FRONT_HELP_H
#define TESTS_UNIT_FRONT_HELP_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <setjmp.h>

#include <cmocka.h>

#include "broker/front_http.h"

#define SEEN_MAX 8192
#define NONE SIZE_MAX

static struct loop *loop;
static struct front_hub *hub;
static struct ipc *core, *upstream;
static struct {
	uint16_t type;
	struct buf body;
	int fd;
} seen[SEEN_MAX];
static size_t nseen;
static int wires_lost;

/* --- the other sides ------------------------------------------------------------- */

static int
help_message(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type, struct rd *b, int *fds,
    size_t nfds, struct err *err UNUSED)
{
	assert_true(nseen < SEEN_MAX);
	seen[nseen].type = type;
	seen[nseen].fd = -1;
	if (nfds != 0)
		seen[nseen].fd = TAKE_FD(fds[0]);
	buf_init(&seen[nseen].body, 2000000);
	buf_put(&seen[nseen].body, b->p, b->n);
	nseen++;
	return 0;
}

static void
help_gone(void *arg, struct ipc *w, const char *why UNUSED)
{
	*(struct ipc **)arg = NULL;
	wires_lost++;
	ipc_free(w);
}

static void
help_stop(void *arg UNUSED)
{
	loop_stop(loop, 0);
}

static inline void
pump(uint64_t ms)
{
	(void)loop_timer_add(loop, ms, help_stop, NULL);
	(void)loop_run(loop);
}

static inline void
wire(enum ipc_role peer, struct ipc **ret)
{
	int s[2];
	struct err err = {0};

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(front_hub_wire(hub, peer, s[0], &err), 0);
	*ret = ipc_new(loop, s[1], peer, IPC_ROLE_FRONT, help_message, help_gone, ret);
}

static inline void
forget(void)
{
	for (size_t i = 0; i < nseen; i++) {
		buf_free(&seen[i].body);
		if (seen[i].fd >= 0)
			(void)close(seen[i].fd);
	}
	nseen = 0;
}

static inline int
set_up(void **state UNUSED)
{
	(void)signal(SIGPIPE, SIG_IGN); /* as in every process of ours */
	loop = loop_new();
	hub = front_hub_new(loop);
	wire(IPC_ROLE_CORE, &core);
	wire(IPC_ROLE_UPSTREAM, &upstream);
	return 0;
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
	wires_lost = 0;
	return 0;
}

/* The first message of that type, waited for and taken. */
static inline size_t
expect(uint16_t type)
{
	for (int i = 0; i < 400; i++) {
		for (size_t k = 0; k < nseen; k++)
			if (seen[k].type == type) {
				seen[k].type = 0;
				return k;
			}
		pump(3);
	}
	fail_msg("%s did not come", ipc_msg_name(type));
	return NONE;
}

static inline size_t
count(uint16_t type)
{
	size_t n = 0;

	for (size_t k = 0; k < nseen; k++)
		n += seen[k].type == type;
	return n;
}

/* A new listener of the run; its port. */
static inline uint16_t
listen_run(uint32_t id, enum front_speaks speaks, const char *run, const char *host, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	buf_u32(&b, id);
	buf_u8(&b, (uint8_t)speaks);
	buf_lz(&b, run);
	buf_lz(&b, speaks < FRONT_PROXY ? "web" : "");
	buf_lz(&b, host);
	buf_u32(&b, port);
	ipc_send(core, MSG_F_LISTEN, &b, &fd, 1);
	pump(5);
	return ntohs(a.sin_port);
}

static inline uint16_t
listen_on(enum front_speaks speaks, const char *host, uint16_t port)
{
	static uint32_t id;

	return listen_run(++id, speaks, "r-1", host, port);
}

/* --- a client -------------------------------------------------------------------- */

static inline int
client(uint16_t port)
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
say_str(int fd, struct str s)
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
	pump(5);
}

static inline void
say(int fd, const char *z)
{
	say_str(fd, str_z(z));
}

/* What has come by now, with '$' for the end of the stream and '!' for a reset. Values of Date are
 * cut out, since they change. */
static inline const char *
hear(int fd)
{
	static char out[4 << 20];
	size_t n = 0;
	char *date;
	char end = '\0';

	for (int i = 0; i < 4; i++) {
		ssize_t got;

		pump(4);
		while ((got = recv(fd, out + n, sizeof(out) - n - 2, 0)) > 0)
			n += (size_t)got;
		if (got == 0 && end == '\0')
			end = '$';
		if (got < 0 && errno != EAGAIN && end == '\0')
			end = '!';
	}
	if (end != '\0')
		out[n++] = end;
	out[n] = '\0';
	while ((date = strstr(out, "\r\nDate: ")) != NULL)
		memmove(date + 6, date + 37, strlen(date + 37) + 1);
	return out;
}

/* --- what core hears and says ----------------------------------------------------- */

struct act {
	uint64_t conn, act, length;
	uint32_t listener, port;
	uint8_t tls, body, expects;
	char *host, *connect, *sni, *fault, *head, *inlined;
};

static inline void
act_free(struct act *a)
{
	free(a->host);
	free(a->connect);
	free(a->sni);
	free(a->fault);
	free(a->head);
	free(a->inlined);
	*a = (struct act){0};
}
#define AUTO_ACT __attribute__((cleanup(act_free))) struct act

static inline struct act
act(void)
{
	struct rd r = rd_init(buf_str(&seen[expect(MSG_H_ACT)].body));
	struct act a = {0};

	a.conn = rd_u64(&r);
	a.act = rd_u64(&r);
	a.listener = rd_u32(&r);
	a.tls = rd_u8(&r);
	a.host = str_dup(rd_lstr(&r));
	a.port = rd_u32(&r);
	a.connect = str_dup(rd_lstr(&r));
	a.sni = str_dup(rd_lstr(&r));
	a.fault = str_dup(rd_lstr(&r));
	a.head = str_dup(rd_lstr(&r));
	a.body = rd_u8(&r);
	a.length = rd_u64(&r);
	a.expects = rd_u8(&r);
	a.inlined = str_dup(rd_lstr(&r));
	assert_true(rd_end(&r));
	return a;
}

static inline struct buf
to_act(const struct act *a, size_t max)
{
	struct buf b = BUF(max + 1000);

	buf_u64(&b, a->conn);
	buf_u64(&b, a->act);
	return b;
}

static inline void
tell(struct ipc *w, uint16_t type, struct buf *b)
{
	ipc_send(w, type, b, NULL, 0);
	buf_free(b);
}

static inline void
go_with(const struct act *a, uint8_t body, uint64_t most, bool hold, const char *receipt)
{
	struct buf b = to_act(a, 0);

	buf_u8(&b, body);
	buf_u64(&b, most);
	buf_u8(&b, hold);
	buf_lz(&b, receipt);
	tell(core, MSG_H_GO, &b);
}

static inline void
go(const struct act *a, bool body, uint64_t most, bool hold)
{
	go_with(a, body, most, hold, "");
}

static inline void
need(const struct act *a, uint8_t how, uint64_t most)
{
	struct buf b = to_act(a, 0);

	buf_u8(&b, how);
	buf_u64(&b, most);
	tell(core, MSG_H_NEED, &b);
}

static inline void
refuse(const struct act *a, uint16_t status, bool last, const char *body)
{
	struct buf b = to_act(a, 100000);

	buf_u16(&b, status);
	buf_u8(&b, last);
	buf_u32(&b, 1);
	buf_lz(&b, "Content-Type");
	buf_lz(&b, "application/problem+json");
	buf_lz(&b, body);
	tell(core, MSG_H_REFUSED, &b);
}

static inline void
done(const struct act *a)
{
	struct buf b = to_act(a, 0);

	tell(core, MSG_H_DONE, &b);
}

static inline void
abort_act(const struct act *a)
{
	struct buf b = to_act(a, 0);

	tell(core, MSG_H_ABORT, &b);
}

/* --- what upstream says ------------------------------------------------------------ */

/* fields: "Name: value\nName: value". */
static inline void
head(const struct act *a, uint16_t status, const char *fields)
{
	struct buf b = to_act(a, 100000);
	struct str rest = str_z(fields), line;
	uint32_t n = rest.n != 0;

	for (size_t i = 0; i < rest.n; i++)
		n += rest.p[i] == '\n';
	buf_u16(&b, status);
	buf_u32(&b, n);
	while (n-- != 0) {
		struct str name;

		if (!str_cut(&rest, '\n', &line))
			line = rest;
		assert_true(str_cut(&line, ':', &name));
		buf_lstr(&b, name);
		buf_lstr(&b, line);
	}
	tell(upstream, MSG_UF_HEAD, &b);
}

static inline void
data(const struct act *a, struct str s)
{
	struct buf b = to_act(a, s.n);

	buf_lstr(&b, s);
	tell(upstream, MSG_UF_BODY, &b);
}

static inline void
end(const struct act *a, bool whole)
{
	struct buf b = to_act(a, 0);

	buf_u8(&b, whole);
	tell(upstream, MSG_UF_END, &b);
}

static inline void
more(const struct act *a, uint32_t bytes)
{
	struct buf b = to_act(a, 0);

	buf_u32(&b, bytes);
	tell(upstream, MSG_UF_MORE, &b);
}

/* The next FU_BODY of that act, appended; true: it was the last. */
static inline bool
part(const struct act *a, struct buf *to)
{
	struct rd r = rd_init(buf_str(&seen[expect(MSG_FU_BODY)].body));
	bool last;

	assert_int_equal(rd_u64(&r), a->conn);
	assert_int_equal(rd_u64(&r), a->act);
	last = rd_u8(&r) == 1;
	buf_put_str(to, rd_lstr(&r));
	assert_true(rd_end(&r));
	return last;
}

/* --- plain HTTP ---------------------------------------------------------------------- */

#define OK "HTTP/1.1 200 OK\r\n"
#define GET "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"
#define POST "POST / HTTP/1.1\r\nHost: web.test\r\n"
#define PROBLEM "Date\r\nContent-Type: application/problem+json\r\n"
#define UNAVAILABLE "HTTP/1.1 503 Service Unavailable\r\n" PROBLEM "Retry-After: 5\r\n"

static uint16_t web;

static inline int
plain_up(void **state)
{
	(void)set_up(state);
	web = listen_on(FRONT_HTTP, "web.test", 80);
	return 0;
}
#define P(f) cmocka_unit_test_setup_teardown(f, plain_up, tear_down)

static inline bool
starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* A request that core has let go. */
static inline struct act
asked(int fd, const char *request, bool hold)
{
	struct act a;

	say(fd, request);
	a = act();
	go(&a, false, 0, hold);
	pump(5);
	return a;
}

static inline void
finish(const struct act *a)
{
	end(a, true);
	done(a);
}

#endif
