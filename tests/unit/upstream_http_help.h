/*
 * A rig around HTTP exchanges of upstream: core, front and writer played by the test on socket
 * pairs, all on one loop, and a server on loopback whose behaviour is a function, in processes of
 * its own. What arrives there is kept byte for byte.
 */
#ifndef TESTS_UNIT_UPSTREAM_HTTP_HELP_H
#define TESTS_UNIT_UPSTREAM_HTTP_HELP_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "broker/upstream.h"
#include "broker/upstream_http.h"
#include "broker/upstream_http_lease.h"
#include "common/httplease.h"
#include "common/ossl.h"
#include "common/xalloc.h"

#include <openssl/ssl.h>

#define RIG_SEEN ((size_t)8 << 20)
#define RIG_HOSTS                                                                   \
	"127.0.0.1 plain.test good.test other.test expired.test old.test\n"         \
	"127.0.0.1 mixed.test\n10.99.99.99 mixed.test\n169.254.169.254 meta.test\n" \
	"127.0.0.2 two.test\n"
#define RIG_SECRET "s3cr3t-0123456789"
#define RIG_MARK "cfph_abcdefghijklmnopqrstuvwxyz"

struct rig_shared {
	atomic_int conns, requests;
	atomic_size_t n;
	atomic_uint go; /* for scripts that wait for the test */
	char bytes[RIG_SEEN];
};

struct rig_peer {
	int fd, number; /* number: of the connection, from 0 */
	SSL *ssl;
	struct rig_shared *seen;
	char head[32768]; /* of the last request */
};
typedef void rig_script(struct rig_peer *p);

struct rig_done {
	unsigned count;
	uint8_t status;
	uint16_t http;
	uint64_t bytes, body_bytes;
	struct hash sha, body_sha, head;
	char peer[64], cert[80], why[1100], blob[600];
	uint32_t replaced;
	uint8_t ended;
};

struct rig {
	struct loop *loop;
	struct resolver *resolver;
	struct upstream_hub *hub;
	struct upstream_http *http;
	struct ipc *core, *front, *writer;
	char hosts[64];

	pid_t server;
	uint16_t port;
	struct rig_shared *seen;

	struct rig_done done;
	char order[4096]; /* H head, B body, E end, F frame, D done, M more */
	size_t norder;
	unsigned status, interim;
	struct buf fields, body, frames; /* fields: "name: value\n" */
	int whole;			 /* of UF_END; -1: none came */
	uint64_t more;
	unsigned mores;
	char etag[1100]; /* of UH_LOOKED */
	bool over;
	size_t content; /* bytes of it */
	bool front_gone;
	/* Called when front hears something or time passes; may act. */
	void (*step)(struct rig *r);
	unsigned want; /* ends the loop at so many UH_DONE */
};

/* --- the server ------------------------------------------------------------------ */

static inline ssize_t
peer_some(struct rig_peer *p, void *to, size_t n)
{
	ssize_t k = p->ssl != NULL ? SSL_read(p->ssl, to, (int)n) : read(p->fd, to, n);

	if (k > 0) {
		size_t at = atomic_fetch_add(&p->seen->n, (size_t)k);

		if (at + (size_t)k <= RIG_SEEN)
			memcpy(p->seen->bytes + at, to, (size_t)k);
	}
	return k;
}

/* Exactly n bytes; false at the end of the stream. */
static inline bool
peer_read(struct rig_peer *p, void *to, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t k = peer_some(p, (char *)to + at, n - at);

		if (k <= 0)
			return false;
		at += (size_t)k;
	}
	return true;
}

static inline bool
peer_head(struct rig_peer *p)
{
	for (size_t at = 0; at + 1 < sizeof(p->head); at++) {
		if (!peer_read(p, p->head + at, 1))
			return false;
		p->head[at + 1] = '\0';
		if (at > 2 && memcmp(p->head + at - 3, "\r\n\r\n", 4) == 0) {
			(void)atomic_fetch_add(&p->seen->requests, 1);
			return true;
		}
	}
	return false;
}

static inline void
peer_put(struct rig_peer *p, const void *from, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t k = p->ssl != NULL
				? SSL_write(p->ssl, (const char *)from + at, (int)(n - at))
				: write(p->fd, (const char *)from + at, n - at);

		if (k <= 0)
			_exit(0);
		at += (size_t)k;
	}
}

