/*
 * Test tool: stands in for cofferdam-front and lies about HTTP. The test connects to a run's
 * listener and sends one byte, the number of a lie; this program then sends core and upstream
 * what a taken-over front might, in the name of the target that the listener is of. It answers
 * with one line: what came back. Nothing it sends may make a request, or more than one body of
 * the leased length, reach the origin that core did not judge.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

#define LISTENERS_MAX 16
#define EVIL "DELETE /evil HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n"
#define MUTATION "{\"query\":\"mutation{volumeDelete(id:\\\"vol-prod\\\"){id}}\"}"
#define QUERY "{\"query\":\"{viewer{login}}\"}"

static struct liar {
	struct loop *loop;
	struct ipc *core, *upstream;
	struct listener {
		int fd;
		uint32_t id, port;
		uint8_t proto;
		char host[256];
	} listeners[LISTENERS_MAX], *at;
	size_t n;
	int client;
	unsigned lie, ticks; /* of 20 ms since the client came */
	uint64_t conn;
	unsigned status; /* of the answer, 0: none yet */
	bool ended, done, told;
	int later; /* a memfd that is written after it was judged */
} st = {.client = -1, .conn = 9000, .later = -1};

struct lie {
	const char *name;
	const char *head; /* '@' stands for the listener's own host:port; NULL: no act */
	const char *inlined;
	uint64_t length;
	uint8_t body, tls;
	const char *host, *connect, *fault;
	uint32_t listener;
	void (*before)(void), (*after)(void);
};

static void
answer(const char *what)
{
	if (st.client < 0)
		return;
	(void)!write(st.client, what, strlen(what));
	(void)!write(st.client, "\n", 1);
	(void)close(st.client);
	st.client = -1;
}

static void
act(uint64_t n, const struct lie *c)
{
	AUTO_BUF struct buf b = BUF(1 << 18);
	AUTO_BUF struct buf head = BUF(4096);

	for (const char *p = c->head; *p != '\0'; p++) {
		if (*p == '@')
			buf_printf(&head, "%s:%u", st.at->host, st.at->port);
		else
			buf_put_c(&head, *p);
	}
	buf_u64(&b, st.conn);
	buf_u64(&b, n);
	buf_u32(&b, c->listener != 0 ? c->listener : st.at->id);
	buf_u8(&b, c->tls);
	buf_lz(&b, c->host != NULL ? c->host : st.at->host);
	buf_u32(&b, st.at->port);
	buf_lz(&b, c->connect != NULL ? c->connect : "");
	buf_lz(&b, "");
	buf_lz(&b, c->fault != NULL ? c->fault : "");
	buf_lstr(&b, buf_str(&head));
	buf_u8(&b, c->body);
	buf_u64(&b, c->length);
	buf_u8(&b, 0);
	buf_lz(&b, c->inlined != NULL ? c->inlined : "");
	ipc_send(st.core, MSG_H_ACT, &b, NULL, 0);
}

static void
body_fd(int fd, uint64_t length)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, st.conn);
	buf_u64(&b, 1);
	buf_u64(&b, length);
	ipc_send(st.core, MSG_H_BODY, &b, &fd, 1);
}

static int
memfd(const char *text, unsigned seals)
{
	int fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ||
	    (seals != 0 && fcntl(fd, F_ADD_SEALS, seals) != 0))
		abort();
	return fd;
}

static void
fu_body(struct str data, uint8_t last)
{
	AUTO_BUF struct buf b = BUF(1 << 18);

	buf_u64(&b, st.conn);
	buf_u64(&b, 1);
	buf_u8(&b, last);
	buf_lstr(&b, data);
	ipc_send(st.upstream, MSG_FU_BODY, &b, NULL, 0);
}

/* --- the lies -------------------------------------------------------------------- */

static void
body_unasked(void)
{
	AUTO_FD int fd = memfd("abc", F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);

	body_fd(fd, 3);
}

static void
body_without_lease(void)
{
	fu_body(STR(EVIL), 1);
}

