/*
 * The resolver. Runs in upstream. Trusts DNS for nothing but where to connect: who is there
 * is proved by TLS. Must never block the loop and never open a file once confined.
 */
#include "broker/upstream_resolve.h"

#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#include "common/buf.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SOCKETS_MAX 16
#define QUERY_TIMEOUT_MS 3000
#define QUERY_TRIES 2
#define CACHE_MAX 64
#define CACHE_MS 30000 /* an answer is used so long at most, and no longer than it says */

struct resolver_socket {
	struct resolver *r;
	int fd;
	struct loop_io *io; /* NULL: free */
};

struct cached {
	char host[256]; /* "" free */
	struct resolve_addr addrs[RESOLVE_ADDRS_MAX];
	size_t n;
	uint64_t until;
};

struct resolver {
	struct loop *loop;
	struct cached cache[CACHE_MAX];
	size_t cache_next;
	struct buf hosts;
	ares_channel channel;
	struct loop_timer *timer;
	struct resolver_socket sockets[SOCKETS_MAX];
};

struct resolve {
	struct resolver *r;
	resolve_fn *fn; /* NULL: cancelled */
	void *arg;
	uint16_t port;
	char host[256];
	struct loop_timer *done;
	struct resolve_addr addrs[RESOLVE_ADDRS_MAX];
	size_t n;
	bool in_ares; /* c-ares will still call back */
	char why[160];
};

/* --- addresses as text ----------------------------------------------------------- */

bool
resolve_numeric(const char *text, uint16_t port, struct resolve_addr *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ret->sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ret->sa;

	*ret = (struct resolve_addr){0};
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		ret->len = sizeof(*v4);
		return true;
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		ret->len = sizeof(*v6);
		return true;
	}
	return false;
}

void
resolve_text(const struct resolve_addr *a, char *out, size_t size)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->sa;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->sa;
	char ip[INET6_ADDRSTRLEN] = "?";

	if (a->sa.ss_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof(ip));
		(void)snprintf(out, size, "[%s]:%u", ip, ntohs(v6->sin6_port));
	} else {
		(void)inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof(ip));
		(void)snprintf(out, size, "%s:%u", ip, ntohs(v4->sin_port));
	}
}

/* --- one query ------------------------------------------------------------------- */

static void
query_free(struct resolve *q)
{
	loop_timer_del(q->done);
	free(q);
}

static void
query_done(void *arg)
{
	struct resolve *q = arg;

	q->done = NULL;
	if (q->fn != NULL)
		q->fn(q->arg, q->addrs, q->n, q->why);
	query_free(q);
}

static void
query_finish(struct resolve *q)
{
	q->in_ares = false;
	if (q->fn == NULL)
		query_free(q);
	else
		q->done = loop_timer_add(q->r->loop, 0, query_done, q);
}

void
resolve_cancel(struct resolve *q)
{
	if (q == NULL)
		return;
	q->fn = NULL;
	if (!q->in_ares)
		query_free(q);
}

/* All lines of the hosts file that carry the name. */
static void
query_hosts(struct resolve *q, const char *host)
{
	struct str text = buf_str(&q->r->hosts), line, word, rest;

	while (q->n < RESOLVE_ADDRS_MAX && str_cut(&text, '\n', &line)) {
		AUTO_FREE char *ip = NULL;
		bool first = true, hit = false;

		if (str_cut(&line, '#', &rest))
			line = rest;
		for (size_t at = 0; at < line.n; first = false) {
			while (at < line.n &&
			       (line.p[at] == ' ' || line.p[at] == '\t' || line.p[at] == '\r'))
				at++;
			word = str_mem(line.p + at, 0);
			while (at < line.n && line.p[at] != ' ' && line.p[at] != '\t' &&
			       line.p[at] != '\r')
				at++, word.n++;
			if (word.n == 0)
				break;
			if (first)
				ip = str_dup(word);
			else
				hit = hit || str_ieqz(word, host);
		}
		if (hit && ip != NULL && resolve_numeric(ip, q->port, &q->addrs[q->n]))
			q->n++;
	}
}

