/*
 * The console's listening socket (process: console). Where there is no room, who waits longest
 * without a request goes, so that nobody can keep the others out by doing nothing.
 */
#include "broker/console.h"

#include "common/acceptor.h"

#include "common/banned.h"

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
on_accept(void *arg, int accepted)
{
	struct console *k = arg;
	AUTO_FD int fd = accepted;

	if (make_room(k))
		console_conn_new(k, TAKE_FD(fd));
}

int
console_accept_listen(struct console *k, struct err *err)
{
	if (k->listen_fd < 0)
		return err_set(err, ERR_CONFIG, "there is no socket to listen on");
	k->acceptor = acceptor_new(k->loop, k->listen_fd, "console", on_accept, k);
	return 0;
}
