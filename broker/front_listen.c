/*
 * The runs' listeners: sockets made inside the sandboxes, which tell by themselves whose
 * connection came in. Runs in front.
 */
#include "broker/front.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "broker/front_http.h"
#include "broker/front_pg.h"
#include "common/acceptor.h"
#include "common/xalloc.h"

#include "common/banned.h"

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

bool
front_listen_count(struct front_conn *c)
{
	if (c->counted)
		return true;
	if (run_total(c->listener, false) >= FRONT_CONNS_MAX)
		return false;
	c->counted = true;
	c->listener->sessions++;
	return true;
}

static size_t
spooled(const struct front_listener *l, bool of_all)
{
	const struct front_listener *o;
	size_t n = 0;

	LIST_FOREACH (o, &l->hub->listeners, link)
		if (of_all || strcmp(o->run, l->run) == 0)
			n += o->spooled;
	return n;
}

bool
front_listen_spool(struct front_listener *l, size_t n)
{
	if (n > FRONT_SPOOL_MAX - spooled(l, true) || n > FRONT_SPOOL_RUN_MAX - spooled(l, false))
		return false;
	l->spooled += n;
	return true;
}

void
front_listen_unspool(struct front_listener *l, size_t n)
{
	l->spooled -= n;
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
on_accept(void *arg, int fd)
{
	struct front_listener *l = arg;
	int one = 1;

	if (run_total(l, true) >= FRONT_SOCKETS_MAX) {
		(void)close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	front_conn_new(l, fd);
}

/* --- life ------------------------------------------------------------------------ */

static void
listener_free(struct front_listener *l)
{
	acceptor_free(l->acceptor);
	(void)close(l->fd);
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

static const struct front_proto *const protos[] = {
    [FRONT_POSTGRESQL] = &front_pg_proto,
    [FRONT_HTTP] = &front_http_proto,
    [FRONT_HTTPS] = &front_http_proto,
    [FRONT_PROXY] = &front_http_proto,
    [FRONT_LOOP] = &front_http_proto,
};

int
front_listen_add(struct front_hub *h, const struct front_listener_spec *s, int fd, struct err *err)
{
	AUTO_FD int owned = fd;
	struct front_listener *l;
	int rc = check_socket(fd, err);

	if (rc == 0 && (s->proto >= ARRAY_LEN(protos) || protos[s->proto] == NULL))
		rc = err_set(err, ERR_UNSUPPORTED, "protocol %u is not known", s->proto);
	if (rc == 0 && front_listen_find(h, s->id) != NULL)
		rc = err_set(err, ERR_EXISTS, "listener %u is there already", s->id);
	if (rc == 0 && h->nlisteners >= FRONT_LISTENERS_MAX)
		rc = err_set(err, ERR_TOO_LARGE, "%zu listeners, limit %d", h->nlisteners,
		    FRONT_LISTENERS_MAX);
	if (rc != 0)
		return rc;
	l = xcalloc(1, sizeof(*l));
	l->hub = h;
	l->proto = protos[s->proto];
	l->kind = (enum front_speaks)s->proto;
	l->id = s->id;
	l->run = str_dup(s->run);
	l->target = str_dup(s->target);
	l->host = str_dup(s->host);
	l->port = s->port;
	l->fd = TAKE_FD(owned);
	l->acceptor = acceptor_new(h->loop, l->fd, l->target, on_accept, l);
	LIST_INSERT_HEAD(&h->listeners, l, link);
	h->nlisteners++;
	return 0;
}

/* A connection whose last words are on their way needs no listener any more. */
void
front_listen_drop(struct front_hub *h, const struct str *run, enum front_why why)
{
	struct front_listener *l, *next;

	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&h->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (c->listener != NULL && (run == NULL || str_eqz(*run, c->listener->run)))
				c->proto->over(c, why);
		}
	}
	for (l = LIST_FIRST(&h->listeners); l != NULL; l = next) {
		next = LIST_NEXT(l, link);
		if (run != NULL && !str_eqz(*run, l->run))
			continue;
		listener_free(l);
	}
	front_leaf_drop(h, run);
}

void
front_listen_revoke(
    struct front_hub *h, struct str run, uint32_t id, struct str host, uint16_t port)
{
	struct front_listener *l = id != 0 ? front_listen_find(h, id) : NULL;

	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&h->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (c->listener != NULL &&
			    (c->listener == l || (str_eqz(run, c->listener->run) &&
						     front_http_tunnels(c, host, port))))
				c->proto->over(c, FRONT_REVOKED);
		}
	}
	if (l != NULL && str_eqz(run, l->run))
		listener_free(l);
}
