/*
 * libcurl's multi interface on our loop: its sockets, its one timer, what has ended. Runs in
 * upstream and in the courier. It must never call a transfer's owner from within libcurl.
 */
#include "broker/upstream_multi.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct sock {
	struct multi *m;
	curl_socket_t fd;
	struct loop_io *io; /* NULL: libcurl wants nothing of it now */
};

/* Tells of transfers that have ended. */
static void
ended_tell(struct multi *m)
{
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(m->curl, &left)) != NULL) {
		CURLcode result = msg->data.result;
		char *private = NULL;

		if (msg->msg == CURLMSG_DONE &&
		    curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private) == CURLE_OK)
			m->done(private, result); /* msg is gone after it */
	}
}

static void
act(struct multi *m, curl_socket_t fd, int events)
{
	int running;

	if (curl_multi_socket_action(m->curl, fd, events, &running) != CURLM_OK)
		log_error("libcurl: socket %d is unknown to it", (int)fd);
	ended_tell(m);
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
	act(s->m, s->fd, e);
}

static int
want_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *arg, void *assigned)
{
	struct multi *m = arg;
	struct sock *s = assigned;
	uint32_t ev = 0;

	if (what == CURL_POLL_REMOVE) {
		if (s != NULL)
			loop_io_del(s->io);
		free(s);
		return 0;
	}
	if (s == NULL) {
		s = xcalloc(1, sizeof(*s));
		s->m = m;
		s->fd = fd;
		(void)curl_multi_assign(m->curl, fd, s);
	}
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		ev |= EPOLLIN;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		ev |= EPOLLOUT;
	/* Epoll tells a hang-up even to who asks for nothing: then not to be there at all. */
	if (ev == 0)
		loop_io_del(TAKE_PTR(s->io));
	else if (s->io == NULL)
		s->io = loop_io_add(m->loop, fd, ev, on_socket, s);
	else
		loop_io_events(s->io, ev);
	return 0;
}

static void
on_timer(void *arg)
{
	struct multi *m = arg;

	m->timer = NULL;
	act(m, CURL_SOCKET_TIMEOUT, 0);
}

static int
want_timer(CURLM *curl UNUSED, long ms, void *arg)
{
	struct multi *m = arg;

	loop_timer_del(TAKE_PTR(m->timer));
	if (ms >= 0)
		m->timer = loop_timer_add(m->loop, (uint64_t)ms, on_timer, m);
	return 0;
}

int
multi_init(struct multi *m, struct loop *loop, multi_done_fn *done, long idle, struct err *err)
{
	*m = (struct multi){.curl = curl_multi_init(), .loop = loop, .done = done};
	if (m->curl != NULL &&
	    curl_multi_setopt(m->curl, CURLMOPT_SOCKETFUNCTION, want_socket) == CURLM_OK &&
	    curl_multi_setopt(m->curl, CURLMOPT_SOCKETDATA, m) == CURLM_OK &&
	    curl_multi_setopt(m->curl, CURLMOPT_TIMERFUNCTION, want_timer) == CURLM_OK &&
	    curl_multi_setopt(m->curl, CURLMOPT_TIMERDATA, m) == CURLM_OK &&
	    curl_multi_setopt(m->curl, CURLMOPT_PIPELINING, CURLPIPE_NOTHING) == CURLM_OK &&
	    curl_multi_setopt(m->curl, CURLMOPT_MAXCONNECTS, idle) == CURLM_OK)
		return 0;
	return err_set(err, ERR_SYSTEM, "libcurl cannot be set up");
}

void
multi_free(struct multi *m)
{
	(void)curl_multi_cleanup(m->curl);
	loop_timer_del(m->timer);
	*m = (struct multi){0};
}