static inline void
peer_write(struct rig_peer *p, const char *text)
{
	peer_put(p, text, strlen(text));
}

/* Until the test raises rig_shared.go to n. */
static inline void
peer_wait(struct rig_peer *p, unsigned n)
{
	while (atomic_load(&p->seen->go) < n)
		(void)usleep(1000);
}

static inline void
server_one(int fd, int number, SSL_CTX *tls, struct rig_shared *seen, rig_script *script)
{
	struct rig_peer p = {.fd = fd, .number = number, .seen = seen};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (tls != NULL) {
		p.ssl = SSL_new(tls);
		if (SSL_set_fd(p.ssl, fd) != 1 || SSL_accept(p.ssl) != 1)
			_exit(0);
	}
	script(&p);
	if (p.ssl != NULL)
		(void)SSL_shutdown(p.ssl);
	(void)shutdown(fd, SHUT_WR);
	_exit(0);
}

static inline void __attribute__((noreturn))
server_run(int listener, SSL_CTX *tls, struct rig_shared *seen, rig_script *script)
{
	(void)signal(SIGCHLD, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	for (int fd = 3; fd < 256; fd++)
		if (fd != listener)
			(void)close(fd);
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		int number = atomic_fetch_add(&seen->conns, 1);

		if (fork() == 0)
			server_one(fd, number, tls, seen, script);
		(void)close(fd);
	}
}

/* Of both families, where the kernel has them. */
static inline int
rig_listen(uint16_t *ret_port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;
	socklen_t len = sizeof(v6);

	if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
	    bind(fd, (struct sockaddr *)&v6, len) == 0 && listen(fd, 128) == 0 &&
	    getsockname(fd, (struct sockaddr *)&v6, &len) == 0) {
		*ret_port = ntohs(v6.sin6_port);
		return fd;
	}
	if (fd >= 0)
		(void)close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	len = sizeof(v4);
	assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&v4, len) == 0 && listen(fd, 128) == 0 &&
		    getsockname(fd, (struct sockaddr *)&v4, &len) == 0);
	*ret_port = ntohs(v4.sin_port);
	return fd;
}

static inline void
rig_serve(struct rig *r, SSL_CTX *tls, rig_script *script)
{
	int fd = rig_listen(&r->port);

	r->server = fork();
	assert_true(r->server >= 0);
	if (r->server == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)setpgid(0, 0); /* with its children, so that all of them can be ended */
		server_run(fd, tls, r->seen, script);
	}
	(void)setpgid(r->server, r->server);
	(void)close(fd);
}

/* --- the wires ------------------------------------------------------------------- */

static inline void
rig_note(struct rig *r, char c)
{
	if (r->norder + 1 < sizeof(r->order))
		r->order[r->norder++] = c;
	if (r->step != NULL)
		r->step(r);
}

static inline void
rig_text(struct rd *b, char *out, size_t size)
{
	struct str s = rd_lstr(b);

	(void)snprintf(out, size, "%.*s", STR_ARG(s));
}

static inline struct hash
rig_hash(struct rd *b)
{
	struct str s = rd_bytes(b, HASH_LEN);
	struct hash h = {{0}};

	if (s.n == HASH_LEN)
		memcpy(h.b, s.p, HASH_LEN);
	return h;
}

static inline void
rig_looked(struct rig *r, struct rd *b)
{
	struct str etag;

	(void)rd_u64(b);
	(void)rd_u64(b);
	etag = rd_lstr(b);
	(void)snprintf(r->etag, sizeof(r->etag), "%.*s", STR_ARG(etag));
	r->over = rd_u8(b) == 1;
	r->content = rd_lstr(b).n;
	assert_true(rd_end(b));
	rig_note(r, 'L');
}

