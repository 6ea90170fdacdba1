/*
 * HTTP exchanges: their table, their beginnings and their ends (process: core). Front says on which
 * listener a request came and what it read; which run, target and credential that means is core's
 * own knowledge. Front may lie: what is judged here is all that can go out.
 */
#include "broker/core_http.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/core_approve.h"
#include "broker/core_plan.h"
#include "broker/core_run.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CLOSING_MS 10000
#define NAME_MAX_ ((size_t)1024)
#define FAULT_MAX ((size_t)512)

static struct core_https *
bucket(const struct core *c, uint64_t conn)
{
	return (struct core_https *)(uintptr_t)&c->https[(conn ^ conn >> 32) % CORE_CONN_BUCKETS];
}

struct core_http *
core_http_by_id(const struct core *c, uint64_t conn, uint64_t act)
{
	struct core_http *h;

	LIST_FOREACH (h, bucket(c, conn), link)
		if (h->from.id == conn && h->act == act)
			return h;
	return NULL;
}

static struct core_http *
http_new(struct core_run *run, uint64_t conn, uint64_t act)
{
	struct core *c = run->core;
	struct core_http *h = xcalloc(1, sizeof(*h));

	h->from = (struct core_from){.run = run, .id = conn, .protocol = "http"};
	h->act = act;
	h->fd = -1;
	buf_init(&h->head, HTTP_HEAD_MAX);
	buf_init(&h->content, CORE_HTTP_INLINE_MAX);
	buf_init(&h->target, HTTP_TARGET_MAX);
	buf_init(&h->answer, 65536);
	run->nhttps++;
	c->nhttps++;
	LIST_INSERT_HEAD(bucket(c, conn), h, link);
	return h;
}

void
core_http_drop(struct core_http *h)
{
	if (h->fd >= 0) {
		if (h->bytes.n != 0)
			(void)munmap((void *)(uintptr_t)h->bytes.p, h->bytes.n);
		(void)close(h->fd);
	}
	h->fd = -1;
	h->bytes = STR_NONE;
	h->from.run->held -= h->held;
	h->from.run->core->held -= h->held;
	h->held = 0;
	buf_free(&h->head);
	buf_free(&h->content);
	buf_free(&h->target);
	free(h->req);
	free(h->fields);
	h->req = NULL;
	h->fields = NULL;
	h->nfields = 0;
}

void
core_http_free(struct core_http *h)
{
	LIST_REMOVE(h, link);
	h->from.run->nhttps--;
	h->from.run->core->nhttps--;
	core_http_drop(h);
	core_http_stream_free(h);
	core_record_forget(h->ticket);
	if (h->request != NULL)
		core_approve_forget(h->request);
	core_facts_forget(h->ask);
	core_facts_unref(h->facts);
	core_http_look_free(h->look);
	free(h->saw);
	core_action_free(h->a);
	loop_timer_del(h->timer);
	buf_free(&h->answer);
	free(h->host);
	free(h->connect);
	free(h->sni);
	free(h->fault);
	free(h->why);
	free(h->unwitnessed);
	free(h->found.bound);
	core_http_aws_free(h->aws);
	free(h->from.address);
	free(h->from.credential);
	free(h);
}

/* --- ends ------------------------------------------------------------------------ */

typedef bool want_fn(const struct core_http *h);

static struct core_http *
first(const struct core *c, want_fn *fn)
{
	struct core_http *h = NULL;

	for (size_t i = 0; i < CORE_CONN_BUCKETS; i++)
		LIST_FOREACH (h, &c->https[i], link) {
			/* NOLINTBEGIN(clang-analyzer-unix.Malloc): LIST_REMOVE is not followed */
			if (fn(h))
				return h;
			/* NOLINTEND(clang-analyzer-unix.Malloc) */
		}
	return NULL;
}

static bool
is_sent(const struct core_http *h)
{
	return h->phase == CORE_HTTP_SENT;
}

static bool
is_looking(const struct core_http *h)
{
	return h->look != NULL;
}

static bool
is_served(const struct core_http *h)
{
	return !h->gone;
}

