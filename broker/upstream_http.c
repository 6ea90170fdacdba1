/*
 * HTTP exchanges from the lease to the last word to core. Runs in upstream. Core is obeyed within
 * its leases and front within its credit; the server is untrusted throughout. A credential lives in
 * guarded memory and in libcurl's copy of the head; after the exchange nowhere but in the guarded
 * memory of what answers are held against, where it cannot be read until it is looked for again.
 */
#include "broker/upstream_http.h"

#include <stdio.h>

#include "broker/upstream_http_int.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

const char *const upstream_syscalls[] = {"socket", "connect", "setsockopt", "getsockname",
    "getpeername",
    /* directories of reference targets, which Landlock leaves alone */
    "openat2", "getdents64",
    /* what libcurl wakes itself by, in a multi of a stream's own */
    "socketpair", NULL};

static struct exchanges *
bucket(struct upstream_http *h, uint64_t conn)
{
	return &h->bucket[(conn ^ conn >> 32) % EXCHANGE_BUCKETS];
}

/* Under way: one that waits for the writer alone is none any more. */
static struct exchange *
find(struct upstream_http *h, uint64_t conn, uint64_t act)
{
	struct exchange *x;

	LIST_FOREACH (x, bucket(h, conn), link)
		if (x->conn == conn && x->act == act && x->state < X_SEALING)
			return x;
	return NULL;
}

static void on_tick(void *arg);

void
exchange_add(struct exchange *x)
{
	struct upstream_http *h = x->h;

	LIST_INSERT_HEAD(bucket(h, x->conn), x, link);
	h->count++;
	x->active = loop_now_ms(h->hub->loop);
	x->tick = loop_timer_add(h->hub->loop, h->times.connect, on_tick, x);
}

/* --- the end --------------------------------------------------------------------- */

static void
exchange_free(struct exchange *x)
{
	body_free(x->body);
	answer_free(x->answer);
	look_free(x->look);
	stores_drop(x->store);
	stores_drop(x->proxy.store);
	buf_free(&x->done);
	buf_free(&x->blob);
	free(x->run);
	free(x->host);
	free(x->proxy.host);
	free(x->proxy.user);
	free(x->method);
	stream_free(x->stream);
	explicit_bzero(x, sizeof(*x));
	free(x);
}

/* For people: UTF-8, and free of secrets, which a server may have put into its error. */
static void
put_why(struct exchange *x, const char *why, struct buf *b)
{
	AUTO_BUF struct buf clean = BUF(4096);
	char text[1000];

	if (x->answer != NULL)
		answer_clean(x->answer, str_z(why), &clean);
	else
		buf_put_z(&clean, why);
	upstream_text(buf_str(&clean), text, sizeof(text));
	buf_lz(b, text);
}

static void
put_done(struct exchange *x, const char *why)
{
	struct buf *b = &x->done;
	struct hash h = hash_sha256(STR(""));
	uint64_t n;

	buf_u64(b, x->conn);
	buf_u64(b, x->act);
	buf_u8(b, (uint8_t)x->end);
	buf_u16(b, x->answer != NULL ? (uint16_t)answer_status(x->answer) : 0);
	n = x->answer != NULL ? answer_sent(x->answer, &h) : 0;
	buf_u64(b, n);
	buf_put(b, h.b, HASH_LEN);
	h = hash_sha256(STR(""));
	n = x->body != NULL ? body_sent(x->body, &h) : 0;
	buf_u64(b, n);
	buf_put(b, h.b, HASH_LEN);
	buf_put(b, x->lease.b, HASH_LEN);
	buf_lz(b, x->peer);
	buf_lz(b, x->cert);
	buf_u32(b, x->answer != NULL ? answer_replaced(x->answer) : 0);
	buf_u8(b, stream_ended(x));
	put_why(x, why, b);
}

