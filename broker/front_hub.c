/*
 * The wires of cofferdam-front and who gets what came in. Core says which sessions stand and
 * what is refused; upstream brings answers. A connection that is not there any more is no error:
 * clients leave when they like. When core is gone nobody judges: everything ends.
 */
#include "broker/front.h"

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

static int
malformed(struct err *err)
{
	return err_set(err, ERR_PROTOCOL, "malformed");
}

static int
on_listen(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint32_t id = rd_u32(b);
	uint8_t proto = rd_u8(b);
	struct str run = rd_lstr(b), target = rd_lstr(b), host = rd_lstr(b);

	if (!rd_end(b))
		return malformed(err);
	if (proto != 1)
		return err_set(
		    err, ERR_UNSUPPORTED, "protocol %u, only 1 (postgresql) is known", proto);
	return front_listen_add(h, id, run, target, host, TAKE_FD(fds[0]), err);
}

static int
on_unlisten(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct str run = rd_lstr(b);

	(void)fds;
	if (!rd_end(b))
		return malformed(err);
	front_listen_drop(h, &run, "57P01", "the run has ended");
	return 0;
}

static int
on_leaf(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint32_t id = rd_u32(b);
	struct str pem = rd_lstr(b);

	(void)fds;
	if (!rd_end(b))
		return malformed(err);
	return front_listen_on_leaf(h, id, pem, err);
}

static int
on_opened(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct pgwire_param p[2 * PGWIRE_STARTUP_PARAMS];
	uint64_t id = rd_u64(b);
	uint32_t n = rd_u32(b);
	struct front_conn *c;

	(void)fds;
	if (n > ARRAY_LEN(p))
		return err_set(err, ERR_PROTOCOL, "%u parameters, limit %zu", n, ARRAY_LEN(p));
	for (uint32_t i = 0; i < n; i++) {
		p[i].key = rd_lstr(b);
		p[i].value = rd_lstr(b);
	}
	if (!rd_end(b))
		return malformed(err);
	c = front_conn_find(h, id);
	if (c != NULL)
		front_pg_opened(c, p, n);
	return 0;
}

static int
on_refused(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct front_refusal r = {0};
	uint64_t id = rd_u64(b);
	struct front_conn *c;

	(void)fds;
	r.act = rd_u64(b);
	r.how = rd_u8(b);
	r.e.sqlstate = rd_lstr(b);
	r.e.message = rd_lstr(b);
	r.e.detail = rd_lstr(b);
	r.e.hint = rd_lstr(b);
	if (!rd_end(b) || r.how > 1)
		return malformed(err);
	c = front_conn_find(h, id);
	if (c != NULL)
		front_pg_refused(c, &r);
	return 0;
}

static int
on_done(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b), bytes = rd_u64(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b))
		return malformed(err);
	c = front_conn_find(h, id);
	if (c != NULL)
		front_pg_done(c, act, bytes);
	return 0;
}

static int
on_conn_gone(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b);
	struct str sqlstate = rd_lstr(b), message = rd_lstr(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b))
		return malformed(err);
	c = front_conn_find(h, id);
	if (c != NULL) {
		AUTO_FREE char *state = str_dup(sqlstate), *text = str_dup(message);

		c->core_knows = false;
		front_conn_fatal(c, state, text);
	}
	return 0;
}

static int
on_data(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	uint8_t hold = rd_u8(b);
	struct str bytes = rd_lstr(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b) || hold > 1)
		return malformed(err);
	c = front_conn_find(h, id);
	if (c != NULL)
		front_pg_data(c, act, hold == 1, bytes);
	return 0;
}

static const struct {
	uint16_t type;
	int (*fn)(struct front_hub *h, struct rd *body, int *fds, struct err *err);
} messages[] = {
    {MSG_F_LISTEN, on_listen},
    {MSG_F_UNLISTEN, on_unlisten},
    {MSG_F_LEAF, on_leaf},
    {MSG_PG_OPENED, on_opened},
    {MSG_PG_REFUSED, on_refused},
    {MSG_PG_DONE, on_done},
    {MSG_PG_GONE, on_conn_gone},
    {MSG_UF_DATA, on_data},
};

static int
on_message(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	(void)w;
	(void)nfds;
	/* The wire's own table has settled who may send what. */
	for (size_t i = 0; i < ARRAY_LEN(messages); i++)
		if (messages[i].type == type)
			return messages[i].fn(arg, body, fds, err);
	return err_set(err, ERR_PROTOCOL, "not expected here");
}

/* --- wires ----------------------------------------------------------------------- */

/* Sessions live on both sides of upstream: without it those that have one are over. */
static void
end_sessions(struct front_hub *h)
{
	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&h->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (c->state >= FRONT_OPENING && c->state <= FRONT_ACT)
				front_conn_fatal(
				    c, "08006", "the connection to the server was lost");
		}
	}
}

static void
wire_lost(struct front_hub *h, bool core)
{
	if (core)
		front_listen_drop(h, NULL, "57P01", "the broker restarts");
	else
		end_sessions(h);
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

/* Units that waited for the wire to core. */
static void
catch_up(struct front_hub *h)
{
	if (!h->stalled || (h->core != NULL && ipc_queued(h->core) > FRONT_CORE_LOW))
		return;
	h->stalled = false;
	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&h->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (c->state == FRONT_READY)
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

struct front_hub *
front_hub_new(struct loop *loop)
{
	struct front_hub *h = xcalloc(1, sizeof(*h));
	uint32_t start;

	h->loop = loop;
	LIST_INIT(&h->listeners);
	TAILQ_INIT(&h->dirty);
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
	front_listen_drop(h, NULL, "57P01", "the broker stops");
	before_sleep(h); /* the last words go out as far as the sockets take them */
	for (size_t i = 0; i < FRONT_BUCKETS; i++)
		while (!LIST_EMPTY(&h->conns[i]))
			front_conn_end(LIST_FIRST(&h->conns[i]));
	before_sleep(h);
	ipc_free(h->core);
	ipc_free(h->upstream);
	free(h);
}