static inline int
rig_core(
    void *arg, struct ipc *w, uint16_t type, struct rd *b, int *fds, size_t nfds, struct err *err)
{
	struct rig *r = arg;
	struct rig_done *d = &r->done;

	(void)w;
	(void)fds;
	(void)nfds;
	(void)err;
	if (type == MSG_UH_LOOKED) {
		rig_looked(r, b);
		return 0;
	}
	assert_int_equal(type, MSG_UH_DONE);
	(void)rd_u64(b);
	(void)rd_u64(b);
	d->status = rd_u8(b);
	d->http = rd_u16(b);
	d->bytes = rd_u64(b);
	d->sha = rig_hash(b);
	d->body_bytes = rd_u64(b);
	d->body_sha = rig_hash(b);
	d->head = rig_hash(b);
	rig_text(b, d->peer, sizeof(d->peer));
	rig_text(b, d->cert, sizeof(d->cert));
	d->replaced = rd_u32(b);
	d->ended = rd_u8(b);
	rig_text(b, d->why, sizeof(d->why));
	rig_text(b, d->blob, sizeof(d->blob));
	assert_true(rd_end(b));
	d->count++;
	rig_note(r, 'D');
	if (d->count >= r->want)
		loop_stop(r->loop, 0);
	return 0;
}

static inline void
rig_head(struct rig *r, struct rd *b)
{
	unsigned status = rd_u16(b);
	uint32_t n = rd_u32(b);

	if (status < 200)
		r->interim = status;
	else
		r->status = status;
	for (uint32_t i = 0; i < n; i++) {
		struct str name = rd_lstr(b), value = rd_lstr(b);

		buf_printf(&r->fields, "%.*s: ", STR_ARG(name));
		buf_put_str(&r->fields, value);
		buf_put_c(&r->fields, '\n');
	}
}

static inline int
rig_front(
    void *arg, struct ipc *w, uint16_t type, struct rd *b, int *fds, size_t nfds, struct err *err)
{
	struct rig *r = arg;
	char c = '?';

	(void)w;
	(void)fds;
	(void)nfds;
	(void)err;
	(void)rd_u64(b);
	(void)rd_u64(b);
	if (type == MSG_UF_HEAD) {
		rig_head(r, b);
		c = 'H';
	} else if (type == MSG_UF_BODY) {
		struct str s = rd_lstr(b);

		assert_true(s.n != 0 && s.n <= 65536);
		buf_put_str(&r->body, s);
		c = 'B';
	} else if (type == MSG_UF_END) {
		r->whole = rd_u8(b);
		c = 'E';
	} else if (type == MSG_UF_MORE) {
		r->more += rd_u32(b);
		r->mores++;
		c = 'M';
	}
	assert_true(rd_end(b));
	rig_note(r, c);
	return 0;
}

static inline int
rig_writer(
    void *arg, struct ipc *w, uint16_t type, struct rd *b, int *fds, size_t nfds, struct err *err)
{
	struct rig *r = arg;

	(void)w;
	(void)fds;
	(void)nfds;
	(void)err;
	assert_int_equal(type, MSG_W_FRAME);
	buf_put_str(&r->frames, rd_lstr(b));
	assert_true(rd_end(b));
	rig_note(r, 'F');
	return 0;
}

static inline void
rig_gone(void *arg, struct ipc *w, const char *why)
{
	struct rig *r = arg;

	(void)why;
	if (w == r->front) {
		r->front = NULL;
		r->front_gone = true;
		loop_stop(r->loop, 0);
	}
	if (w == r->core)
		r->core = NULL;
	if (w == r->writer)
		r->writer = NULL;
	ipc_free(w);
}

static inline struct ipc *
rig_wire(struct rig *r, enum ipc_role role, ipc_msg_fn *fn)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	if (role == IPC_ROLE_WRITER)
		upstream_http_writer(r->http, fd[1]);
	else
		assert_int_equal(upstream_hub_wire(r->hub, role, fd[1], NULL), 0);
	return ipc_new(r->loop, fd[0], role, IPC_ROLE_UPSTREAM, fn, rig_gone, r);
}

/* --- life ------------------------------------------------------------------------ */

