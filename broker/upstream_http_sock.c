/*
 * The sockets of connections that libcurl keeps. Runs in upstream. libcurl 7.88 looks whether a
 * kept connection has ended, not whether something came on it unasked; nor does it tell which
 * socket it is about to use: its ports do.
 */
#include "broker/upstream_http_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/ossl.h"
#include <openssl/ssl.h>
#include "common/xalloc.h"

#include "common/banned.h"

#define SOCK_ENDED UINT64_MAX

void
sock_note(const struct exchange *x, int fd, uint16_t local, uint16_t peer)
{
	struct upstream_http *h = x->h;

	h->socks = xreallocarray(h->socks, h->nsocks + 1, sizeof(*h->socks));
	h->socks[h->nsocks++] = (struct upstream_http_sock){.fd = fd,
	    .local = local,
	    .peer = peer,
	    .run = str_dup(str_z(x->run)),
	    .host = str_dup(str_z(x->host)),
	    .port = x->port,
	    .user = x};
}

/* Both ends learn of it; libcurl closes the descriptor when it next looks. */
static void
kept_sweep(void *arg)
{
	struct upstream_http *h = arg;
	uint64_t now = loop_now_ms(h->hub->loop);
	bool more = false;

	h->kept = NULL;
	for (size_t i = 0; i < h->nsocks; i++) {
		struct upstream_http_sock *k = &h->socks[i];

		if (k->user != NULL || k->since == SOCK_ENDED)
			continue;
		if (now - k->since >= h->times.keep) {
			(void)shutdown(k->fd, SHUT_RDWR);
			k->since = SOCK_ENDED;
		} else {
			more = true;
		}
	}
	if (more)
		h->kept = loop_timer_add(h->hub->loop, h->times.keep / 4 + 1, kept_sweep, h);
}

void
sock_release(const struct exchange *x)
{
	struct upstream_http *h = x->h;

	for (size_t i = 0; i < h->nsocks; i++) {
		if (h->socks[i].user != x)
			continue;
		h->socks[i].user = NULL;
		h->socks[i].since = loop_now_ms(h->hub->loop);
		if (h->kept == NULL)
			h->kept =
			    loop_timer_add(h->hub->loop, h->times.keep / 4 + 1, kept_sweep, h);
	}
}

int
sock_close(void *arg, curl_socket_t fd)
{
	struct upstream_http *h = arg;

	for (size_t i = 0; i < h->nsocks; i++)
		if (h->socks[i].fd == fd) {
			free(h->socks[i].run);
			free(h->socks[i].host);
			h->socks[i] = h->socks[--h->nsocks];
			break;
		}
	return close(fd);
}

static bool
is_at(const char *own, struct str host)
{
	struct str rest = str_z(own), label;

	if (!str_has_prefix(host, "*."))
		return str_eqz(host, own);
	return str_cut(&rest, '.', &label) && label.n != 0 &&
	       str_eq(rest, str_mem(host.p + 2, host.n - 2));
}

void
sock_forget(struct upstream_http *h, struct str run, struct str host, uint16_t port)
{
	for (size_t i = 0; i < h->nsocks; i++) {
		struct upstream_http_sock *k = &h->socks[i];

		if (k->since == SOCK_ENDED || k->port != port || !str_eqz(run, k->run) ||
		    !is_at(k->host, host))
			continue;
		(void)shutdown(k->fd, SHUT_RDWR);
		k->since = SOCK_ENDED;
	}
}

static bool
is_silent(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

bool
sock_is_clean(const struct exchange *x, uint16_t local, uint16_t peer)
{
	struct curl_tlssessioninfo *tls = NULL;
	bool found = false;

	if (x->tls &&
	    (curl_easy_getinfo(x->easy, CURLINFO_TLS_SSL_PTR, &tls) != CURLE_OK || tls == NULL ||
		tls->internals == NULL || SSL_has_pending(tls->internals) == 1))
		return false;
	for (size_t i = 0; i < x->h->nsocks; i++) {
		struct upstream_http_sock *k = &x->h->socks[i];

		if (k->local != local || k->peer != peer)
			continue;
		found = true;
		if (k->since == SOCK_ENDED || !is_silent(k->fd))
			return false;
		k->user = x;
	}
	return found;
}
