/*
 * The console's listening socket (process: console). Where there is no room, who waits longest
 * without a request goes, so that nobody can keep the others out by doing nothing.
 */
#include "broker/console.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/banned.h"

#define ACCEPTS_A_TURN 16
#define REST_MS 1000

/* The first in the list is the one that is here longest. */
static bool
make_room(struct console *k)
{
	struct console_conn *c;

	if (k->nconns < CONSOLE_CONNS_MAX)
		return true;
	TAILQ_FOREACH (c, &k->conns, link)
		if (c->phase == CONSOLE_HANDSHAKE || (c->phase == CONSOLE_READS && c->out.n == 0) ||
		    c->phase == CONSOLE_CLOSES)
			break;
	if (c == NULL)
		return false;
	console_conn_end(c);
	return true;
}

static void
rested(void *arg)
{
	struct console *k = arg;

	k->rest = NULL;
	loop_io_events(k->listen_io, EPOLLIN);
}

static void
on_accept(void *arg, uint32_t events)
{
	struct console *k = arg;

	(void)events;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		AUTO_FD int fd = accept4(k->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
			loop_io_events(k->listen_io, 0);
			k->rest = loop_timer_add(k->loop, REST_MS, rested, k);
		}
		if (fd < 0)
			return;
		if (make_room(k))
			console_conn_new(k, TAKE_FD(fd));
	}
}

int
console_accept_listen(struct console *k, struct err *err)
{
	if (k->listen_fd < 0)
		return err_set(err, ERR_CONFIG, "there is no socket to listen on");
	k->listen_io = loop_io_add(k->loop, k->listen_fd, EPOLLIN, on_accept, k);
	return 0;
}