static inline void
rig_open(struct rig *r, const char *ca_file)
{
	struct err err = {0};
	int fd;

	*r = (struct rig){.whole = -1, .want = 1};
	(void)snprintf(r->hosts, sizeof(r->hosts), "/tmp/t_upstream_http.XXXXXX");
	fd = mkstemp(r->hosts);
	assert_true(write(fd, RIG_HOSTS, sizeof(RIG_HOSTS) - 1) == sizeof(RIG_HOSTS) - 1);
	(void)close(fd);
	r->seen =
	    mmap(NULL, sizeof(*r->seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(r->seen != MAP_FAILED);
	buf_init(&r->fields, 1 << 18);
	buf_init(&r->body, (size_t)64 << 20);
	buf_init(&r->frames, (size_t)256 << 20);
	(void)signal(SIGPIPE, SIG_IGN);
	r->loop = loop_new();
	assert_int_equal(resolver_new(r->loop, r->hosts, &r->resolver, &err), 0);
	r->hub = upstream_hub_new(r->loop, r->resolver);
	assert_int_equal(upstream_http_new(r->hub, ca_file, &r->http, &err), 0);
	r->core = rig_wire(r, IPC_ROLE_CORE, rig_core);
	r->front = rig_wire(r, IPC_ROLE_FRONT, rig_front);
	r->writer = rig_wire(r, IPC_ROLE_WRITER, rig_writer);
}

static inline void
rig_stop_server(struct rig *r)
{
	if (r->server > 0) {
		(void)kill(-r->server, SIGKILL);
		(void)waitpid(r->server, NULL, 0);
	}
	r->server = 0;
}

static inline void
rig_close(struct rig *r)
{
	rig_stop_server(r);
	upstream_http_free(r->http);
	upstream_hub_free(r->hub);
	resolver_free(r->resolver);
	ipc_free(r->core);
	ipc_free(r->front);
	ipc_free(r->writer);
	loop_free(r->loop);
	buf_free(&r->fields);
	buf_free(&r->body);
	buf_free(&r->frames);
	(void)munmap(r->seen, sizeof(*r->seen));
	(void)unlink(r->hosts);
}

/* Forget the last exchange. */
static inline void
rig_fresh(struct rig *r)
{
	r->done = (struct rig_done){0};
	r->norder = 0;
	memset(r->order, 0, sizeof(r->order));
	r->status = r->interim = r->mores = 0;
	r->more = 0;
	r->whole = -1;
	r->step = NULL;
	r->want = 1;
	buf_reset(&r->fields);
	buf_reset(&r->body);
	buf_reset(&r->frames);
}

static inline void
rig_too_late(void *arg)
{
	struct rig *r = arg;

	loop_stop(r->loop, 1);
}

/* Until `want` exchanges are done. */
static inline void
rig_run(struct rig *r)
{
	struct loop_timer *t = loop_timer_add(r->loop, 20000, rig_too_late, r);

	if (loop_run(r->loop) != 0)
		fail_msg("nothing within 20 s; so far %s", r->order);
	loop_timer_del(t);
}

static inline void
rig_later(void *arg)
{
	struct rig *r = arg;

	loop_stop(r->loop, 0);
}

static inline void
rig_pass(struct rig *r, unsigned ms)
{
	(void)loop_timer_add(r->loop, ms, rig_later, r);
	(void)loop_run(r->loop);
}

/* --- asking ---------------------------------------------------------------------- */

/* A lease with the defaults that tests want: GET / of the server at plain.test, by address. */
static UNUSED __attribute__((noinline)) struct upstream_lease
rig_lease(const struct rig *r)
{
	return (struct upstream_lease){.conn = 7,
	    .act = 1,
	    .run = STR("run-1"),
	    .host = STR("plain.test"),
	    .address = STR("127.0.0.1"),
	    .port = r->port,
	    .method = STR("GET"),
	    .target = STR("/")};
}

/* The same where it would make a stack frame too large. */
static UNUSED __attribute__((noinline)) void
rig_lease_to(const struct rig *r, struct upstream_lease *l)
{
	*l = rig_lease(r);
}

static inline void
rig_put_lease(const struct upstream_lease *l, struct buf *b)
{
	buf_u64(b, l->conn);
	buf_u64(b, l->act);
	buf_lstr(b, l->run);
	buf_u8(b, l->tls);
	buf_lstr(b, l->host);
	buf_u32(b, l->port);
	buf_lstr(b, l->address);
	buf_u32(b, (uint32_t)l->nnetworks);
	for (size_t i = 0; i < l->nnetworks; i++)
		buf_lstr(b, l->networks[i]);
	buf_lstr(b, l->ca);
	buf_lstr(b, l->method);
	buf_lstr(b, l->target);
	buf_u32(b, (uint32_t)l->nfields);
	for (size_t i = 0; i < l->nfields; i++) {
		buf_lstr(b, l->fields[i].name);
		buf_lstr(b, l->fields[i].value);
	}
	buf_u8(b, (uint8_t)l->body);
	buf_u64(b, l->length);
	buf_lstr(b, l->content);
	buf_u8(b, l->expect);
	buf_u8(b, l->bound);
	buf_put(b, l->sha256.b, HASH_LEN);
	buf_u8(b, (uint8_t)l->credential);
	buf_lstr(b, l->field);
	buf_lstr(b, l->user);
	buf_lstr(b, l->secret);
	buf_lstr(b, l->placeholder);
	buf_u32(b, (uint32_t)l->nothers);
	for (size_t i = 0; i < l->nothers; i++) {
		buf_lstr(b, l->others[i].secret);
		buf_lstr(b, l->others[i].user);
		buf_lstr(b, l->others[i].placeholder);
	}
	buf_u8(b, l->fresh);
	buf_u64(b, l->seal);
	buf_lstr(b, l->kid);
	buf_lstr(b, l->blob_key);
	buf_lstr(b, l->wrap);
	buf_u8(b, (uint8_t)l->via);
	buf_lstr(b, l->via_host);
	buf_u32(b, l->via_port);
	buf_lstr(b, l->via_ca);
	buf_lstr(b, l->via_user);
	buf_lstr(b, l->via_secret);
}

static inline void
rig_send(struct rig *r, const struct upstream_lease *l)
{
	AUTO_BUF struct buf b = BUF(1 << 19);

	rig_put_lease(l, &b);
	ipc_send(r->core, MSG_UH_SEND, &b, NULL, 0);
}

static inline void
rig_field(struct upstream_lease *l, const char *name, const char *value)
{
	l->fields[l->nfields++] = (struct http_field){str_z(name), str_z(value)};
}

static inline void
rig_bearer(struct upstream_lease *l)
{
	l->credential = LEASE_BEARER;
	l->secret = STR(RIG_SECRET);
	l->placeholder = STR(RIG_MARK);
}

static inline void
rig_ask(struct rig *r, const struct upstream_lease *l)
{
	rig_fresh(r);
	rig_send(r, l);
	rig_run(r);
}

static inline void
rig_front_body(struct rig *r, bool last, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(1 << 18);

	buf_u64(&b, 7);
	buf_u64(&b, 1);
	buf_u8(&b, last);
	buf_lstr(&b, bytes);
	ipc_send(r->front, MSG_FU_BODY, &b, NULL, 0);
}

static inline void
rig_hold(struct rig *r, bool on)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, 7);
	buf_u64(&b, 1);
	buf_u8(&b, on);
	ipc_send(r->front, MSG_FU_HOLD, &b, NULL, 0);
}

