/*
 * The witness' HTTP: POST /add-checkpoint and nothing else. Runs in cofferdam-witness. Anybody may
 * connect: each connection holds one bounded request, has a deadline, and the one that is here
 * longest goes where there is no room for another.
 */
#include "audit/witness.h"

#include <errno.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/acceptor.h"
#include "common/clock.h"
#include "common/http.h"
#include "common/log.h"
#include "common/ossl.h"
#include "common/tlsio.h"
#include "common/xalloc.h"
#include <openssl/ssl.h>

#include "common/banned.h"

#define CONNS_MAX 64
#define HEAD_MAX ((size_t)8192)
#define IN_MAX (HEAD_MAX + COSIGN_REQUEST_MAX)
#define DEADLINE_MS 20000 /* of a request, and of the wait for one */
#define READS_A_TURN 4

struct conn {
	TAILQ_ENTRY(conn) link;
	struct witness_server *s;
	struct tlsio io;
	struct loop_io *ev;
	struct loop_timer *timer;
	struct buf in, body, out;
	size_t scanned, out_at;
	bool secure, headed, close;
	struct http_reader reader;
};

struct witness_server {
	struct loop *loop;
	struct witness *w;
	int listen_fd;
	struct acceptor *acceptor;
	SSL_CTX *ctx;
	TAILQ_HEAD(conns, conn) conns;
	size_t n;
};

static void
conn_end(struct conn *c)
{
	TAILQ_REMOVE(&c->s->conns, c, link);
	c->s->n--;
	loop_io_del(c->ev);
	loop_timer_del(c->timer);
	tlsio_close(&c->io);
	buf_free(&c->in);
	buf_free(&c->body);
	buf_free(&c->out);
	free(c);
}

static void
on_deadline(void *arg)
{
	struct conn *c = arg;

	c->timer = NULL;
	conn_end(c);
}

static void
deadline(struct conn *c)
{
	loop_timer_del(c->timer);
	c->timer = loop_timer_add(c->s->loop, DEADLINE_MS, on_deadline, c);
}

/* --- answers ------------------------------------------------------------------------- */

static void
answer(struct conn *c, unsigned status, const char *type, struct str content)
{
	AUTO_BUF struct buf n = BUF(32);
	char date[30];

	buf_printf(&n, "%zu", content.n);
	http_date(clock_wall_us() / 1000000, date);
	http_put_status(&c->out, status);
	http_put_field(&c->out, STR("Date"), str_z(date));
	http_put_field(&c->out, STR("Content-Type"), str_z(type));
	http_put_field(&c->out, STR("Content-Length"), buf_str(&n));
	if (status == 405)
		http_put_field(&c->out, STR("Allow"), STR("POST"));
	if (c->close)
		http_put_field(&c->out, STR("Connection"), STR("close"));
	http_put_end(&c->out);
	buf_put_str(&c->out, content);
}

static void
refuse(struct conn *c, unsigned status, const char *text)
{
	c->close = true;
	answer(c, status, "text/plain; charset=utf-8", str_z(text));
}

static void
add_checkpoint(struct conn *c)
{
	AUTO_BUF struct buf content = BUF(COSIGN_ANSWER_MAX);
	const char *type;
	struct err err = {0};
	unsigned status = witness_add(c->s->w, buf_str(&c->body),
	    (uint64_t)(clock_wall_us() / 1000000), &content, &type, &err);

	answer(c, status, type, buf_str(&content));
	buf_reset(&c->body);
	c->headed = false;
}

/* --- requests ------------------------------------------------------------------------ */

/* False: answered, and the connection ends. */
static bool
head_read(struct conn *c, struct str head)
{
	struct http_request rq;
	struct err err = {0};
	int rc = http_request_parse(head, &rq, &err);

	if (rc != 0) {
		refuse(c, (unsigned)err_http(rc), "not an HTTP/1.1 request\n");
		return false;
	}
	c->close = !rq.keep_alive;
	if (!str_eqz(rq.path, "/add-checkpoint") || rq.has_query)
		refuse(c, 404, "there is /add-checkpoint and nothing else\n");
	else if (!str_eqz(rq.method, "POST"))
		refuse(c, 405, "only POST\n");
	else if (rq.expect)
		refuse(c, 417, "no expectations\n");
	else if (rq.body == HTTP_BODY_LENGTH && rq.length > COSIGN_REQUEST_MAX)
		refuse(c, 413, "no request is that long\n");
	else {
		http_reader_init(&c->reader, rq.body, rq.length);
		c->headed = true;
		return true;
	}
	return false;
}

/* Takes what it can of the input. 1: call again; 0: more input is needed, or nothing goes on. */
static int
take_head(struct conn *c)
{
	size_t n = 0;
	int rc = http_head_end(buf_str(&c->in), &c->scanned, &n, NULL);

	if (rc != 0 || (n == 0 && c->in.n >= HEAD_MAX) || n > HEAD_MAX) {
		refuse(c, rc == ERR_SYNTAX ? 400 : 431, "not an HTTP/1.1 request\n");
		return 0;
	}
	if (n == 0)
		return 0;
	c->scanned = 0;
	if (n == 2) { /* an empty line in front of a request */
		buf_drop(&c->in, n);
		return 1;
	}
	if (!head_read(c, str_mem(c->in.p, n)))
		return 0;
	buf_drop(&c->in, n);
	deadline(c);
	return 1;
}

