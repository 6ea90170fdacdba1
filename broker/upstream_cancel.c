/*
 * CancelRequest to a server. Runs in upstream, when core asks. A cancel names a session, not a
 * statement, and the server acts on it when it comes to it: so the session's next exchange is held
 * back until the server has closed the cancel's connection, which it does behind the signal.
 */
#include "broker/upstream_cancel.h"

#include "broker/upstream_act.h"

#include "common/banned.h"

/* U_CANCELLED's how. */
enum { NOT_SENT = 0, TAKEN = 1, NOT_KNOWN = 2 };

static void
tell(struct upstream_hub *h, uint64_t id, uint64_t act, uint8_t how, const char *message)
{
	AUTO_BUF struct buf b = BUF(2048);
	char text[1000];

	upstream_text(str_z(message), text, sizeof(text));
	buf_u64(&b, id);
	buf_u64(&b, act);
	buf_u8(&b, how);
	buf_lz(&b, text);
	upstream_hub_core(h, MSG_U_CANCELLED, &b);
}

static void
on_timeout(void *arg)
{
	struct upstream_conn *c = arg;

	c->timer = NULL;
	upstream_conn_end(c, "57014", "the server did not close the cancel's connection in time");
}

/* Where the session itself is connected to, whatever the name resolves to by now. */
static void
connect_again(struct upstream_conn *of, uint64_t act)
{
	struct upstream_hub *h = of->hub;
	struct upstream_open o = {.id = of->id,
	    .run = str_z(of->run),
	    .host = str_z(of->host),
	    .ca = str_z(of->ca),
	    .port = of->port,
	    .tls = of->tls ? 1 : 0};
	struct upstream_conn *c = upstream_conn_new(h, &o);
	struct err err = {0};

	c->cancels = true;
	c->of = of;
	c->of_act = act;
	of->cancel = c;
	pgwire_put_cancel(&c->startup, str_mem(of->key, sizeof(of->key)));
	c->addrs[0] = of->addrs[of->addr - 1];
	c->naddrs = 1;
	LIST_INSERT_HEAD(&h->cancels, c, link);
	h->nconns++;
	c->timer = loop_timer_add(h->loop, UPSTREAM_CANCEL_MS, on_timeout, c);
	upstream_conn_next(c, &err);
	if (err.code != 0)
		upstream_conn_end(c, err_sqlstate(err.code), err.msg);
}

void
upstream_cancel_on(struct upstream_hub *h, uint64_t id, uint64_t act)
{
	struct upstream_conn *c = upstream_hub_find(h, id);
	const char *why = NULL;

	if (c == NULL || c->act == NULL || c->act->id != act || c->act->waits)
		why = "the statement has ended";
	else if (!c->has_key)
		why = "the server gave no key to cancel with";
	else if (c->cancel != NULL)
		why = "another cancel is under way";
	else if (h->nconns >= UPSTREAM_CONNS_MAX)
		why = "too many connections are open";
	if (why != NULL)
		tell(h, id, act, NOT_SENT, why);
	else
		connect_again(c, act);
}

void
upstream_cancel_last(struct upstream_conn *c)
{
	if (c->act == NULL || c->act->waits || !c->has_key || c->hub->nconns >= UPSTREAM_CONNS_MAX)
		return;
	if (c->cancel == NULL)
		connect_again(c, c->act->id);
	if (c->cancel == NULL)
		return;
	c->cancel->of = NULL;
	c->cancel = NULL;
}

int
upstream_cancel_read(struct upstream_conn *c, struct err *err)
{
	char waste[256];

	for (;;) {
		ssize_t n = tlsio_read(&c->io, waste, sizeof(waste), err);

		if (n == TLSIO_AGAIN)
			return 0;
		if (n < 0)
			return err->code;
		if (n == 0) {
			upstream_conn_end(c, NULL, "");
			return 0;
		}
	}
}

void
upstream_cancel_forget(struct upstream_conn *c)
{
	struct upstream_conn *cancel = c->cancel;

	if (cancel == NULL)
		return;
	c->cancel = NULL;
	cancel->of = NULL;
	upstream_conn_end(cancel, "08006", "the session has ended");
}

void
upstream_cancel_over(struct upstream_conn *c, const char *message)
{
	struct upstream_conn *of = c->of;
	bool said = c->said && c->out.n == c->out_at;

	if (!c->cancels)
		return;
	c->of = NULL;
	tell(c->hub, c->id, c->of_act,
	    !said		 ? NOT_SENT
	    : message[0] == '\0' ? TAKEN
				 : NOT_KNOWN,
	    message);
	if (of == NULL)
		return;
	of->cancel = NULL;
	if (of->act != NULL && of->act->waits)
		upstream_act_begin(of);
}
