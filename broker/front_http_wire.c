/*
 * What core and upstream say about HTTP exchanges. Runs in front. Core's word for an exchange that
 * is not in flight any more is no error, clients leave when they like; one that does not fit the
 * exchange is. What upstream says is an answer that can be framed, or the end of the connection:
 * it reads bytes of servers that may lie.
 */
#include "broker/front_http.h"

#include "common/log.h"

#include "common/banned.h"

/* The connection, where it can be spoken on; NULL. */
static struct front_conn *
find(struct front_hub *h, uint64_t id)
{
	struct front_conn *c = front_conn_find(h, id, &front_http_proto);

	return c != NULL && c->phase == FRONT_OPEN ? c : NULL;
}

/* The connection, where that act is in flight on it; NULL. */
static struct front_conn *
in_flight(struct front_hub *h, uint64_t id, uint64_t act)
{
	struct front_conn *c = find(h, id);

	return c != NULL && c->http->state == FRONT_HTTP_ACT && c->http->act == act ? c : NULL;
}

static int
out_of_step(struct front_conn *c, const char *what)
{
	log_error("core is out of step: %s", what);
	front_http_over(c, "the broker lost track of the request");
	return 0;
}

/* --- core ------------------------------------------------------------------------- */

static int
on_connected(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b);
	struct str host = rd_lstr(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b))
		return front_hub_malformed(err);
	c = find(h, id);
	if (c != NULL)
		front_http_connected(c, host);
	return 0;
}

static int
on_need(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	uint8_t how = rd_u8(b);
	uint64_t most = rd_u64(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b))
		return front_hub_malformed(err);
	c = in_flight(h, id, act);
	if (c != NULL && !front_http_need(c, how, most))
		return out_of_step(c, "H_NEED");
	return 0;
}

static int
on_go(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	uint8_t body = rd_u8(b);
	uint64_t most = rd_u64(b);
	uint8_t hold = rd_u8(b);
	struct str receipt = rd_lstr(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b) || body > 2 || hold > 1 || !http_is_value(receipt))
		return front_hub_malformed(err);
	c = in_flight(h, id, act);
	if (c == NULL)
		return 0;
	if (!front_http_go(c, body, most, hold == 1, receipt))
		return out_of_step(c, "H_GO");
	return 0;
}

static int
fields(struct rd *b, struct http_field *f, size_t *ret_n, struct err *err)
{
	uint32_t n = rd_u32(b);

	if (n > HTTP_FIELDS_MAX)
		return err_set(err, ERR_PROTOCOL, "%u fields, limit %d", n, HTTP_FIELDS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		f[i].name = rd_lstr(b);
		f[i].value = rd_lstr(b);
	}
	*ret_n = n;
	return 0;
}

static int
on_refused(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct front_answer a = {0};
	uint64_t id = rd_u64(b);
	struct front_conn *c;
	uint8_t last;
	int rc;

	(void)fds;
	a.act = rd_u64(b);
	a.status = rd_u16(b);
	last = rd_u8(b);
	rc = fields(b, a.fields, &a.n, err);
	if (rc != 0)
		return rc;
	a.body = rd_lstr(b);
	a.close = last == 1;
	if (!rd_end(b) || last > 1)
		return front_hub_malformed(err);
	c = a.act != 0 ? in_flight(h, id, a.act) : find(h, id);
	if (c == NULL || (a.act == 0 && c->http->state != FRONT_HTTP_CONNECT))
		return 0;
	return front_http_answer(c, &a) ? 0 : front_hub_malformed(err);
}

static int
on_done(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b))
		return front_hub_malformed(err);
	c = in_flight(h, id, act);
	if (c != NULL)
		front_http_done(c);
	return 0;
}

static int
on_abort(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b))
		return front_hub_malformed(err);
	c = act != 0 ? in_flight(h, id, act) : front_conn_find(h, id, &front_http_proto);
	if (c != NULL)
		front_http_over(c, "the exchange was ended by the broker");
	return 0;
}

/* --- upstream --------------------------------------------------------------------- */

/* A server gives no receipts. */
static size_t
without_receipts(struct http_field *f, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!http_name_is(f[i].name, HTTP_RECEIPT))
			f[kept++] = f[i];
	return kept;
}

/* An answer that is none ends the connection; an answer that nobody waits for is dropped. */
static int
on_head(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct http_field f[HTTP_FIELDS_MAX];
	uint64_t id = rd_u64(b), act = rd_u64(b);
	uint16_t status = rd_u16(b);
	struct front_conn *c;
	size_t n = 0;
	int rc = fields(b, f, &n, err);

	(void)fds;
	if (rc != 0)
		return rc;
	if (!rd_end(b))
		return front_hub_malformed(err);
	n = without_receipts(f, n);
	c = in_flight(h, id, act);
	if (c != NULL && !front_http_head(c, status, f, n))
		front_http_cut(c);
	return 0;
}

static int
on_body(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	struct str bytes = rd_lstr(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b))
		return front_hub_malformed(err);
	c = in_flight(h, id, act);
	if (c != NULL && !front_http_data(c, bytes))
		front_http_cut(c);
	return 0;
}

static int
on_end(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	uint8_t whole = rd_u8(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b) || whole > 1)
		return front_hub_malformed(err);
	c = in_flight(h, id, act);
	if (c != NULL && !front_http_end(c, whole == 1))
		front_http_cut(c);
	return 0;
}

static int
on_more(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	uint32_t bytes = rd_u32(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b))
		return front_hub_malformed(err);
	c = in_flight(h, id, act);
	if (c != NULL)
		front_http_more(c, bytes);
	return 0;
}

const struct front_msg front_http_messages[] = {
    {MSG_H_CONNECTED, on_connected},
    {MSG_H_NEED, on_need},
    {MSG_H_GO, on_go},
    {MSG_H_REFUSED, on_refused},
    {MSG_H_DONE, on_done},
    {MSG_H_ABORT, on_abort},
    {MSG_UF_HEAD, on_head},
    {MSG_UF_BODY, on_body},
    {MSG_UF_END, on_end},
    {MSG_UF_MORE, on_more},
    {0, NULL},
};