void
exchange_end(struct exchange *x, enum exchange_end end, const char *why)
{
	struct err err = {0};

	if (x->state == X_SEALING || x->state == X_DEAD)
		return;
	x->state = X_SEALING;
	x->end = end;
	resolve_cancel(TAKE_PTR(x->query));
	loop_timer_del(TAKE_PTR(x->tick));
	loop_timer_del(TAKE_PTR(x->expect));
	transfer_drop(x);
	exchange_files_drop(x);
	if (x->answer != NULL && answer_end(x->answer, end == END_WHOLE, &err) != 0) {
		x->end = END_BROKEN;
		why = err.msg;
	}
	put_done(x, why);
	if (x->look != NULL)
		look_tell(x);
	seal_begin(x);
}

void
exchange_fail(struct exchange *x, enum exchange_end end, const struct err *err)
{
	if (x->end != END_NONE)
		return;
	x->end = end;
	x->why = *err;
}

static enum exchange_end
end_now(const struct exchange *x)
{
	if (x->answer != NULL && answer_status(x->answer) != 0)
		return END_BROKEN;
	return x->sent ? END_NO_ANSWER : END_NOT_SENT;
}

void
upstream_http_end_all(struct upstream_http *h, const char *why)
{
	for (size_t i = 0; i < EXCHANGE_BUCKETS; i++) {
		struct exchange *x;

		LIST_FOREACH (x, &h->bucket[i], link)
			exchange_end(x, end_now(x), why);
	}
	while (h->nbodies != 0)
		cleanup_close_fd(&h->bodies[--h->nbodies].fd);
}

/* --- time ------------------------------------------------------------------------ */

static unsigned
limit_of(const struct exchange *x)
{
	const struct upstream_http_times *t = &x->h->times;

	if (x->stream != NULL && x->sent)
		return stream_limit(x);
	if (!x->sent)
		return t->connect;
	if (answer_status(x->answer) != 0 || (body_is_streamed(x->body) && !body_is_whole(x->body)))
		return t->idle;
	return t->first;
}

/* Looks again when the limit can have passed, and often enough for the shortest that may come. */
static void
on_tick(void *arg)
{
	struct exchange *x = arg;
	AUTO_FREE char *why = NULL;
	const struct upstream_http_times *t = &x->h->times;
	unsigned limit = limit_of(x), most = x->stream != NULL ? t->half : t->idle;
	uint64_t now = loop_now_ms(x->h->hub->loop), idle;

	if (x->recv_paused)
		x->active = now; /* it is not the server who is slow */
	idle = now - x->active;
	if (idle < limit) {
		uint64_t left = limit - idle;

		x->tick = loop_timer_add(x->h->hub->loop, left < most ? left : most, on_tick, x);
		return;
	}
	x->tick = NULL;
	x->silent = true;
	why = xasprintf(!x->sent			? "no connection to %s:%u within %u ms"
			: answer_status(x->answer) == 0 ? "no answer from %s:%u within %u ms"
							: "%s:%u was silent for %u ms",
	    x->host, x->port, limit);
	exchange_end(x, end_now(x), why);
}

/* --- messages -------------------------------------------------------------------- */

static int
on_body(struct upstream_http *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t conn = rd_u64(b), act = rd_u64(b);

	if (!rd_end(b))
		return err_set(err, ERR_PROTOCOL, "malformed");
	if (h->nbodies == UPSTREAM_HTTP_BODIES)
		return err_set(err, ERR_PROTOCOL, "%zu bodies without their requests", h->nbodies);
	h->bodies[h->nbodies].conn = conn;
	h->bodies[h->nbodies].act = act;
	h->bodies[h->nbodies++].fd = TAKE_FD(fds[0]);
	return 0;
}

static int
body_fd(struct upstream_http *h, uint64_t conn, uint64_t act)
{
	for (size_t i = 0; i < h->nbodies; i++) {
		int fd = h->bodies[i].fd;

		if (h->bodies[i].conn != conn || h->bodies[i].act != act)
			continue;
		h->bodies[i] = h->bodies[--h->nbodies];
		return fd;
	}
	return -1;
}

