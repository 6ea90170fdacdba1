/*
 * Fuzzes a session of front that speaks PostgreSQL. The first byte says what the stand-ins for core
 * and upstream do, the second where the client's bytes are cut; the rest is what the client sends
 * once its session stands. What core hears must be whole messages that fit their exchange; COPY
 * data goes only where it was asked for, and never more of it.
 */
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "broker/front_pg.h"

#include "common/banned.h"

#define TURNS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	struct loop *loop;
	struct front_hub *hub;
	struct ipc *core, *upstream;
	uint8_t does;
	uint64_t conn, act;
	bool inside; /* an act is in flight */
	bool open;   /* data was asked for, and its end has not come */
	size_t credit, frames;
	int ticks;
} f;

static void
send_to(struct ipc *w, uint16_t type, uint64_t act, const struct buf *rest)
{
	AUTO_BUF struct buf b = BUF(1000);

	buf_u64(&b, f.conn);
	buf_u64(&b, act);
	buf_put_str(&b, buf_str(rest));
	ipc_send(w, type, &b, NULL, 0);
}

static void
finish(void)
{
	AUTO_BUF struct buf b = BUF(100);
	AUTO_BUF struct buf done = BUF(100);

	buf_u8(&b, 1);
	buf_lstr(&b, STR("C\0\0\0\5\0Z\0\0\0\5I"));
	send_to(f.upstream, MSG_UF_DATA, f.act, &b);
	buf_u64(&done, 12);
	buf_u32(&done, 1);
	buf_lz(&done, "acme-prod#17:00:18");
	send_to(f.core, MSG_PG_DONE, f.act, &done);
	f.inside = false;
}

static void
refuse(void)
{
	AUTO_BUF struct buf b = BUF(100);

	buf_u8(&b, 1);
	buf_lz(&b, "42501");
	for (int i = 0; i < 4; i++)
		buf_lz(&b, "");
	send_to(f.core, MSG_PG_REFUSED, f.act, &b);
	f.inside = false;
}

static void
grant(bool open)
{
	AUTO_BUF struct buf b = BUF(100);
	uint32_t n = 1 + (f.does >> 4) * 3u;

	buf_u8(&b, open);
	buf_u32(&b, n);
	send_to(f.upstream, MSG_UF_COPY, f.act, &b);
	f.credit = open ? n : f.credit + n;
	f.open = true;
}

static void
on_act(struct rd *r)
{
	struct str s;
	struct pgwire_msg m;
	struct err err = {0};
	uint8_t kind;
	size_t n = 0;
	char last = '\0';

	f.act = rd_u64(r);
	kind = rd_u8(r);
	s = rd_lstr(r);
	assert(rd_end(r) && !f.inside && kind >= FRONT_QUERY && kind <= FRONT_CUT && s.n != 0);
	for (; s.n != 0; s.p += m.whole.n, s.n -= m.whole.n, n++) {
		assert(pgwire_next(s, PGWIRE_MESSAGE_MAX, &m, &err) == 1);
		assert(pgwire_check_frontend(&m, &err) == 0);
		assert(strchr(kind == FRONT_QUERY ? "QF" : "PBDECSH", m.type) != NULL);
		assert(last != 'S' && last != 'H');
		last = m.type;
	}
	assert(kind != FRONT_QUERY || n == 1);
	assert((last == 'S') == (kind == FRONT_SYNC) && (last == 'H') == (kind == FRONT_FLUSH));
	f.inside = true;
	f.open = false;
	f.frames = 0;
	if ((f.does & 3) == 0)
		refuse();
	else if ((f.does & 3) == 1)
		finish();
	else
		grant(true);
}

