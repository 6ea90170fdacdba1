/*
 * The console's wire to core (process: console). An answer for a connection that is not there any
 * more is no error: people leave when they like. When core is gone there is nobody to ask: what
 * waits is told so, and sessions are over with it.
 */
#include "broker/console.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/acceptor.h"
#include "common/log.h"
#include "common/proc.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TELL_MS 300 /* changes that come together are told together */

struct console *
console_new(struct loop *loop)
{
	struct console *k = xcalloc(1, sizeof(*k));

	k->loop = loop;
	k->listen_fd = -1;
	k->origin = xstrdup("");
	k->clear = true;
	buf_init(&k->key, 65536);
	TAILQ_INIT(&k->conns);
	return k;
}

void
console_free(struct console *k)
{
	if (k == NULL)
		return;
	console_conn_free_all(k);
	loop_timer_del(k->tell);
	acceptor_free(k->acceptor);
	if (k->listen_fd >= 0)
		(void)close(k->listen_fd);
	ipc_free(k->core);
	console_tls_free(k->tls);
	buf_free(&k->key);
	free(k->origin);
	free(k);
}

/* --- questions --------------------------------------------------------------------- */

void
console_ask(struct console_conn *c, const char *verb, struct str args)
{
	struct console *k = c->k;
	AUTO_BUF struct buf b = BUF((size_t)1 << 18);

	if (k->core == NULL) {
		console_route_told(c, ERR_UNAVAILABLE, STR("core is not there now, try again"));
		return;
	}
	c->call = ++k->last_call;
	buf_u64(&b, c->call);
	buf_lz(&b, c->rq.token);
	buf_lz(&b, verb);
	buf_lstr(&b, args);
	ipc_send(k->core, MSG_V_CALL, &b, NULL, 0);
}

static int
on_reply(struct console *k, struct rd *body, struct err *err)
{
	uint64_t id = rd_u64(body);
	uint32_t code = rd_u32(body);
	struct str result = rd_lstr(body);
	struct console_conn *c;

	if (!rd_end(body) || code > 1000)
		return err_set(err, ERR_PROTOCOL, "malformed");
	TAILQ_FOREACH (c, &k->conns, link)
		if (c->call == id && id != 0)
			break;
	if (c == NULL)
		return 0;
	c->call = 0;
	console_route_told(c, -(int)code, result);
	return 0;
}

static void
on_tell(void *arg)
{
	struct console *k = arg;

	k->tell = NULL;
	console_conn_tell_all(k);
}

static int
on_message(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	struct console *k = arg;

	(void)w;
	(void)fds;
	(void)nfds;
	if (type == MSG_V_REPLY)
		return on_reply(k, body, err);
	if (type != MSG_V_CHANGED || !rd_end(body))
		return err_set(err, ERR_PROTOCOL, "not expected here");
	if (k->tell == NULL)
		k->tell = loop_timer_add(k->loop, TELL_MS, on_tell, k);
	return 0;
}

/* --- the wire ---------------------------------------------------------------------- */

static void
core_lost(struct console *k)
{
	struct console_conn *c;

	do {
		TAILQ_FOREACH (c, &k->conns, link)
			if (c->call != 0)
				break;
		if (c != NULL) {
			c->call = 0;
			console_route_told(
			    c, ERR_UNAVAILABLE, STR("core went away, try again in a moment"));
		}
	} while (c != NULL);
	console_conn_streams_end(k);
}

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	struct console *k = arg;

	log_warn("the wire to core is gone (%s)", why);
	k->core = NULL;
	ipc_free(w);
	core_lost(k);
	proc_wire_lost(IPC_ROLE_CORE);
}

int
console_wire(struct console *k, enum ipc_role peer, int fd, struct err *err)
{
	if (peer != IPC_ROLE_CORE) {
		(void)close(fd);
		return err_set(err, ERR_PROTOCOL, "console has no wire to %s", ipc_role_name(peer));
	}
	if (k->core != NULL) {
		ipc_free(TAKE_PTR(k->core));
		core_lost(k);
	}
	k->core = ipc_new(k->loop, fd, IPC_ROLE_CONSOLE, peer, on_message, on_gone, k);
	return 0;
}