bool
core_http_in_flight(const struct core *c, const char *action)
{
	const struct core_http *h;

	for (size_t i = 0; i < CORE_CONN_BUCKETS; i++)
		LIST_FOREACH (h, &c->https[i], link)
			if (h->phase == CORE_HTTP_SENT && strcmp(h->a->id, action) == 0)
				return true;
	return false;
}

/* It will not be known how it ended. */
static void
lost(struct core_http *h)
{
	struct core_run *run = h->from.run;

	if (h->phase == CORE_HTTP_SENT)
		core_record_doubt(
		    run->core, run->id, h->a->id, h->a->seq, core_action_reads(h->a), "lost");
	core_http_free(h);
}

static void
tell_abort(const struct core_http *h)
{
	AUTO_BUF struct buf b = BUF(64);

	if (h->gone)
		return;
	buf_u64(&b, h->from.id);
	buf_u64(&b, h->act);
	core_send(h->from.run->core->front, MSG_H_ABORT, &b);
}

static void
cut_off(struct core_http *h)
{
	if (h->phase == CORE_HTTP_SENT)
		core_http_abort(h);
	tell_abort(h);
	lost(h);
}

void
core_http_end(struct core_run *run, const struct core_target *target)
{
	const char *why = target != NULL ? "target" : "run";

	for (size_t i = 0; run->nhttps != 0 && i < CORE_CONN_BUCKETS; i++) {
		struct core_http *h, *next;

		for (h = LIST_FIRST(&run->core->https[i]); h != NULL; h = next) {
			next = LIST_NEXT(h, link);
			if (h->from.run != run || (target != NULL && h->from.target != target))
				continue;
			if (h->stream == NULL || h->phase != CORE_HTTP_SENT) {
				cut_off(h);
				continue;
			}
			core_http_stream_cut(h, why);
			if (target != NULL)
				h->from.target = NULL; /* its place is another's soon */
		}
	}
}

void
core_http_end_now(struct core_run *run)
{
	for (size_t i = 0; run->nhttps != 0 && i < CORE_CONN_BUCKETS; i++) {
		struct core_http *h, *next;

		for (h = LIST_FIRST(&run->core->https[i]); h != NULL; h = next) {
			next = LIST_NEXT(h, link);
			if (h->from.run == run)
				cut_off(h);
		}
	}
}

void
core_http_upstream_gone(struct core *c)
{
	struct core_http *h;

	while ((h = first(c, is_sent)) != NULL) {
		tell_abort(h);
		lost(h);
	}
	while ((h = first(c, is_looking)) != NULL)
		core_http_look_end(h, STR("failed=lost"));
}

static void
closing_timeout(void *arg)
{
	struct core_http *h = arg;

	h->timer = NULL;
	lost(h);
}

void
core_http_cut(struct core_http *h)
{
	tell_abort(h);
	h->gone = true;
	if (h->timer != NULL)
		return;
	core_http_abort(h);
	h->timer = loop_timer_add(h->from.run->core->loop, CLOSING_MS, closing_timeout, h);
}

/* Nobody waits for the answer any more. */
static void
client_gone(struct core_http *h)
{
	h->gone = true;
	switch (h->phase) {
	case CORE_HTTP_BODY:
		core_http_refuse(h, 413, "body_not_read",
		    "the body did not come whole, or is over the limit for bodies that are judged");
		core_http_step(h);
		return;
	case CORE_HTTP_SENT:
		core_http_stream_gone(h, "client");
		core_http_cut(h);
		return;
	case CORE_HTTP_FACTS:
	case CORE_HTTP_LOOK:
	case CORE_HTTP_RECORD:
	case CORE_HTTP_OUTCOME: core_http_free(h); return;
	}
}

void
core_http_front_gone(struct core *c)
{
	struct core_http *h;

	while ((h = first(c, is_served)) != NULL) {
		core_http_stream_gone(h, "broker");
		client_gone(h);
	}
}

