/*
 * HTTP, from a recording (upstream, started as cofferdam-rerun). A request is known by the head
 * that went out then; one that was refused, by its method and path. Its body is read to the end, so
 * that the broker records what it was.
 */
#include "broker/upstream_rerun.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/upstream_http_body.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define END_WHOLE 1
#define END_BROKEN 3
#define END_BODY 4
#define END_UNSENT 5

struct rerun_exchange {
	struct rerun_exchange *next;
	uint64_t conn, act;
	struct hash lease;
	struct body *body;
	bool head; /* the method is HEAD */
	const struct rerun_entry *entry;
};

struct request {
	struct hash sent;
	struct str method, path;
};

static bool
is_it(const void *arg, const struct rerun_entry *e)
{
	const struct request *r = arg;
	struct str rest = e->match, method;

	if (e->sent_known)
		return hash_eq(&e->sent, &r->sent);
	return str_cut(&rest, ' ', &method) && str_eq(method, r->method) && str_eq(rest, r->path);
}

static struct rerun_exchange **
find(struct rerun_hub *h, uint64_t conn, uint64_t act)
{
	struct rerun_exchange **at = &h->exchanges;

	while (*at != NULL && ((*at)->conn != conn || (*at)->act != act))
		at = &(*at)->next;
	return at;
}

static void
drop(struct rerun_exchange **at)
{
	struct rerun_exchange *x = *at;

	*at = x->next;
	body_free(x->body);
	free(x);
}

void
rerun_http_end(struct rerun_hub *h)
{
	while (h->exchanges != NULL)
		drop(&h->exchanges);
}

static void
front(struct rerun_hub *h, uint16_t type, const struct buf *b)
{
	if (h->front != NULL)
		ipc_send(h->front, type, b, NULL, 0);
}

/* --- the answer ------------------------------------------------------------------ */

static void
head_send(struct rerun_hub *h, const struct rerun_exchange *x, unsigned status, struct str fields,
    uint32_t nfields, size_t length)
{
	AUTO_BUF struct buf b = BUF((size_t)1 << 18);
	bool bodiless = status == 204 || status == 304;
	char text[24];

	(void)snprintf(text, sizeof(text), "%zu", length);
	buf_u64(&b, x->conn);
	buf_u64(&b, x->act);
	buf_u16(&b, (uint16_t)status);
	buf_u32(&b, nfields + (bodiless || x->head ? 0 : 1));
	buf_put_str(&b, fields);
	if (!bodiless && !x->head) {
		buf_lz(&b, "Content-Length");
		buf_lz(&b, text);
	}
	front(h, MSG_UF_HEAD, &b);
}

static void
content_send(struct rerun_hub *h, const struct rerun_exchange *x, struct str bytes)
{
	AUTO_BUF struct buf end = BUF(64);

	while (bytes.n != 0) {
		size_t n = bytes.n < RERUN_FRAME ? bytes.n : RERUN_FRAME;
		AUTO_BUF struct buf b = BUF(RERUN_FRAME + 64);

		buf_u64(&b, x->conn);
		buf_u64(&b, x->act);
		buf_lstr(&b, str_mem(bytes.p, n));
		front(h, MSG_UF_BODY, &b);
		bytes.p += n;
		bytes.n -= n;
	}
	buf_u64(&end, x->conn);
	buf_u64(&end, x->act);
	buf_u8(&end, 1);
	front(h, MSG_UF_END, &end);
}

static void
done_send(
    struct rerun_hub *h, struct rerun_exchange *x, uint8_t how, unsigned status, struct str answer)
{
	AUTO_BUF struct buf b = BUF(16384);
	struct hash hash = hash_sha256(answer);

	buf_u64(&b, x->conn);
	buf_u64(&b, x->act);
	buf_u8(&b, how);
	buf_u16(&b, (uint16_t)status);
	buf_u64(&b, answer.n);
	buf_put(&b, hash.b, HASH_LEN);
	hash = hash_sha256(STR(""));
	buf_u64(&b, x->body != NULL ? body_sent(x->body, &hash) : 0);
	buf_put(&b, hash.b, HASH_LEN);
	buf_put(&b, x->lease.b, HASH_LEN);
	buf_lz(&b, "");
	buf_lz(&b, "");
	buf_u32(&b, 0);
	buf_u8(&b, 0);
	buf_lz(&b, "");
	buf_lz(&b, "");
	if (h->core != NULL)
		ipc_send(h->core, MSG_UH_DONE, &b, NULL, 0);
}

