/*
 * libcurl's multi interface on our loop. Runs in upstream. All of libcurl's memory is wiped when it
 * is freed: copies of a request's head, with the credential in it, are in there.
 */
#include <stdlib.h>

#include "broker/upstream_http_int.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct sock {
	struct upstream_http *h;
	curl_socket_t fd;
	struct loop_io *io; /* NULL: libcurl wants nothing of it now */
};

/* --- memory ---------------------------------------------------------------------- */

/* In front of each block. */
union head {
	size_t n;
	max_align_t align;
};

static void *
wiping_malloc(size_t n)
{
	union head *p = n <= SIZE_MAX - sizeof(*p) ? malloc(sizeof(*p) + n) : NULL;

	if (p == NULL)
		return NULL;
	p->n = n;
	return p + 1;
}

static void
wiping_free(void *ptr)
{
	union head *p = ptr;

	if (p == NULL)
		return;
	p--;
	explicit_bzero(p + 1, p->n);
	free(p);
}

static void *
wiping_realloc(void *ptr, size_t n)
{
	void *to = wiping_malloc(n);
	size_t had = ptr != NULL ? ((union head *)ptr - 1)->n : 0;

	if (to == NULL)
		return NULL;
	if (had != 0)
		memcpy(to, ptr, had < n ? had : n);
	wiping_free(ptr);
	return to;
}

static void *
wiping_calloc(size_t count, size_t size)
{
	size_t n;
	void *p = __builtin_mul_overflow(count, size, &n) ? NULL : wiping_malloc(n);

	if (p != NULL)
		memset(p, 0, n);
	return p;
}

static char *
wiping_strdup(const char *z)
{
	size_t n = strlen(z) + 1;
	char *p = wiping_malloc(n);

	if (p != NULL)
		memcpy(p, z, n);
	return p;
}

/* --- sockets and time ------------------------------------------------------------ */

void
multi_drain(struct upstream_http *h)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
		CURLcode result = m->data.result;
		char *x = NULL;

		if (m->msg == CURLMSG_DONE &&
		    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x) == CURLE_OK)
			transfer_done((void *)x, result); /* m is gone after it */
	}
}

static void
act(struct upstream_http *h, curl_socket_t fd, int events)
{
	int running;

	if (curl_multi_socket_action(h->multi, fd, events, &running) != CURLM_OK)
		log_error("libcurl: socket %d is unknown to it", (int)fd);
	multi_drain(h);
}

static void
on_socket(void *arg, uint32_t events)
{
	const struct sock *s = arg;
	int e = 0;

	if ((events & (EPOLLIN | EPOLLHUP)) != 0)
		e |= CURL_CSELECT_IN;
	if ((events & EPOLLOUT) != 0)
		e |= CURL_CSELECT_OUT;
	if ((events & EPOLLERR) != 0)
		e |= CURL_CSELECT_ERR;
	act(s->h, s->fd, e);
}

static int
want_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *assigned)
{
	struct upstream_http *h = arg;
	struct sock *s = assigned;
	uint32_t ev = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (s != NULL)
			loop_io_del(s->io);
		free(s);
		return 0;
	}
	if (s == NULL) {
		s = xcalloc(1, sizeof(*s));
		s->h = h;
		s->fd = fd;
		(void)curl_multi_assign(h->multi, fd, s);
	}
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		ev |= EPOLLIN;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		ev |= EPOLLOUT;
	/* Epoll tells a hang-up even to who asks for nothing: then not to be there at all. */
	if (ev == 0)
		loop_io_del(TAKE_PTR(s->io));
	else if (s->io == NULL)
		s->io = loop_io_add(h->hub->loop, fd, ev, on_socket, s);
	else
		loop_io_events(s->io, ev);
	return 0;
}

static void
on_timer(void *arg)
{
	struct upstream_http *h = arg;

	h->timer = NULL;
	act(h, CURL_SOCKET_TIMEOUT, 0);
}

static int
want_timer(CURLM *multi, long ms, void *arg)
{
	struct upstream_http *h = arg;

	(void)multi;
	loop_timer_del(TAKE_PTR(h->timer));
	if (ms >= 0)
		h->timer = loop_timer_add(h->hub->loop, (uint64_t)ms, on_timer, h);
	return 0;
}

/* --- life ------------------------------------------------------------------------ */

int
multi_new(struct upstream_http *h, struct err *err)
{
	bool ok;

	if (curl_global_init_mem(CURL_GLOBAL_ALL, wiping_malloc, wiping_free, wiping_realloc,
		wiping_strdup, wiping_calloc) != CURLE_OK)
		return err_set(err, ERR_SYSTEM, "libcurl cannot start");
	h->multi = curl_multi_init();
	ok =
	    h->multi != NULL &&
	    curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, want_socket) == CURLM_OK &&
	    curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h) == CURLM_OK &&
	    curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, want_timer) == CURLM_OK &&
	    curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h) == CURLM_OK &&
	    curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING) == CURLM_OK &&
	    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, UPSTREAM_HTTP_IDLE_CONNS) == CURLM_OK;
	return ok ? 0 : err_set(err, ERR_SYSTEM, "libcurl cannot be set up");
}

void
multi_free(struct upstream_http *h)
{
	(void)curl_multi_cleanup(h->multi);
	loop_timer_del(h->timer);
	curl_global_cleanup();
}
