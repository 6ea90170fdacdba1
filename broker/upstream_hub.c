/*
 * The wires of cofferdam-upstream and who gets what came in. Core is obeyed within its table;
 * front may only ask for pauses. When either is gone its connections have no owner any more:
 * all are closed, so that an open transaction ends at the server.
 */
#include "broker/upstream.h"

#include <assert.h>

#include "broker/upstream_act.h"
#include "broker/upstream_http.h"
#include "broker/upstream_cancel.h"
#include "broker/upstream_copy.h"
#include "common/log.h"
#include "common/proc.h"
#include "common/xalloc.h"

#include "common/banned.h"

static struct upstream_conns *
bucket(struct upstream_hub *h, uint64_t id)
{
	return &h->conns[(id ^ id >> 32) % UPSTREAM_BUCKETS];
}

struct upstream_conn *
upstream_hub_find(struct upstream_hub *h, uint64_t id)
{
	struct upstream_conn *c;

	LIST_FOREACH (c, bucket(h, id), link)
		if (c->id == id)
			return c;
	return NULL;
}

void
upstream_hub_core(struct upstream_hub *h, uint16_t type, const struct buf *body)
{
	if (h->core != NULL)
		ipc_send(h->core, type, body, NULL, 0);
}

void
upstream_hub_front(struct upstream_hub *h, uint16_t type, const struct buf *body)
{
	if (h->front != NULL)
		ipc_send(h->front, type, body, NULL, 0);
}

void
upstream_text(struct str s, char *out, size_t max)
{
	assert(max != 0);
	if (s.n == 0)
		s = STR("");
	if (!str_is_utf8(s) || memchr(s.p, 0, s.n) != NULL)
		s = STR("(a text that is not UTF-8)");
	if (s.n >= max) {
		s.n = max - 1;
		while (s.n > 0 && ((uint8_t)s.p[s.n] & 0xc0) == 0x80)
			s.n--;
	}
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
}

static void
end_all(struct upstream_hub *h, const char *sqlstate, const char *message)
{
	for (size_t i = 0; i < UPSTREAM_BUCKETS; i++)
		while (!LIST_EMPTY(&h->conns[i]))
			upstream_conn_end(LIST_FIRST(&h->conns[i]), sqlstate, message);
	while (!LIST_EMPTY(&h->cancels))
		upstream_conn_end(LIST_FIRST(&h->cancels), sqlstate, message);
	upstream_seal_flush(h, NULL);
	upstream_seal_free(TAKE_PTR(h->seal));
	if (h->http != NULL)
		upstream_http_end_all(h->http, message);
}

/* --- what core asks -------------------------------------------------------------- */

static int
open_read(struct rd *b, struct upstream_open *o, struct err *err)
{
	uint32_t n;

	o->id = rd_u64(b);
	o->run = rd_lstr(b);
	o->host = rd_lstr(b);
	o->address = rd_lstr(b);
	o->port = rd_u32(b);
	o->database = rd_lstr(b);
	o->user = rd_lstr(b);
	o->tls = rd_u8(b);
	o->ca = rd_lstr(b);
	o->secret = rd_lstr(b);
	n = rd_u32(b);
	if (n > PGWIRE_STARTUP_PARAMS)
		return err_set(err, ERR_PROTOCOL, "%u start-up parameters, limit %d", n,
		    PGWIRE_STARTUP_PARAMS);
	for (o->nparams = 0; o->nparams < n && !b->bad; o->nparams++) {
		o->params[o->nparams].key = rd_lstr(b);
		o->params[o->nparams].value = rd_lstr(b);
	}
	if (!rd_end(b))
		return err_set(err, ERR_PROTOCOL, "malformed");
	return 0;
}

static void
open_failed(struct upstream_hub *h, uint64_t id, const struct err *err)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_u64(&b, id);
	buf_u8(&b, 0);
	buf_lz(&b, err_sqlstate(err->code));
	buf_lz(&b, err->msg);
	buf_lz(&b, "");
	buf_lz(&b, "");
	buf_u32(&b, 0);
	upstream_hub_core(h, MSG_U_OPENED, &b);
}

static int
on_open(struct upstream_hub *h, struct rd *b, struct err *err)
{
	struct upstream_open o = {0};
	struct err why = {0};
	int rc = open_read(b, &o, err);

	if (rc == 0 && upstream_hub_find(h, o.id) != NULL)
		rc = err_set(err, ERR_PROTOCOL, "connection %#llx is open already",
		    (unsigned long long)o.id);
	if (rc == 0 && upstream_conn_open(h, &o, &why) != 0)
		open_failed(h, o.id, &why);
	/* The wire's buffer must not keep the password. */
	if (o.secret.n != 0)
		explicit_bzero((void *)(uintptr_t)o.secret.p, o.secret.n);
	return rc;
}

static int
on_send(struct upstream_hub *h, struct rd *b, struct err *err)
{
	struct upstream_send s = {0};

	s.id = rd_u64(b);
	s.act = rd_u64(b);
	s.kind = rd_u8(b);
	s.messages = rd_lstr(b);
	s.wrap = rd_u8(b);
	s.max_rows = rd_u64(b);
	s.hold_all = rd_u8(b);
	s.token = rd_lstr(b);
	s.refusal.sqlstate = rd_lstr(b);
	s.refusal.message = rd_lstr(b);
	s.refusal.detail = rd_lstr(b);
	s.refusal.hint = rd_lstr(b);
	s.copy_in = rd_u8(b);
	if (!rd_end(b))
		return err_set(err, ERR_PROTOCOL, "malformed");
	upstream_act_send(h, &s);
	return 0;
}

