/*
 * Fuzzes a connection of front that speaks HTTP. The first byte chooses the listener, the second
 * what the stand-ins for core and upstream do, the third where the client's bytes are cut; the rest
 * is what the client sends. What core hears must read as a request again; behind a fault nothing
 * is heard; the client's side of the stream must be whole answers, or break off.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "broker/front_http.h"

#include "common/banned.h"

#define TURNS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	struct loop *loop;
	struct front_hub *hub;
	struct ipc *core, *upstream;
	uint8_t does;
	bool faulty, ended;
	uint64_t body; /* bytes that upstream has of it */
	uint64_t length;
	bool known, heads[64];
	size_t nacts;
	int ticks;
} f;

static void
send_act(struct ipc *w, uint16_t type, uint64_t conn, uint64_t act, const struct buf *rest)
{
	AUTO_BUF struct buf b = BUF(70000);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	if (rest != NULL)
		buf_put_str(&b, buf_str(rest));
	ipc_send(w, type, &b, NULL, 0);
}

static void
answer(uint64_t conn, uint64_t act)
{
	static const struct str parts[] = {{"one", 3}, {"", 0}, {"second", 6}};
	AUTO_BUF struct buf b = BUF(1000);
	bool length = (f.does & 0x10) != 0;

	buf_u16(&b, (f.does & 0x20) != 0 ? 204 : 200);
	buf_u32(&b, length);
	if (length) {
		buf_lz(&b, "Content-Length");
		buf_lz(&b, "9");
	}
	send_act(f.upstream, MSG_UF_HEAD, conn, act, &b);
	for (size_t i = 0; i < ARRAY_LEN(parts) && (f.does & 0x20) == 0; i++) {
		buf_reset(&b);
		buf_lstr(&b, parts[i]);
		send_act(f.upstream, MSG_UF_BODY, conn, act, &b);
	}
	buf_reset(&b);
	buf_u8(&b, (f.does & 0x40) == 0);
	send_act(f.upstream, MSG_UF_END, conn, act, &b);
	send_act(f.core, MSG_H_DONE, conn, act, NULL);
	f.ended = true;
}

static void
refuse(uint64_t conn, uint64_t act)
{
	AUTO_BUF struct buf b = BUF(1000);

	buf_u16(&b, 403);
	buf_u8(&b, 0);
	buf_u32(&b, 0);
	buf_lz(&b, "{}");
	send_act(f.core, MSG_H_REFUSED, conn, act, &b);
}

static void
let_go(uint64_t conn, uint64_t act, bool body)
{
	AUTO_BUF struct buf b = BUF(100);

	buf_u8(&b, body);
	buf_u64(&b, 100);
	buf_u8(&b, (f.does & 8) != 0);
	buf_lz(&b, "acme-prod#17:00:18");
	send_act(f.core, MSG_H_GO, conn, act, &b);
	if (!body) {
		answer(conn, act);
		return;
	}
	buf_reset(&b);
	buf_u32(&b, 7);
	send_act(f.upstream, MSG_UF_MORE, conn, act, &b);
}

static void
need(uint64_t conn, uint64_t act, uint8_t how)
{
	AUTO_BUF struct buf b = BUF(100);

	buf_u8(&b, how);
	buf_u64(&b, 100);
	send_act(f.core, MSG_H_NEED, conn, act, &b);
}

/* H_ACT as core would read it. */
static void
on_act(struct rd *r)
{
	static struct http_request q;
	uint64_t conn = rd_u64(r), act = rd_u64(r), length;
	struct str fault, head, inlined;
	struct err err = {0};
	uint8_t body;

	assert(!f.faulty);
	(void)rd_u32(r);
	(void)rd_u8(r);
	(void)rd_lstr(r);
	(void)rd_u32(r);
	(void)rd_lstr(r);
	(void)rd_lstr(r);
	fault = rd_lstr(r);
	head = rd_lstr(r);
	body = rd_u8(r);
	length = rd_u64(r);
	(void)rd_u8(r);
	inlined = rd_lstr(r);
	assert(rd_end(r) && body <= 3 && (body == 1 ? length == inlined.n : inlined.n == 0));
	f.faulty = fault.n != 0;
	f.ended = false;
	f.body = 0;
	f.known = body == 2;
	f.length = length;
	if (f.faulty) {
		assert(head.n <= FRONT_HTTP_RAW_MAX && body == 0);
		refuse(conn, act);
		return;
	}
	assert(http_request_parse(head, &q, &err) == 0);
	assert(q.form == HTTP_ORIGIN || q.form == HTTP_ASTERISK);
	assert((q.body == HTTP_BODY_NONE) == (body == 0));
	assert((q.body == HTTP_BODY_CHUNKED) == (body == 3));
	assert(q.body != HTTP_BODY_LENGTH || q.length == length);
	if (f.nacts < ARRAY_LEN(f.heads))
		f.heads[f.nacts++] = str_eqz(q.method, "HEAD");
	if ((f.does & 3) == 0)
		refuse(conn, act);
	else if (body >= 2 && (f.does & 3) != 1)
		need(conn, act, (f.does & 3) == 2 ? 1 : 2);
	else
		let_go(conn, act, body >= 2);
}