static void
evil_too(void)
{
	act(2, &(struct lie){.head = "DELETE /evil HTTP/1.1\r\nHost: @\r\n\r\n"});
}

/* Not in the message table: ipc_send would refuse, so the frame is written by hand. */
static void
own_lease(void)
{
	AUTO_BUF struct buf f = BUF(65536);
	AUTO_BUF struct buf q = BUF(4096);
	static const uint8_t zero[64];

	buf_u64(&q, st.conn);
	buf_u64(&q, 1);
	buf_lz(&q, "r");
	buf_u8(&q, 0);
	buf_lz(&q, "127.0.0.1");
	buf_u32(&q, st.at->port);
	buf_lz(&q, "127.0.0.1");
	buf_u32(&q, 0);
	buf_lz(&q, "");
	buf_lz(&q, "DELETE");
	buf_lz(&q, "/evil");
	buf_put(&q, zero, 64);
	buf_u32(&f, (uint32_t)q.n);
	buf_u16(&f, MSG_UH_SEND);
	buf_u16(&f, 0);
	buf_put_str(&f, buf_str(&q));
	(void)!send(ipc_fd(st.upstream), f.p, f.n, MSG_NOSIGNAL);
	(void)usleep(300000);
	answer("sent to upstream");
}

#define READ "GET /ok HTTP/1.1\r\nHost: @\r\n"
#define OCTETS "Content-Type: application/octet-stream\r\n"
#define POST3 "POST /x HTTP/1.1\r\nHost: @\r\nContent-Length: 3\r\n" OCTETS
#define E "\r\n"
/* The body that core asks for: on_need(). The length of QUERY. */
#define GRAPHQL                                                                           \
	.head = "POST /graphql HTTP/1.1\r\nHost: @\r\nContent-Type: application/json\r\n" \
		"Content-Length: 27\r\n\r\n",                                             \
	.body = 2, .length = sizeof(QUERY) - 1
_Static_assert(sizeof(QUERY) - 1 == 27, "as the head says");
/* The body that goes to upstream: on_go(). */
#define STREAMED                                                                         \
	.head = "POST /count HTTP/1.1\r\nHost: @\r\nContent-Length: 50000\r\n" OCTETS E, \
	.body = 2, .length = 50000

static const struct lie lies[] = {
    {.name = "an honest read (the control)", .head = READ E},
    {.name = "another host beside the head", .head = READ E, .host = "elsewhere.test"},
    {.name = "another host in the head",
	.head = "GET /ok HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n"},
    {.name = "two hosts", .head = READ "Host: elsewhere.test\r\n\r\n"},
    {.name = "a second request behind the head", .head = READ E EVIL},
    {.name = "a request inside a field", .head = READ "X: a\n" EVIL},
    {.name = "both framings",
	.head = POST3 "Transfer-Encoding: chunked\r\n\r\n",
	.body = 1,
	.length = 3,
	.inlined = "abc"},
    {.name = "a head without its end", .head = READ},
    {.name = "a fault and a good head", .head = READ E, .fault = "400 it looked wrong"},
    {.name = "TLS that there was not", .head = READ E, .tls = 1},
    {.name = "a CONNECT that there was not", .head = READ E, .connect = "elsewhere.test:443"},
    {.name = "a listener of nobody", .head = READ E, .listener = 4000000},
    {.name = "an inline body that is longer",
	.head = POST3 E,
	.body = 1,
	.length = 3,
	.inlined = "abc" EVIL},
    {.name = "an inline body without a length", .head = READ E, .inlined = "abc"},
    {.name = "a length unlike the head's",
	.head = POST3 E,
	.body = 1,
	.length = 5,
	.inlined = "abcde"},
    {.name = "a body that nobody asked for",
	.head = POST3 E,
	.body = 1,
	.length = 3,
	.inlined = "abc",
	.after = body_unasked},
    {.name = "a judged body without seals", GRAPHQL},
    {.name = "a judged body with half the seals, written later", GRAPHQL},
    {.name = "a judged body longer than said", GRAPHQL},
    {.name = "a judged body shorter than said", GRAPHQL},
    {.name = "a mutation in place of the query", GRAPHQL},
    {.name = "an honest judged body (the control)", GRAPHQL},
    {.name = "a hash in place of a judged body", GRAPHQL},
    {.name = "more body than leased", STREAMED},
    {.name = "less body than leased", STREAMED},
    {.name = "an honest streamed body (the control)", STREAMED},
    {.name = "a body without a lease", .head = READ E, .before = body_without_lease},
    {.name = "two acts at once", .head = READ E, .after = evil_too},
    {.name = "a lease of its own to upstream", .before = own_lease},
};

