/*
 * The wires of cofferdam-front and who gets what came in. Core says which listeners there are
 * and what is refused; upstream brings answers. A connection that is not there any more is no
 * error: clients leave when they like. When core is gone nobody judges: everything ends.
 */
#include "broker/front_http.h"
#include "broker/front_pg.h"

#include "common/hash.h"
#include "common/log.h"
#include "common/proc.h"
#include "common/xalloc.h"

#include "common/banned.h"

void
front_hub_core(struct front_hub *h, uint16_t type, const struct buf *body)
{
	if (h->core != NULL)
		ipc_send(h->core, type, body, NULL, 0);
}

void
front_hub_upstream(struct front_hub *h, uint16_t type, const struct buf *body)
{
	if (h->upstream != NULL)
		ipc_send(h->upstream, type, body, NULL, 0);
}

void
front_hub_queue(struct front_conn *c)
{
	if (c->queued)
		return;
	c->queued = true;
	TAILQ_INSERT_TAIL(&c->hub->dirty, c, queue);
}

/* --- messages -------------------------------------------------------------------- */

int
front_hub_malformed(struct err *err)
{
	return err_set(err, ERR_PROTOCOL, "malformed");
}

static int
on_listen(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct front_listener_spec s = {.id = rd_u32(b), .proto = rd_u8(b)};
	uint32_t port;

	s.run = rd_lstr(b);
	s.target = rd_lstr(b);
	s.host = rd_lstr(b);
	port = rd_u32(b);
	if (!rd_end(b) || port > UINT16_MAX)
		return front_hub_malformed(err);
	s.port = (uint16_t)port;
	return front_listen_add(h, &s, TAKE_FD(fds[0]), err);
}

static int
on_unlisten(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct str run = rd_lstr(b);

	(void)fds;
	if (!rd_end(b))
		return front_hub_malformed(err);
	front_listen_drop(h, &run, FRONT_RUN_ENDED);
	return 0;
}

static int
on_revoke(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct str run = rd_lstr(b), host;
	uint32_t id = rd_u32(b), port;

	(void)fds;
	host = rd_lstr(b);
	port = rd_u32(b);
	if (!rd_end(b) || port > UINT16_MAX)
		return front_hub_malformed(err);
	front_listen_revoke(h, run, id, host, (uint16_t)port);
	return 0;
}

static int
on_leaf(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint32_t id = rd_u32(b);
	struct str host = rd_lstr(b), pem = rd_lstr(b);

	(void)fds;
	if (!rd_end(b))
		return front_hub_malformed(err);
	return front_leaf_on(h, id, host, pem, err);
}

static const struct front_msg common_messages[] = {
    {MSG_F_LISTEN, on_listen},
    {MSG_F_UNLISTEN, on_unlisten},
    {MSG_F_REVOKE, on_revoke},
    {MSG_F_LEAF, on_leaf},
    {0, NULL},
};
static const struct front_msg *const tables[] = {
    common_messages, front_pg_messages, front_http_messages};

static int
on_message(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	(void)w;
	(void)nfds;
	/* The wire's own table has settled who may send what. */
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		for (const struct front_msg *m = tables[i]; m->type != 0; m++)
			if (m->type == type)
				return m->fn(arg, body, fds, err);
	return err_set(err, ERR_PROTOCOL, "not expected here");
}

/* --- wires ----------------------------------------------------------------------- */

static void
wire_lost(struct front_hub *h, bool core)
{
	if (core) {
		front_listen_drop(h, NULL, FRONT_CORE_LOST);
		return;
	}
	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&h->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (c->listener != NULL)
				c->proto->over(c, FRONT_UPSTREAM_LOST);
		}
	}
}

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	struct front_hub *h = arg;
	bool core = w == h->core;

	log_warn("the wire to %s is gone (%s)", core ? "core" : "upstream", why);
	if (core)
		h->core = NULL;
	else
		h->upstream = NULL;
	ipc_free(w);
	wire_lost(h, core);
	proc_wire_lost(core ? IPC_ROLE_CORE : IPC_ROLE_UPSTREAM);
}

int
front_hub_wire(struct front_hub *h, enum ipc_role peer, int fd, struct err *err)
{
	struct ipc **w = peer == IPC_ROLE_CORE	     ? &h->core
			 : peer == IPC_ROLE_UPSTREAM ? &h->upstream
						     : NULL;

	if (w == NULL) {
		(void)close(fd);
		return err_set(err, ERR_PROTOCOL, "front has no wire to %s", ipc_role_name(peer));
	}
	if (*w != NULL) {
		ipc_free(TAKE_PTR(*w));
		wire_lost(h, peer == IPC_ROLE_CORE);
	}
	*w = ipc_new(h->loop, fd, IPC_ROLE_FRONT, peer, on_message, on_gone, h);
	return 0;
}

/* --- before each sleep ----------------------------------------------------------- */

bool
front_hub_busy(struct front_conn *c, const struct ipc *wire)
{
	if (wire == NULL || ipc_queued(wire) <= FRONT_CORE_HIGH)
		return false;
	c->stalled = c->hub->stalled = true;
	return true;
}

static bool
behind(const struct ipc *wire)
{
	return wire != NULL && ipc_queued(wire) > FRONT_CORE_LOW;
}

/* What waited for a wire. */
static void
catch_up(struct front_hub *h)
{
	if (!h->stalled || behind(h->core) || behind(h->upstream))
		return;
	h->stalled = false;
	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&h->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (!c->stalled)
				continue;
			c->stalled = false;
			if (c->phase == FRONT_OPEN)
				front_conn_kick(c);
		}
	}
}

static void
before_sleep(void *arg)
{
	struct front_hub *h = arg;
	struct front_conn *c;

	catch_up(h);
	while ((c = TAILQ_FIRST(&h->dirty)) != NULL) {
		TAILQ_REMOVE(&h->dirty, c, queue);
		c->queued = false;
		front_conn_service(c);
	}
}

static const struct front_clocks clocks = {
    .startup = 60000,
    .linger = 3000,
    .stall = 120000,
    .head = 30000,
    .idle = 120000,
    .body = 60000,
};

struct front_hub *
front_hub_new(struct loop *loop)
{
	struct front_hub *h = xcalloc(1, sizeof(*h));
	uint32_t start;

	h->loop = loop;
	h->clocks = clocks;
	LIST_INIT(&h->listeners);
	TAILQ_INIT(&h->dirty);
	TAILQ_INIT(&h->leaves);
	for (size_t i = 0; i < FRONT_BUCKETS; i++)
		LIST_INIT(&h->conns[i]);
	/* A front that was restarted must not meet ids of the one before. */
	rand_bytes(&start, sizeof(start));
	h->last_id = (uint64_t)(start >> 1) << 32;
	loop_before_sleep(loop, before_sleep, h);
	return h;
}

void
front_hub_free(struct front_hub *h)
{
	if (h == NULL)
		return;
	front_listen_drop(h, NULL, FRONT_STOPPING);
	before_sleep(h); /* the last words go out as far as the sockets take them */
	for (size_t i = 0; i < FRONT_BUCKETS; i++)
		while (!LIST_EMPTY(&h->conns[i]))
			front_conn_end(LIST_FIRST(&h->conns[i]));
	before_sleep(h);
	ipc_free(h->core);
	ipc_free(h->upstream);
	free(h);
}
