/*
 * Host names to addresses without blocking and without files: c-ares for DNS, and the
 * hosts file as it was when the process started (a confined process opens none).
 */
#ifndef BROKER_UPSTREAM_RESOLVE_H
#define BROKER_UPSTREAM_RESOLVE_H

#include <sys/socket.h>

#include "common/err.h"
#include "common/loop.h"
#include "common/str.h"

#define RESOLVE_ADDRS_MAX 8
#define RESOLVE_HOSTS_MAX ((size_t)256 << 10) /* bytes of the hosts file that are read */

struct resolve_addr {
	struct sockaddr_storage sa;
	socklen_t len;
};

struct resolver;
/* Before confinement: reads the system's resolver configuration and the hosts file. */
int resolver_new(struct loop *loop, const char *hosts_path, struct resolver **ret, struct err *err);
void resolver_free(struct resolver *r);
/* Only these servers, "127.0.0.1:5353,..."; for tests. */
int resolver_servers(struct resolver *r, const char *csv, struct err *err);

struct resolve;
/* n == 0: `why` tells. Called from the loop, never from inside resolver_ask(); the query is gone
 * then. What DNS says is used again while it lives, half a minute at most. */
typedef void resolve_fn(void *arg, const struct resolve_addr *addrs, size_t n, const char *why);
struct resolve *resolver_ask(
    struct resolver *r, const char *host, uint16_t port, resolve_fn *fn, void *arg);
void resolve_cancel(struct resolve *q); /* fn is not called any more; NULL is fine */

/* A numeric IPv4 or IPv6 address. */
bool resolve_numeric(const char *text, uint16_t port, struct resolve_addr *ret);
/* "127.0.0.1:5432", "[::1]:5432". */
void resolve_text(const struct resolve_addr *a, char *out, size_t size);

#endif