static void
wipe(struct str secret)
{
	if (secret.n != 0)
		explicit_bzero((void *)(uintptr_t)secret.p, secret.n);
}

/* It never has effects, whatever core says. */
static bool
is_look(const struct upstream_lease *l)
{
	return (str_eqz(l->method, "GET") || str_eqz(l->method, "HEAD")) && l->body == LEASE_NONE &&
	       l->seal == 0;
}

static int
take_lease(struct upstream_http *h, struct rd *b, bool look, struct err *err)
{
	struct upstream_lease *l = xcalloc(1, sizeof(*l));
	int rc = lease_read(b, l, err);

	if (rc == 0 && look && !is_look(l))
		rc = err_set(err, ERR_PROTOCOL, "a look that is more than a GET or HEAD");
	if (rc == 0 && find(h, l->conn, l->act) != NULL)
		rc = err_set(err, ERR_PROTOCOL, "exchange %#llx/%llu is under way",
		    (unsigned long long)l->conn, (unsigned long long)l->act);
	if (rc == 0)
		exchange_open(h, l, look ? -1 : body_fd(h, l->conn, l->act), look);
	/* The wire's buffer must not keep them. */
	wipe(l->secret);
	for (size_t i = 0; i < l->nothers; i++)
		wipe(l->others[i].secret);
	wipe(l->blob_key);
	wipe(l->via_secret);
	free(l);
	return rc;
}

static int
on_send(struct upstream_http *h, struct rd *b, int *fds, struct err *err)
{
	(void)fds;
	return take_lease(h, b, false, err);
}

static int
on_look(struct upstream_http *h, struct rd *b, int *fds, struct err *err)
{
	(void)fds;
	return take_lease(h, b, true, err);
}

static int
on_abort(struct upstream_http *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t conn = rd_u64(b), act = rd_u64(b);
	struct exchange *x;

	(void)fds;
	if (!rd_end(b))
		return err_set(err, ERR_PROTOCOL, "malformed");
	x = find(h, conn, act);
	if (x != NULL)
		exchange_end(x, end_now(x), "ended by the broker");
	return 0;
}

static int
on_forget(struct upstream_http *h, struct rd *b, int *fds, struct err *err)
{
	struct str run = rd_lstr(b), host = rd_lstr(b);
	uint32_t port = rd_u32(b);

	(void)fds;
	if (!rd_end(b) || port > UINT16_MAX)
		return err_set(err, ERR_PROTOCOL, "malformed");
	sock_forget(h, run, host, (uint16_t)port);
	return 0;
}

/* What comes for an exchange that has ended was on its way then. */
static int
on_front_body(struct upstream_http *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t conn = rd_u64(b), act = rd_u64(b);
	uint8_t last = rd_u8(b);
	struct str bytes = rd_lstr(b);
	struct exchange *x;
	struct err why = {0};
	int rc;

	(void)fds;
	if (!rd_end(b) || last > 1)
		return err_set(err, ERR_PROTOCOL, "malformed");
	x = find(h, conn, act);
	if (x == NULL || x->state != X_RUNNING)
		return 0;
	rc = body_take(x->body, last == 1, bytes, &why);
	if (rc == ERR_PROTOCOL) {
		*err = why;
		return rc;
	}
	if (rc != 0 && x->stream != NULL)
		stream_over(x, why.msg);
	else if (rc != 0)
		exchange_end(x, END_BODY, why.msg);
	else if (x->send_paused)
		transfer_resume(x);
	return 0;
}

