/*
 * The runs' listeners: sockets made inside the sandboxes, which tell by themselves whose
 * connection came in. Runs in front. Each has a TLS key of its own, made when first needed.
 */
#include "broker/front.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "broker/front_tls.h"
#include "common/log.h"
#include "common/ossl.h"
#include <openssl/ssl.h>
#include "common/xalloc.h"

#include "common/banned.h"

#define ACCEPTS_PER_TURN 64
#define REST_MS 200

static void on_ready(void *arg, uint32_t events);

static size_t
run_total(const struct front_listener *l, bool sockets)
{
	const struct front_listener *o;
	size_t n = 0;

	LIST_FOREACH (o, &l->hub->listeners, link)
		if (strcmp(o->run, l->run) == 0)
			n += sockets ? o->sockets : o->sessions;
	return n;
}

size_t
front_listen_sessions(const struct front_listener *l)
{
	return run_total(l, false);
}

struct front_listener *
front_listen_find(struct front_hub *h, uint32_t id)
{
	struct front_listener *l;

	LIST_FOREACH (l, &h->listeners, link)
		if (l->id == id)
			return l;
	return NULL;
}

/* --- accepting ------------------------------------------------------------------- */

static void
rested(void *arg)
{
	struct front_listener *l = arg;

	l->rest = NULL;
	l->io = loop_io_add(l->hub->loop, l->fd, EPOLLIN, on_ready, l);
}

/* A socket that stays ready and cannot be accepted would keep the loop turning. */
static void
rest(struct front_listener *l, int errnum)
{
	log_error("run %s, target %s: accept: %s", l->run, l->target, strerror(errnum));
	loop_io_del(TAKE_PTR(l->io));
	l->rest = loop_timer_add(l->hub->loop, REST_MS, rested, l);
}

static void
on_ready(void *arg, uint32_t events)
{
	struct front_listener *l = arg;

	(void)events;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int one = 1, fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				rest(l, errno);
			return; /* EAGAIN, or that client has gone already */
		}
		if (run_total(l, true) >= FRONT_SOCKETS_MAX) {
			(void)close(fd);
			continue;
		}
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		front_conn_new(l, fd);
	}
}

/* --- life ------------------------------------------------------------------------ */

static void
listener_free(struct front_listener *l)
{
	loop_io_del(l->io);
	loop_timer_del(l->rest);
	(void)close(l->fd);
	EVP_PKEY_free(l->key);
	SSL_CTX_free(l->ctx);
	LIST_REMOVE(l, link);
	l->hub->nlisteners--;
	free(l->run);
	free(l->target);
	free(l->host);
	free(l);
}

static int
check_socket(int fd, struct err *err)
{
	int on = 0, fl = fcntl(fd, F_GETFL);
	socklen_t len = sizeof(on);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) != 0 || on == 0)
		return err_set(err, ERR_INVALID, "the descriptor is no listening socket");
	if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "O_NONBLOCK");
	return 0;
}

int
front_listen_add(struct front_hub *h, uint32_t id, struct str run, struct str target,
    struct str host, int fd, struct err *err)
{
	AUTO_FD int owned = fd;
	struct front_listener *l;
	int rc = check_socket(fd, err);

	if (rc == 0 && front_listen_find(h, id) != NULL)
		rc = err_set(err, ERR_EXISTS, "listener %u is there already", id);
	if (rc == 0 && h->nlisteners >= FRONT_LISTENERS_MAX)
		rc = err_set(err, ERR_TOO_LARGE, "%zu listeners, limit %d", h->nlisteners,
		    FRONT_LISTENERS_MAX);
	if (rc != 0)
		return rc;
	l = xcalloc(1, sizeof(*l));
	l->hub = h;
	l->id = id;
	l->run = str_dup(run);
	l->target = str_dup(target);
	l->host = str_dup(host);
	l->fd = TAKE_FD(owned);
	l->io = loop_io_add(h->loop, l->fd, EPOLLIN, on_ready, l);
	LIST_INSERT_HEAD(&h->listeners, l, link);
	h->nlisteners++;
	return 0;
}

/* A connection whose last words are on their way needs no listener any more. */
void
front_listen_drop(
    struct front_hub *h, const struct str *run, const char *sqlstate, const char *message)
{
	struct front_listener *l, *next;

	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&h->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (c->listener != NULL && (run == NULL || str_eqz(*run, c->listener->run)))
				front_conn_fatal(c, sqlstate, message);
		}
	}
	for (l = LIST_FIRST(&h->listeners); l != NULL; l = next) {
		next = LIST_NEXT(l, link);
		if (run != NULL && !str_eqz(*run, l->run))
			continue;
		listener_free(l);
	}
}

/* --- certificates ---------------------------------------------------------------- */

static int
ask(struct front_listener *l, struct err *err)
{
	AUTO_BUF struct buf spki = BUF(4000);
	AUTO_BUF struct buf b = BUF(4096);
	int rc = 0;

	if (l->key == NULL)
		rc = front_tls_key(&l->key, err);
	if (rc == 0)
		rc = front_tls_spki(l->key, &spki, err);
	if (rc != 0)
		return rc;
	buf_u32(&b, l->id);
	buf_lstr(&b, buf_str(&spki));
	front_hub_core(l->hub, MSG_F_LEAF_ASK, &b);
	l->asked = true;
	return 0;
}

bool
front_listen_leaf(struct front_listener *l)
{
	struct err err = {0};

	if (l->ctx != NULL && front_tls_fresh(l->ctx))
		return true;
	if (!l->asked && ask(l, &err) != 0)
		log_error("run %s, host %s: %s", l->run, l->host, err.msg);
	return false;
}

/* Everybody who waits for it goes on, or hears that there is none. */
static void
wake(struct front_listener *l, bool ok)
{
	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&l->hub->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (c->listener != l || c->state != FRONT_LEAF)
				continue;
			if (ok)
				front_conn_tls(c);
			else
				front_conn_fatal(
				    c, "57P03", "the broker has no certificate for this host");
		}
	}
}

int
front_listen_on_leaf(struct front_hub *h, uint32_t id, struct str pem, struct err *err)
{
	struct front_listener *l = front_listen_find(h, id);
	struct err why = {0};
	SSL_CTX *ctx = NULL;

	(void)err;
	if (l == NULL || !l->asked)
		return 0;
	l->asked = false;
	if (pem.n == 0)
		(void)err_set(&why, ERR_DENIED, "core refuses a certificate");
	else
		(void)front_tls_context(l->key, pem, &ctx, &why);
	if (why.code != 0) {
		log_error("run %s, host %s: %s", l->run, l->host, why.msg);
	} else {
		SSL_CTX_free(l->ctx);
		l->ctx = ctx;
	}
	wake(l, why.code == 0);
	return 0;
}