int
core_http_on_close(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t conn = rd_u64(body), act = rd_u64(body);
	struct core_http *h = core_http_by_id(p->core, conn, act);

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "H_CLOSE is malformed");
	if (h != NULL && !h->gone)
		client_gone(h);
	return 0;
}

/* --- beginnings ------------------------------------------------------------------ */

static enum core_http_via
via_of(const struct core_target *t)
{
	if (strcmp(t->kind, CORE_KIND_PROXY) == 0)
		return CORE_VIA_PROXY;
	return strcmp(t->kind, CORE_KIND_LOOP) == 0 ? CORE_VIA_LOOP : CORE_VIA_DIRECT;
}

/* NULL: it was answered, or front broke the rules (*ret_rc). */
static struct core_http *
begin(struct core *c, uint64_t conn, uint64_t act, uint32_t listener, int *ret_rc, struct err *err)
{
	struct core_run *run = NULL;
	const struct core_target *t = core_run_listener(c, listener, &run);
	struct core_http *h;

	*ret_rc = 0;
	if (core_http_by_id(c, conn, act) != NULL) {
		*ret_rc = err_set(err, ERR_PROTOCOL, "exchange %llu of connection %llu came twice",
		    (unsigned long long)act, (unsigned long long)conn);
		return NULL;
	}
	if (t == NULL || run->state != CORE_RUN_LIVE) {
		core_http_answer_plain(c, conn, act, 503, "run_ended", "the run has ended");
		return NULL;
	}
	if (t->scheme[0] == '\0' && via_of(t) == CORE_VIA_DIRECT) {
		*ret_rc = err_set(err, ERR_PROTOCOL, "listener %u does not speak HTTP", listener);
		return NULL;
	}
	if (c->nhttps >= CORE_HTTP_MAX || run->nhttps >= CORE_HTTP_RUN_MAX) {
		core_http_answer_plain(c, conn, act, 503, "too_many_requests",
		    "the run has as many requests in flight as it may");
		return NULL;
	}
	h = http_new(run, conn, act);
	h->via = via_of(t);
	if (h->via == CORE_VIA_DIRECT)
		h->from.target = t;
	return h;
}

static char *
cut(struct str s, size_t max)
{
	return log_vis(str_mem(s.p, s.n < max ? s.n : max));
}

/* Also what is malformed comes here, with host "" or a port that is none. */
int
core_http_on_connect(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t conn = rd_u64(body);
	uint32_t listener = rd_u32(body), port;
	struct str host = rd_lstr(body), target;
	AUTO_BUF struct buf b = BUF(1024);
	struct core_http *h;
	int rc;

	(void)fds;
	(void)nfds;
	port = rd_u32(body);
	target = rd_lstr(body);
	if (!rd_end(body) || host.n > HTTP_HOST_MAX)
		return err_set(err, ERR_PROTOCOL, "H_CONNECT is malformed");
	h = begin(p->core, conn, 0, listener, &rc, err);
	if (h == NULL)
		return rc;
	if (h->via == CORE_VIA_PROXY && port != 0 && port <= UINT16_MAX &&
	    core_http_reaches(h->from.run, host, (uint16_t)port)) {
		core_http_free(h);
		buf_u64(&b, conn);
		buf_lstr(&b, host);
		core_send(p, MSG_H_CONNECTED, &b);
		return 0;
	}
	h->host = str_dup(host);
	h->port = (uint16_t)(port <= UINT16_MAX ? port : 0);
	h->connect = cut(target, NAME_MAX_);
	h->sni = xstrdup("");
	h->from.address = xasprintf("%s:%u", h->host, (unsigned)port);
	buf_printf(&h->head, "CONNECT %s HTTP/1.1\r\n\r\n", h->connect);
	core_http_step(h);
	return 0;
}

struct act_msg {
	uint64_t conn, act, length;
	uint32_t listener, port;
	uint8_t tls, body, expect;
	struct str host, connect, sni, fault, head, content;
};