static int
on_hold(struct upstream_http *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t conn = rd_u64(b), act = rd_u64(b);
	uint8_t on = rd_u8(b);
	struct exchange *x;

	(void)fds;
	if (!rd_end(b) || on > 1)
		return err_set(err, ERR_PROTOCOL, "malformed");
	x = find(h, conn, act);
	if (x == NULL || x->state != X_RUNNING)
		return 0;
	x->hold = on == 1;
	if (!x->hold && x->recv_paused)
		transfer_resume(x);
	return 0;
}

static const struct {
	uint16_t type;
	int (*fn)(struct upstream_http *h, struct rd *b, int *fds, struct err *err);
} messages[] = {
    {MSG_UH_BODY, on_body},
    {MSG_UH_SEND, on_send},
    {MSG_UH_LOOK, on_look},
    {MSG_UH_ABORT, on_abort},
    {MSG_UH_FORGET, on_forget},
    {MSG_FU_BODY, on_front_body},
    {MSG_FU_HOLD, on_hold},
};

int
upstream_http_message(struct upstream_http *h, uint16_t type, struct rd *body, int *fds,
    bool *ret_taken, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(messages); i++) {
		*ret_taken = messages[i].type == type;
		if (*ret_taken)
			return messages[i].fn(h, body, fds, err);
	}
	return 0;
}

void
upstream_http_writer(struct upstream_http *h, int fd)
{
	seal_writer(h, fd);
}

/* --- turns of the loop ----------------------------------------------------------- */

/* What came in this turn goes on in few frames; who waited for front or for us goes on. */
static void
turn(struct exchange *x, bool room)
{
	if (x->state != X_RUNNING)
		return;
	answer_flush(x->answer);
	if (room)
		x->throttled = false;
	if (x->wake || (x->recv_paused && !x->hold && !x->throttled))
		transfer_resume(x);
}

void
upstream_http_before_sleep(struct upstream_http *h)
{
	const struct ipc *front = h->hub->front;
	bool room = front == NULL || ipc_queued(front) <= UPSTREAM_QUEUE_LOW;
	struct exchange *x, *next;

	seal_settle(h);
	for (size_t i = 0; h->count != 0 && i < EXCHANGE_BUCKETS; i++) {
		for (x = LIST_FIRST(&h->bucket[i]); x != NULL; x = next) {
			turn(x, room);
			next = LIST_NEXT(x, link);
			if (x->state != X_DEAD)
				continue;
			LIST_REMOVE(x, link);
			h->count--;
			exchange_free(x);
		}
	}
}

/* --- life ------------------------------------------------------------------------ */

int
upstream_http_new(
    struct upstream_hub *hub, const char *ca_file, struct upstream_http **ret, struct err *err)
{
	struct upstream_http *h = xcalloc(1, sizeof(*h));
	int rc;

	h->hub = hub;
	h->times = UPSTREAM_HTTP_TIMES;
	TAILQ_INIT(&h->sealing);
	for (size_t i = 0; i < EXCHANGE_BUCKETS; i++)
		LIST_INIT(&h->bucket[i]);
	rc = transfers_init(h, err);
	if (rc != 0) {
		free(h);
		return rc;
	}
	h->stores = stores_new(ca_file);
	h->scrubs = scrub_sets_new();
	hub->http = h;
	*ret = h;
	return 0;
}

void
upstream_http_free(struct upstream_http *h)
{
	if (h == NULL)
		return;
	upstream_http_end_all(h, "stopped");
	ipc_free(TAKE_PTR(h->writer));
	upstream_http_before_sleep(h);
	transfers_free(h);
	stores_free(h->stores);
	loop_timer_del(TAKE_PTR(h->sweep));
	loop_timer_del(TAKE_PTR(h->kept));
	scrub_sets_free(h->scrubs);
	h->hub->http = NULL;
	free(h->socks);
	free(h);
}

void
upstream_http_dirs(struct upstream_http *h, const struct upstream_dirs *dirs)
{
	h->dirs = dirs;
}

void
upstream_http_times(struct upstream_http *h, const struct upstream_http_times *times)
{
	h->times = *times;
}