static int
on_close(struct upstream_hub *h, struct rd *b, struct err *err)
{
	uint64_t id = rd_u64(b);
	uint8_t cancel = rd_u8(b);
	struct upstream_conn *c;

	if (!rd_end(b) || cancel > 1)
		return err_set(err, ERR_PROTOCOL, "malformed");
	c = upstream_hub_find(h, id);
	if (c == NULL)
		return 0;
	if (cancel == 1)
		upstream_cancel_last(c);
	upstream_conn_end(c, NULL, "closed by the broker");
	return 0;
}

static int
on_pause(struct upstream_hub *h, struct rd *b, struct err *err)
{
	uint64_t id = rd_u64(b);
	uint8_t on = rd_u8(b);
	struct upstream_conn *c;

	if (!rd_end(b) || on > 1)
		return err_set(err, ERR_PROTOCOL, "malformed");
	c = upstream_hub_find(h, id);
	if (c != NULL)
		upstream_conn_pause(c, on == 1);
	return 0;
}

static int
on_cancel(struct upstream_hub *h, struct rd *b, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);

	if (!rd_end(b))
		return err_set(err, ERR_PROTOCOL, "malformed");
	upstream_cancel_on(h, id, act);
	return 0;
}

static int
on_copy(struct upstream_hub *h, struct rd *b, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	uint8_t how = rd_u8(b);
	struct str bytes = rd_lstr(b);
	struct upstream_conn *c;

	if (!rd_end(b))
		return err_set(err, ERR_PROTOCOL, "malformed");
	c = upstream_hub_find(h, id);
	if (c != NULL)
		upstream_copy_on(c, act, how, bytes);
	return 0;
}

static int
on_preview(struct upstream_hub *h, struct rd *body, struct err *err)
{
	struct upstream_send s = {.kind = ACT_SYNC, .preview = true};

	s.id = rd_u64(body);
	s.act = rd_u64(body);
	s.messages = rd_lstr(body);
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "malformed U_PREVIEW");
	upstream_act_send(h, &s);
	return 0;
}

static const struct {
	uint16_t type;
	int (*fn)(struct upstream_hub *h, struct rd *body, struct err *err);
} messages[] = {
    {MSG_U_OPEN, on_open},
    {MSG_U_SEAL, upstream_seal_on},
    {MSG_U_SEND, on_send},
    {MSG_U_PREVIEW, on_preview},
    {MSG_U_CLOSE, on_close},
    {MSG_U_CANCEL, on_cancel},
    {MSG_FU_PAUSE, on_pause},
    {MSG_FU_COPY, on_copy},
};

static int
on_message(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	const struct upstream_hub *h = arg;
	bool taken = false;
	int rc = h->http == NULL ? 0 : upstream_http_message(h->http, type, body, fds, &taken, err);

	(void)w;
	(void)nfds;
	if (taken)
		return rc;
	/* The wire's own table has settled who may send what. */
	for (size_t i = 0; i < ARRAY_LEN(messages); i++)
		if (messages[i].type == type)
			return messages[i].fn(arg, body, err);
	return err_set(err, ERR_PROTOCOL, "not expected here");
}

/* --- wires ----------------------------------------------------------------------- */

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	struct upstream_hub *h = arg;
	bool core = w == h->core;

	log_warn("the wire to %s is gone (%s): closing %zu connections", core ? "core" : "front",
	    why, h->nconns);
	if (core)
		h->core = NULL;
	else
		h->front = NULL;
	ipc_free(w);
	end_all(h, "08006", "the broker restarts");
	proc_wire_lost(core ? IPC_ROLE_CORE : IPC_ROLE_FRONT);
}

int
upstream_hub_wire(struct upstream_hub *h, enum ipc_role peer, int fd, struct err *err)
{
	struct ipc **w = peer == IPC_ROLE_CORE	  ? &h->core
			 : peer == IPC_ROLE_FRONT ? &h->front
						  : NULL;

	if (w == NULL) {
		(void)close(fd);
		return err_set(
		    err, ERR_PROTOCOL, "upstream has no wire to %s", ipc_role_name(peer));
	}
	if (*w != NULL) {
		ipc_free(TAKE_PTR(*w));
		end_all(h, "08006", "the broker restarts");
	}
	*w = ipc_new(h->loop, fd, IPC_ROLE_UPSTREAM, peer, on_message, on_gone, h);
	return 0;
}

/* Servers that were not read because front was behind: go on when it has caught up. */
static void
unthrottle(struct upstream_hub *h)
{
	struct upstream_conn *c;

	if (!h->throttled || (h->front != NULL && ipc_queued(h->front) > UPSTREAM_QUEUE_LOW))
		return;
	h->throttled = false;
	for (size_t i = 0; i < UPSTREAM_BUCKETS; i++)
		LIST_FOREACH (c, &h->conns[i], link)
			if (c->throttled)
				upstream_conn_resume(c);
}

static void
before_sleep(void *arg)
{
	struct upstream_hub *h = arg;

	unthrottle(h);
	upstream_seal_settle(h);
	upstream_conn_bury(h);
	if (h->http != NULL)
		upstream_http_before_sleep(h->http);
}

struct upstream_hub *
upstream_hub_new(struct loop *loop, struct resolver *resolver)
{
	struct upstream_hub *h = xcalloc(1, sizeof(*h));

	h->loop = loop;
	h->resolver = resolver;
	LIST_INIT(&h->cancels);
	LIST_INIT(&h->dead);
	for (size_t i = 0; i < UPSTREAM_BUCKETS; i++)
		LIST_INIT(&h->conns[i]);
	loop_before_sleep(loop, before_sleep, h);
	return h;
}

void
upstream_hub_free(struct upstream_hub *h)
{
	if (h == NULL)
		return;
	end_all(h, NULL, "stopped");
	upstream_conn_bury(h);
	ipc_free(h->core);
	ipc_free(h->front);
	free(h);
}