/* --- what was answered lately ---------------------------------------------------- */

static void
set_port(struct resolve_addr *a, uint16_t port)
{
	if (a->sa.ss_family == AF_INET)
		((struct sockaddr_in *)&a->sa)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)&a->sa)->sin6_port = htons(port);
}

static bool
cache_find(struct resolver *r, struct resolve *q)
{
	for (size_t i = 0; i < CACHE_MAX; i++) {
		const struct cached *c = &r->cache[i];

		if (c->until <= loop_now_ms(r->loop) || !str_ieqz(str_z(c->host), q->host))
			continue;
		memcpy(q->addrs, c->addrs, sizeof(q->addrs));
		q->n = c->n;
		for (size_t k = 0; k < q->n; k++)
			set_port(&q->addrs[k], q->port);
		return true;
	}
	return false;
}

static void
cache_add(const struct resolve *q, int ttl)
{
	struct resolver *r = q->r;
	struct cached *c = &r->cache[r->cache_next++ % CACHE_MAX];

	if (q->n == 0 || ttl <= 0)
		return;
	memcpy(c->host, q->host, sizeof(c->host));
	memcpy(c->addrs, q->addrs, sizeof(c->addrs));
	c->n = q->n;
	c->until =
	    loop_now_ms(r->loop) + (ttl < CACHE_MS / 1000 ? (unsigned)ttl * 1000U : CACHE_MS);
}

static void
query_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct resolve *q = arg;
	int ttl = INT_MAX;

	(void)timeouts;
	if (status != ARES_SUCCESS)
		(void)snprintf(q->why, sizeof(q->why), "%s", ares_strerror(status));
	for (struct ares_addrinfo_node *a = info != NULL ? info->nodes : NULL; a != NULL;
	     a = a->ai_next) {
		if (q->n == RESOLVE_ADDRS_MAX || a->ai_addrlen > sizeof(q->addrs[0].sa))
			break;
		memcpy(&q->addrs[q->n].sa, a->ai_addr, a->ai_addrlen);
		q->addrs[q->n++].len = (socklen_t)a->ai_addrlen;
		ttl = a->ai_ttl < ttl ? a->ai_ttl : ttl;
	}
	cache_add(q, ttl);
	if (info != NULL)
		ares_freeaddrinfo(info);
	query_finish(q);
}

/* --- c-ares on our loop ---------------------------------------------------------- */

static void timer_set(struct resolver *r);

static void
timer_fired(void *arg)
{
	struct resolver *r = arg;

	r->timer = NULL;
	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	timer_set(r);
}

static void
timer_set(struct resolver *r)
{
	struct timeval tv, *t = ares_timeout(r->channel, NULL, &tv);

	loop_timer_del(r->timer);
	r->timer = t == NULL ? NULL
			     : loop_timer_add(r->loop,
				   (uint64_t)t->tv_sec * 1000 + (uint64_t)t->tv_usec / 1000 + 1,
				   timer_fired, r);
}