static inline void
rig_abort(struct rig *r)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, 7);
	buf_u64(&b, 1);
	ipc_send(r->core, MSG_UH_ABORT, &b, NULL, 0);
}

static inline int
rig_memfd(struct str bytes, int seals)
{
	int fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0 && write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n);
	assert_true(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

static inline void
rig_sealed(struct rig *r, int fd)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, 7);
	buf_u64(&b, 1);
	ipc_send(r->core, MSG_UH_BODY, &b, &fd, 1);
	(void)close(fd);
}

/* What the server saw, NUL behind it. */
static inline const char *
rig_seen(struct rig *r)
{
	r->seen->bytes[atomic_load(&r->seen->n)] = '\0';
	return r->seen->bytes;
}

static inline void
rig_forget(struct rig *r)
{
	atomic_store(&r->seen->n, 0);
	atomic_store(&r->seen->conns, 0);
	atomic_store(&r->seen->requests, 0);
}

#define assert_done(r, wanted)                                                            \
	do {                                                                              \
		if ((r)->done.status != (wanted))                                         \
			fail_msg("ended %u, not %d: %s", (r)->done.status, (int)(wanted), \
			    (r)->done.why);                                               \
	} while (0)
#define assert_has(text, part)                                           \
	do {                                                             \
		if (strstr((text), (part)) == NULL)                      \
			fail_msg("no \"%s\" in \"%s\"", (part), (text)); \
	} while (0)

#endif