static int
act_read(struct rd *r, struct act_msg *m, struct err *err)
{
	*m = (struct act_msg){.conn = rd_u64(r), .act = 0};
	m->act = rd_u64(r);
	m->listener = rd_u32(r);
	m->tls = rd_u8(r);
	m->host = rd_lstr(r);
	m->port = rd_u32(r);
	m->connect = rd_lstr(r);
	m->sni = rd_lstr(r);
	m->fault = rd_lstr(r);
	m->head = rd_lstr(r);
	m->body = rd_u8(r);
	m->length = rd_u64(r);
	m->expect = rd_u8(r);
	m->content = rd_lstr(r);
	if (!rd_end(r) || m->act == 0 || m->act >= CORE_LOOK_BIT || m->tls > 1 || m->expect > 1 ||
	    m->body > CORE_BODY_CHUNKED || m->port > UINT16_MAX || m->host.n > HTTP_HOST_MAX ||
	    m->connect.n > NAME_MAX_ || m->sni.n > NAME_MAX_ || m->head.n > HTTP_HEAD_MAX ||
	    m->content.n > CORE_HTTP_INLINE_MAX ||
	    m->content.n != (m->body == CORE_BODY_INLINE ? m->length : 0))
		return err_set(err, ERR_PROTOCOL, "H_ACT is malformed");
	return 0;
}

static void
act_fill(struct core_http *h, const struct act_msg *m)
{
	h->tls = m->tls == 1;
	h->host = str_dup(m->host);
	h->port = (uint16_t)m->port;
	h->connect = str_dup(m->connect);
	h->sni = str_dup(m->sni);
	h->fault = m->fault.n != 0 ? cut(m->fault, FAULT_MAX) : NULL;
	h->from.address = xasprintf("%s:%u", h->host, (unsigned)h->port);
	buf_put_str(&h->head, m->head);
	buf_put_str(&h->content, m->content);
	h->body = (enum core_http_body)m->body;
	h->length = m->body == CORE_BODY_CHUNKED ? 0 : m->length;
	h->expect = m->expect == 1;
	h->bytes = buf_str(&h->content);
	h->in_hand = h->body <= CORE_BODY_INLINE;
	h->have_sha = h->in_hand;
	if (h->in_hand)
		h->sha = hash_sha256(h->bytes);
}

int
core_http_on_act(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct act_msg m;
	struct core_http *h;
	int rc = act_read(body, &m, err);

	(void)fds;
	(void)nfds;
	if (rc != 0)
		return rc;
	h = begin(p->core, m.conn, m.act, m.listener, &rc, err);
	if (h == NULL)
		return rc;
	act_fill(h, &m);
	core_http_step(h);
	return 0;
}

/* --- bodies ---------------------------------------------------------------------- */

int
core_http_on_body(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t conn = rd_u64(body), act = rd_u64(body), length = rd_u64(body);
	struct core_http *h = core_http_by_id(p->core, conn, act);
	int rc;

	if (!rd_end(body) || nfds != 1)
		return err_set(err, ERR_PROTOCOL, "H_BODY is malformed");
	if (h == NULL || h->gone)
		return 0;
	if (h->phase != CORE_HTTP_BODY || (h->needed != 1 && h->needed != 3))
		return err_set(err, ERR_PROTOCOL, "H_BODY was not asked for");
	rc = core_http_body_take(h, TAKE_FD(fds[0]), length, err);
	if (rc == 0)
		core_http_step(h);
	return rc;
}

int
core_http_on_hashed(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t conn = rd_u64(body), act = rd_u64(body), length = rd_u64(body);
	struct str sha = rd_bytes(body, HASH_LEN);
	struct core_http *h = core_http_by_id(p->core, conn, act);

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "H_HASHED is malformed");
	if (h == NULL || h->gone)
		return 0;
	if (h->phase != CORE_HTTP_BODY || h->needed != 2 ||
	    (h->body == CORE_BODY_LENGTH && h->length != length))
		return err_set(
		    err, ERR_PROTOCOL, "H_HASHED was not asked for, or has another length");
	memcpy(h->sha.b, sha.p, HASH_LEN);
	h->length = length;
	h->hashed = h->have_sha = true;
	core_http_step(h);
	return 0;
}