static void
socket_ready(void *arg, uint32_t events)
{
	struct resolver_socket *s = arg;
	struct resolver *r = s->r;
	int fd = s->fd;

	ares_process_fd(r->channel,
	    (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 ? fd : ARES_SOCKET_BAD,
	    (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 ? fd : ARES_SOCKET_BAD);
	timer_set(r);
}

static void
socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = arg;
	struct resolver_socket *s = NULL;
	uint32_t ev =
	    (readable != 0 ? (uint32_t)EPOLLIN : 0) | (writable != 0 ? (uint32_t)EPOLLOUT : 0);

	for (size_t i = 0; i < SOCKETS_MAX; i++)
		if (r->sockets[i].io != NULL && r->sockets[i].fd == fd)
			s = &r->sockets[i];
	for (size_t i = 0; s == NULL && ev != 0 && i < SOCKETS_MAX; i++)
		if (r->sockets[i].io == NULL)
			s = &r->sockets[i];
	if (s == NULL)
		return; /* none free: that query times out */
	if (ev == 0) {
		loop_io_del(s->io);
		s->io = NULL;
	} else if (s->io != NULL) {
		loop_io_events(s->io, ev);
	} else {
		s->r = r;
		s->fd = fd;
		s->io = loop_io_add(r->loop, fd, ev, socket_ready, s);
	}
}

struct resolve *
resolver_ask(struct resolver *r, const char *host, uint16_t port, resolve_fn *fn, void *arg)
{
	struct ares_addrinfo_hints hints = {
	    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = ARES_AI_NUMERICSERV};
	struct resolve *q = xcalloc(1, sizeof(*q));
	char service[8];

	q->r = r;
	q->fn = fn;
	q->arg = arg;
	q->port = port;
	(void)snprintf(q->host, sizeof(q->host), "%s", host);
	if (resolve_numeric(host, port, &q->addrs[0]))
		q->n = 1;
	else
		query_hosts(q, host);
	if (q->n == 0 && str_ieqz(str_z(host), "localhost"))
		q->n = resolve_numeric("127.0.0.1", port, &q->addrs[0]) ? 1 : 0;
	if (q->n != 0 || cache_find(r, q)) {
		q->done = loop_timer_add(r->loop, 0, query_done, q);
		return q;
	}
	(void)snprintf(service, sizeof(service), "%u", port);
	q->in_ares = true;
	ares_getaddrinfo(r->channel, host, service, &hints, query_answer, q);
	timer_set(r);
	return q;
}

/* --- life ------------------------------------------------------------------------ */

static void
hosts_read(struct resolver *r, const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[4096];
	ssize_t n;

	if (fd < 0)
		return; /* none is as good as an empty one */
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_put(&r->hosts, chunk, (size_t)n);
	if (buf_over(&r->hosts))
		log_warn("%s: only the first %zu bytes are used", path, r->hosts.n);
	r->hosts.over = false;
	buf_put_c(&r->hosts, '\n'); /* the last line may lack its end */
}

int
resolver_new(struct loop *loop, const char *hosts_path, struct resolver **ret, struct err *err)
{
	struct ares_options opt = {.timeout = QUERY_TIMEOUT_MS, .tries = QUERY_TRIES};
	struct resolver *r = xcalloc(1, sizeof(*r));
	char dns_only[] = "b";
	int rc;

	r->loop = loop;
	buf_init(&r->hosts, RESOLVE_HOSTS_MAX);
	hosts_read(r, hosts_path);
	opt.lookups = dns_only;
	opt.sock_state_cb = socket_state;
	opt.sock_state_cb_data = r;
	rc = ares_library_init(ARES_LIB_INIT_ALL);
	if (rc == ARES_SUCCESS)
		rc = ares_init_options(&r->channel, &opt,
		    ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
			ARES_OPT_SOCK_STATE_CB);
	if (rc != ARES_SUCCESS) {
		buf_free(&r->hosts);
		free(r);
		return err_set(err, ERR_SYSTEM, "resolver: %s", ares_strerror(rc));
	}
	*ret = r;
	return 0;
}

int
resolver_servers(struct resolver *r, const char *csv, struct err *err)
{
	int rc = ares_set_servers_ports_csv(r->channel, csv);

	if (rc != ARES_SUCCESS)
		return err_set(err, ERR_CONFIG, "resolver: \"%s\": %s", csv, ares_strerror(rc));
	return 0;
}

void
resolver_free(struct resolver *r)
{
	if (r == NULL)
		return;
	loop_timer_del(r->timer);
	ares_destroy(r->channel);
	ares_library_cleanup();
	buf_free(&r->hosts);
	free(r);
}