static int
take_body(struct conn *c)
{
	struct str in = buf_str(&c->in), part;
	int rc;

	do {
		rc = http_reader_next(&c->reader, &in, &part, NULL);
		if (rc >= 0)
			buf_put_str(&c->body, part);
	} while (rc == 0 && in.n != 0);
	buf_drop(&c->in, c->in.n - in.n);
	if (rc < 0 || buf_over(&c->body)) {
		refuse(c, rc < 0 ? 400 : 413, "the content is not of the form, or too long\n");
		return 0;
	}
	if (rc == 0)
		return 0;
	add_checkpoint(c);
	deadline(c);
	return 1;
}

/* One answer at a time: what was piped behind it waits in `in`. */
static void
requests(struct conn *c)
{
	while (c->out.n == 0 && (c->headed ? take_body(c) : take_head(c)) == 1)
		;
}

/* --- sockets ------------------------------------------------------------------------- */

static bool
write_some(struct conn *c)
{
	while (c->out_at < c->out.n) {
		ssize_t n = tlsio_write(&c->io, c->out.p + c->out_at, c->out.n - c->out_at, NULL);

		if (n == TLSIO_AGAIN)
			return true;
		if (n < 0)
			return false;
		c->out_at += (size_t)n;
	}
	if (c->out.n != 0 && c->close) {
		tlsio_shut(&c->io);
		return false;
	}
	buf_reset(&c->out);
	c->out_at = 0;
	return true;
}

static bool
read_some(struct conn *c)
{
	for (int i = 0; i < READS_A_TURN && c->in.n < IN_MAX; i++) {
		uint8_t part[4096];
		size_t room = IN_MAX - c->in.n;
		ssize_t n =
		    tlsio_read(&c->io, part, room < sizeof(part) ? room : sizeof(part), NULL);

		if (n == TLSIO_AGAIN)
			return true;
		if (n <= 0)
			return false;
		buf_put(&c->in, part, (size_t)n);
	}
	return true;
}

/* False: the connection is over. */
static bool
serve(struct conn *c)
{
	size_t had;

	do {
		had = c->in.n;
		requests(c);
		if (!write_some(c))
			return false;
	} while (c->out.n == 0 && c->in.n != had);
	return true;
}

static void
on_event(void *arg, uint32_t events UNUSED)
{
	struct conn *c = arg;
	int rc = c->secure ? 1 : tlsio_handshake(&c->io, NULL);
	bool alive = rc >= 0;

	if (rc == 1) {
		c->secure = true;
		alive = read_some(c);
		alive = serve(c) && alive;
	}
	if (!alive) {
		conn_end(c);
		return;
	}
	loop_io_events(c->ev, tlsio_events(&c->io, c->in.n < IN_MAX, c->out.n != 0));
}

static void
conn_new(void *server, int fd)
{
	struct witness_server *s = server;
	struct conn *c = xcalloc(1, sizeof(*c));

	if (s->n == CONNS_MAX)
		conn_end(TAILQ_FIRST(&s->conns));
	c->s = s;
	buf_init(&c->in, IN_MAX);
	buf_init(&c->body, COSIGN_REQUEST_MAX);
	buf_init(&c->out, COSIGN_ANSWER_MAX + HEAD_MAX);
	tlsio_init(&c->io, fd);
	if (s->ctx != NULL) {
		SSL *ssl = SSL_new(s->ctx);

		if (ssl == NULL || SSL_set_fd(ssl, fd) != 1)
			fatal("OpenSSL: no connection");
		SSL_set_accept_state(ssl);
		tlsio_start(&c->io, ssl);
	}
	TAILQ_INSERT_TAIL(&s->conns, c, link);
	s->n++;
	c->ev = loop_io_add(s->loop, fd, EPOLLIN, on_event, c);
	deadline(c);
}

struct witness_server *
witness_serve(struct loop *loop, struct witness *w, int listen_fd, struct ssl_ctx_st *ctx)
{
	struct witness_server *s = xcalloc(1, sizeof(*s));

	s->loop = loop;
	s->w = w;
	s->ctx = ctx;
	s->listen_fd = listen_fd;
	TAILQ_INIT(&s->conns);
	s->acceptor = acceptor_new(loop, listen_fd, "witness", conn_new, s);
	return s;
}

void
witness_server_free(struct witness_server *s)
{
	if (s == NULL)
		return;
	while (!TAILQ_EMPTY(&s->conns))
		conn_end(TAILQ_FIRST(&s->conns));
	acceptor_free(s->acceptor);
	cleanup_close_fd(&s->listen_fd);
	SSL_CTX_free(s->ctx);
	free(s);
}