static bool
telling(const char *name)
{
	return strcmp(lies[st.lie].name, name) == 0;
}

static void
on_need(void)
{
	static const unsigned all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	AUTO_FD int fd = -1;
	uint64_t n = sizeof(QUERY) - 1;

	if (telling("a hash in place of a judged body")) {
		AUTO_BUF struct buf b = BUF(128);
		static const uint8_t zero[32];

		buf_u64(&b, st.conn);
		buf_u64(&b, 1);
		buf_u64(&b, n);
		buf_put(&b, zero, 32);
		ipc_send(st.core, MSG_H_HASHED, &b, NULL, 0);
		return;
	}
	if (telling("a judged body without seals"))
		fd = memfd(QUERY, 0);
	else if (telling("a judged body with half the seals, written later"))
		fd = memfd(QUERY, F_SEAL_SHRINK | F_SEAL_GROW);
	else if (telling("a judged body longer than said"))
		fd = memfd(QUERY " ", all);
	else if (telling("a judged body shorter than said"))
		fd = memfd("{}", all);
	else if (telling("a mutation in place of the query"))
		fd = memfd(MUTATION, all);
	else
		fd = memfd(QUERY, all);
	if (telling("a mutation in place of the query"))
		n = sizeof(MUTATION) - 1;
	body_fd(fd, n);
	if (telling("a judged body with half the seals, written later"))
		st.later = fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* Core lets the exchange go. */
static void
on_go(void)
{
	if (st.later >= 0)
		(void)!pwrite(st.later, "{\"query\":\"mutation", 18, 0);
}

/* Upstream asks for the body: it gets more or less than was leased. */
static void
on_more(void)
{
	AUTO_FREE char *data = calloc(1, 30000);

	if (st.told)
		return;
	st.told = true;
	(void)memset(data, 'x', 30000);
	fu_body(str_mem(data, 30000), 0);
	if (telling("less body than leased")) {
		fu_body(STR_NONE, 1);
		return;
	}
	fu_body(str_mem(data, 20000), telling("more body than leased") ? 0 : 1);
	if (telling("more body than leased"))
		fu_body(STR(EVIL), 1);
}

/* --- wires ----------------------------------------------------------------------- */

static int
listener_add(struct rd *body, int *fds)
{
	struct listener *l = &st.listeners[st.n];
	struct str host;

	if (st.n == LISTENERS_MAX)
		return 0;
	l->id = rd_u32(body);
	l->proto = rd_u8(body);
	(void)rd_lstr(body);
	(void)rd_lstr(body);
	host = rd_lstr(body);
	l->port = rd_u32(body);
	(void)snprintf(l->host, sizeof(l->host), "%.*s", STR_ARG(host));
	l->fd = fds[0];
	fds[0] = -1;
	st.n++;
	return 0;
}

static void
say_done(void)
{
	char text[64];

	if (!st.ended || !st.done)
		return;
	(void)snprintf(text, sizeof(text), "done %u", st.status);
	answer(text);
}

static int
on_core(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type, struct rd *body, int *fds,
    size_t nfds UNUSED, struct err *err UNUSED)
{
	char text[64];

	if (type == MSG_F_LISTEN)
		return listener_add(body, fds);
	(void)rd_u64(body);
	(void)rd_u64(body);
	if (type == MSG_H_NEED) {
		on_need();
	} else if (type == MSG_H_GO) {
		on_go();
	} else if (type == MSG_H_REFUSED) {
		(void)snprintf(text, sizeof(text), "refused %u", rd_u16(body));
		answer(text);
	} else if (type == MSG_H_DONE) {
		st.done = true;
		say_done();
	} else if (type == MSG_H_ABORT) {
		answer("aborted");
	}
	return 0;
}

static void
on_core_gone(void *arg UNUSED, struct ipc *w, const char *why UNUSED)
{
	ipc_free(w);
	st.core = NULL;
	answer("wire ended");
	for (size_t i = 0; i < st.n; i++)
		(void)close(st.listeners[i].fd);
	st.n = 0;
	proc_wire_lost(IPC_ROLE_CORE);
}

static int
on_upstream(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type, struct rd *body, int *fds UNUSED,
    size_t nfds UNUSED, struct err *err UNUSED)
{
	(void)rd_u64(body);
	(void)rd_u64(body);
	if (type == MSG_UF_MORE)
		on_more();
	if (type == MSG_UF_HEAD)
		st.status = rd_u16(body);
	if (type == MSG_UF_END) {
		st.ended = true;
		if (rd_u8(body) == 0)
			answer("broken off");
		say_done();
	}
	return 0;
}

static void
on_upstream_gone(void *arg UNUSED, struct ipc *w, const char *why UNUSED)
{
	ipc_free(w);
	st.upstream = NULL;
	answer("upstream's wire ended");
	proc_wire_lost(IPC_ROLE_UPSTREAM);
}

static void
on_client(void *arg UNUSED)
{
	unsigned char c;
	int fd = -1;

	(void)loop_timer_add(st.loop, 20, on_client, NULL);
	if (st.client >= 0 && ++st.ticks > 150)
		answer("ignored");
	if (st.core == NULL || st.upstream == NULL || st.client >= 0)
		return;
	for (size_t i = 0; fd < 0 && i < st.n; i++) {
		st.at = &st.listeners[i];
		fd = accept4(st.at->fd, NULL, NULL, SOCK_CLOEXEC);
	}
	if (fd < 0)
		return;
	if (recv(fd, &c, 1, 0) != 1 || c >= ARRAY_LEN(lies)) {
		(void)close(fd);
		return;
	}
	st.client = fd;
	st.ticks = st.status = 0;
	st.ended = st.done = st.told = false;
	st.lie = c;
	st.conn++;
	if (st.later >= 0)
		(void)close(st.later);
	st.later = -1;
	if (lies[c].before != NULL)
		lies[c].before();
	if (lies[c].head != NULL)
		act(1, &lies[c]);
	if (lies[c].after != NULL)
		lies[c].after();
}

static int
on_wire(void *arg UNUSED, enum ipc_role peer, struct str run UNUSED, int fd, struct err *err UNUSED)
{
	if (peer == IPC_ROLE_CORE) {
		ipc_free(st.core);
		st.core = ipc_new(st.loop, fd, IPC_ROLE_FRONT, peer, on_core, on_core_gone, NULL);
	} else {
		ipc_free(st.upstream);
		st.upstream =
		    ipc_new(st.loop, fd, IPC_ROLE_FRONT, peer, on_upstream, on_upstream_gone, NULL);
	}
	return 0;
}

static int
on_serve(void *arg UNUSED, struct err *err UNUSED)
{
	(void)loop_timer_add(st.loop, 20, on_client, NULL);
	return 0;
}

int
main(int argc, char **argv)
{
	static const char *const calls[] = {"accept4", "recvfrom", "sendto", "setsockopt",
	    "getsockopt", "memfd_create", "fcntl", "pwrite64", "clock_nanosleep", NULL};
	static const struct proc_ops ops = {.self = IPC_ROLE_FRONT,
	    .name = "front",
	    .wire = on_wire,
	    .serve = on_serve,
	    .syscalls = calls};

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < ARRAY_LEN(lies); i++)
			(void)printf("%s\n", lies[i].name);
		return 0;
	}
	st.loop = loop_new();
	return proc_main(&ops, st.loop, NULL);
}