static void
answer(struct rerun_hub *h, struct rerun_exchange *x)
{
	const struct rerun_entry *e = x->entry;
	AUTO_BUF struct buf fields = BUF(1024);
	struct str content = STR(RERUN_MISSING_TEXT "\n");

	if (e != NULL && e->how != RERUN_MISSING) {
		content = x->head ? STR_NONE : e->answer;
		head_send(h, x, e->http_status, e->fields, e->nfields, content.n);
		content_send(h, x, content);
		done_send(h, x, END_WHOLE, e->http_status, content);
		return;
	}
	buf_lz(&fields, "Content-Type");
	buf_lz(&fields, "text/plain");
	content = x->head ? STR_NONE : content;
	head_send(h, x, 502, buf_str(&fields), 1, content.n);
	content_send(h, x, content);
	done_send(h, x, END_WHOLE, 502, content);
}

/* --- the request ----------------------------------------------------------------- */

/* As far as its body has come. */
static void
go_on(struct rerun_hub *h, struct rerun_exchange **at)
{
	struct rerun_exchange *x = *at;
	AUTO_BUF struct buf b = BUF(64);
	uint8_t room[16384];
	struct err err = {0};
	size_t n = 0;
	uint32_t credit;
	int rc = BODY_END;

	do {
		rc = x->body != NULL ? body_read(x->body, room, sizeof(room), &n, &err) : BODY_END;
	} while (rc == BODY_MORE);
	if (rc == BODY_WAIT) {
		credit = body_credit(x->body);
		buf_u64(&b, x->conn);
		buf_u64(&b, x->act);
		buf_u32(&b, credit);
		if (credit != 0)
			front(h, MSG_UF_MORE, &b);
		return;
	}
	if (rc == BODY_END)
		answer(h, x);
	else
		done_send(h, x, END_BODY, 0, STR_NONE);
	drop(at);
}

static int
take_fd(struct rerun_hub *h, const struct upstream_lease *l)
{
	if (h->body.fd < 0 || h->body.conn != l->conn || h->body.act != l->act)
		return -1;
	return TAKE_FD(h->body.fd);
}

int
rerun_http_body(struct rerun_hub *h, struct rd *body, int *fds, struct err *err)
{
	uint64_t conn = rd_u64(body), act = rd_u64(body);

	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "malformed");
	cleanup_close_fd(&h->body.fd);
	h->body.conn = conn;
	h->body.act = act;
	h->body.fd = TAKE_FD(fds[0]);
	return 0;
}

int
rerun_http_send(struct rerun_hub *h, struct rd *body, int *fds UNUSED, struct err *err)
{
	AUTO_FREE struct upstream_lease *l = xcalloc(1, sizeof(*l));
	int rc = lease_read(body, l, err);
	struct rerun_exchange *x;
	struct request r;

	if (rc != 0)
		return rc;
	r = (struct request){.sent = lease_hash(l), .method = l->method};
	r.path = l->target;
	(void)(memchr(l->target.p, '?', l->target.n) != NULL &&
	       str_cut(&(struct str){l->target.p, l->target.n}, '?', &r.path));
	x = xcalloc(1, sizeof(*x));
	*x = (struct rerun_exchange){.next = h->exchanges,
	    .conn = l->conn,
	    .act = l->act,
	    .lease = r.sent,
	    .head = str_eqz(l->method, "HEAD"),
	    .entry = rerun_answers_next(h->answers, RERUN_HTTP, l->host, l->port, is_it, &r)};
	h->exchanges = x;
	if (l->body == LEASE_UPGRADE) { /* of a stream there is nothing that could be played */
		done_send(h, x, END_UNSENT, 0, STR_NONE);
		drop(&h->exchanges);
		return 0;
	}
	if (body_new(l, take_fd(h, l), &x->body, err) != 0) {
		err_clear(err);
		done_send(h, x, END_BODY, 0, STR_NONE);
		drop(&h->exchanges);
		return 0;
	}
	go_on(h, &h->exchanges);
	return 0;
}

int
rerun_http_front(struct rerun_hub *h, struct rd *body, int *fds UNUSED, struct err *err)
{
	uint64_t conn = rd_u64(body), act = rd_u64(body);
	uint8_t last = rd_u8(body);
	struct str bytes = rd_lstr(body);
	struct rerun_exchange **at = find(h, conn, act);
	struct err why = {0};

	if (!rd_end(body) || last > 1)
		return err_set(err, ERR_PROTOCOL, "malformed");
	if (*at == NULL)
		return 0;
	if (body_take((*at)->body, last == 1, bytes, &why) != 0) {
		done_send(h, *at, END_BODY, 0, STR_NONE);
		drop(at);
		return 0;
	}
	go_on(h, at);
	return 0;
}

int
rerun_http_abort(struct rerun_hub *h, struct rd *body, int *fds UNUSED, struct err *err UNUSED)
{
	uint64_t conn = rd_u64(body), act = rd_u64(body);
	struct rerun_exchange **at = find(h, conn, act);

	if (*at == NULL)
		return 0;
	done_send(h, *at, END_BROKEN, 0, STR_NONE);
	drop(at);
	return 0;
}