static void
on_part(struct rd *r)
{
	uint64_t conn = rd_u64(r), act = rd_u64(r);
	bool last = rd_u8(r) == 1;
	struct str s = rd_lstr(r);
	AUTO_BUF struct buf b = BUF(100);

	assert(rd_end(r) && s.n <= 7 && f.body + s.n <= 100);
	f.body += s.n;
	assert(!last || !f.known || f.body == f.length);
	if (last || (f.does & 4) != 0) {
		if (!f.ended)
			answer(conn, act);
		return;
	}
	buf_u32(&b, (uint32_t)s.n);
	send_act(f.upstream, MSG_UF_MORE, conn, act, &b);
}

static int
on_message(
    void *arg, struct ipc *w, uint16_t type, struct rd *r, int *fds, size_t nfds, struct err *err)
{
	uint64_t conn, act;

	(void)arg;
	(void)w;
	(void)fds;
	(void)nfds;
	(void)err;
	if (type == MSG_H_ACT) {
		on_act(r);
	} else if (type == MSG_FU_BODY) {
		on_part(r);
	} else if (type == MSG_H_BODY) {
		conn = rd_u64(r);
		act = rd_u64(r);
		let_go(conn, act, false);
	} else if (type == MSG_H_HASHED) {
		conn = rd_u64(r);
		act = rd_u64(r);
		refuse(conn, act);
	} else if (type == MSG_H_CONNECT) {
		refuse(rd_u64(r), 0);
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
	static const uint8_t speaks[] = {FRONT_HTTP, FRONT_PROXY, FRONT_LOOP};

	(void)signal(SIGPIPE, SIG_IGN);
	f.loop = loop_new();
	f.hub = front_hub_new(f.loop);
	wire(IPC_ROLE_CORE, &f.core);
	wire(IPC_ROLE_UPSTREAM, &f.upstream);
	for (uint32_t i = 0; i < ARRAY_LEN(speaks); i++) {
		struct front_listener_spec s = {.id = i + 1,
		    .proto = speaks[i],
		    .run = STR("r"),
		    .target = STR("web"),
		    .host = STR("a"),
		    .port = 80};
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert(listen(fd, 1) == 0);
		assert(front_listen_add(f.hub, &s, fd, NULL) == 0);
	}
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
say(int fd, const uint8_t *p, size_t n)
{
	while (n != 0) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0)
			break;
		p += k;
		n -= (size_t)k;
		turn();
	}
	turn();
}

/* Whole answers, one after the other; the last one may be cut. */
static void
check_answers(struct str s)
{
	static struct http_response a;
	struct http_reader r;
	struct err err = {0};
	struct str run;
	size_t scanned, end, k = 0;
	int rc;

	while (s.n != 0) {
		scanned = 0;
		assert(http_head_end(s, &scanned, &end, &err) == 0);
		if (end == 0)
			return;
		rc = http_response_parse(
		    (struct str){s.p, end}, k < f.nacts && f.heads[k], &a, &err);
		assert(rc == 0);
		s.p += end;
		s.n -= end;
		if (a.status < 200)
			continue;
		k++;
		http_reader_init(&r, a.body, a.length);
		do
			rc = http_reader_next(&r, &s, &run, &err);
		while (rc == 0 && s.n != 0);
		assert(rc >= 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char out[1 << 20];
	struct front_listener *l;
	size_t cut, n = 0;
	int s[2];
	ssize_t k;

	if (size < 3)
		return 0;
	if (f.loop == NULL)
		set_up();
	f.does = data[1];
	f.faulty = f.ended = false;
	f.nacts = 0;
	l = front_listen_find(f.hub, data[0] % 3u + 1u);
	cut = data[2] < size - 3 ? data[2] : size - 3;
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s) == 0);
	front_conn_new(l, s[0]);
	say(s[1], data + 3, cut);
	say(s[1], data + 3 + cut, size - 3 - cut);
	while ((k = recv(s[1], out + n, sizeof(out) - n, 0)) > 0)
		n += (size_t)k;
	/* Answers to CONNECT are not counted as acts. */
	if (data[0] % 3 != 1 && f.nacts < ARRAY_LEN(f.heads))
		check_answers(str_mem(out, n));
	(void)close(s[1]);
	turn();
	assert(l->sockets == 0);
	return 0;
}