static void
on_copy(struct rd *r)
{
	uint64_t act = rd_u64(r);
	uint8_t how = rd_u8(r);
	struct str s = rd_lstr(r);

	assert(rd_end(r) && how <= FRONT_COPY_FAIL && act <= f.act);
	if (act != f.act || !f.inside) /* of one that was broken off */
		return;
	assert(f.open && (how != FRONT_COPY_DONE || s.n == 0));
	if (how == FRONT_COPY_DATA) {
		assert(s.n != 0 && s.n <= f.credit);
		f.credit -= s.n;
		if ((f.does & 4) != 0 && ++f.frames == 3)
			finish(); /* an error in the middle */
		else
			grant(false);
		return;
	}
	f.open = false;
	if ((f.does & 8) != 0 && f.frames < 100) {
		f.frames = 100;
		grant(true); /* a second COPY of the same text */
	} else {
		finish();
	}
}

static int
on_message(
    void *arg, struct ipc *w, uint16_t type, struct rd *r, int *fds, size_t nfds, struct err *err)
{
	AUTO_BUF struct buf b = BUF(100);

	(void)arg;
	(void)w;
	(void)fds;
	(void)nfds;
	(void)err;
	if (type == MSG_F_LEAF_ASK || type == MSG_PG_CLOSE || type == MSG_FU_PAUSE)
		return 0;
	f.conn = rd_u64(r);
	if (type == MSG_PG_OPEN) {
		buf_u64(&b, f.conn);
		buf_lz(&b, "");
		buf_u32(&b, 0);
		ipc_send(f.core, MSG_PG_OPENED, &b, NULL, 0);
	} else if (type == MSG_PG_ACT) {
		on_act(r);
	} else if (type == MSG_FU_COPY) {
		on_copy(r);
	}
	return 0;
}

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	(void)arg;
	(void)w;
	(void)why;
	abort(); /* front ended a wire */
}

static void
wire(enum ipc_role peer, struct ipc **ret)
{
	int s[2];
	struct err err = {0};

	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) == 0);
	assert(front_hub_wire(f.hub, peer, s[0], &err) == 0);
	*ret = ipc_new(f.loop, s[1], peer, IPC_ROLE_FRONT, on_message, on_gone, NULL);
}

static void
set_up(void)
{
	struct front_listener_spec s = {.id = 1,
	    .proto = FRONT_POSTGRESQL,
	    .run = STR("r"),
	    .target = STR("db"),
	    .host = STR("a"),
	    .port = 5432};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)signal(SIGPIPE, SIG_IGN);
	f.loop = loop_new();
	f.hub = front_hub_new(f.loop);
	wire(IPC_ROLE_CORE, &f.core);
	wire(IPC_ROLE_UPSTREAM, &f.upstream);
	assert(listen(fd, 1) == 0);
	assert(front_listen_add(f.hub, &s, fd, NULL) == 0);
}

static void
tick(void *arg)
{
	(void)arg;
	if (--f.ticks == 0)
		loop_stop(f.loop, 0);
	else
		(void)loop_timer_add(f.loop, 0, tick, NULL);
}

static void
turn(void)
{
	f.ticks = TURNS;
	(void)loop_timer_add(f.loop, 0, tick, NULL);
	(void)loop_run(f.loop);
}

static void
say(int fd, const void *p, size_t n)
{
	(void)send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	turn();
}

/* Whole messages of a server, one after the other; the last one may be cut. */
static void
check_answers(struct str s)
{
	struct pgwire_track t = {0};

	assert(pgwire_track_add(&t, s));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char hello[] = "\0\0\0\x10\0\3\0\0user\0x\0";
	static char out[1 << 20];
	struct front_listener *l;
	size_t cut, n = 0;
	int s[2];
	ssize_t k;

	if (size < 2)
		return 0;
	if (f.loop == NULL)
		set_up();
	f.does = data[0];
	f.inside = f.open = false;
	l = front_listen_find(f.hub, 1);
	cut = data[1] < size - 2 ? data[1] : size - 2;
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s) == 0);
	front_conn_new(l, s[0]);
	say(s[1], hello, sizeof(hello));
	say(s[1], data + 2, cut);
	say(s[1], data + 2 + cut, size - 2 - cut);
	while ((k = recv(s[1], out + n, sizeof(out) - n, 0)) > 0)
		n += (size_t)k;
	check_answers(str_mem(out, n));
	(void)close(s[1]);
	turn();
	assert(l->sockets == 0);
	return 0;
}
