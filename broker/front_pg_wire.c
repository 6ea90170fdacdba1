/*
 * What core and upstream say about PostgreSQL sessions. Runs in front. A connection that is not
 * there any more is no error: clients leave when they like.
 */
#include "broker/front_pg.h"

#include "common/banned.h"

static int
on_opened(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	struct pgwire_param p[2 * PGWIRE_STARTUP_PARAMS];
	uint64_t id = rd_u64(b);
	struct str receipt = rd_lstr(b);
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
		return front_hub_malformed(err);
	c = front_conn_find(h, id, &front_pg_proto);
	if (c != NULL)
		front_pg_opened(c, receipt, p, n);
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
	r.receipt = rd_lstr(b);
	if (!rd_end(b) || r.how > 1)
		return front_hub_malformed(err);
	c = front_conn_find(h, id, &front_pg_proto);
	if (c != NULL)
		front_pg_refused(c, &r);
	return 0;
}

static int
on_done(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b), bytes = rd_u64(b);
	AUTO_BUF struct buf notices = BUF(FRONT_PG_NOTICES_MAX);
	uint32_t n = rd_u32(b);
	struct front_conn *c;

	(void)fds;
	for (uint32_t i = 0; i < n && !b->bad; i++)
		front_pg_put_receipt(&notices, rd_lstr(b));
	if (!rd_end(b) || buf_over(&notices))
		return front_hub_malformed(err);
	c = front_conn_find(h, id, &front_pg_proto);
	if (c != NULL)
		front_pg_done(c, act, bytes, buf_str(&notices));
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
		return front_hub_malformed(err);
	c = front_conn_find(h, id, &front_pg_proto);
	if (c != NULL)
		front_pg_gone(c, &(struct pgwire_error){.sqlstate = sqlstate, .message = message});
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
		return front_hub_malformed(err);
	c = front_conn_find(h, id, &front_pg_proto);
	if (c != NULL)
		front_pg_data(c, act, hold == 1, bytes);
	return 0;
}

static int
on_copy(struct front_hub *h, struct rd *b, int *fds, struct err *err)
{
	uint64_t id = rd_u64(b), act = rd_u64(b);
	uint8_t open = rd_u8(b);
	uint32_t n = rd_u32(b);
	struct front_conn *c;

	(void)fds;
	if (!rd_end(b) || open > 1)
		return front_hub_malformed(err);
	c = front_conn_find(h, id, &front_pg_proto);
	if (c != NULL)
		front_pg_copy_more(c, act, open == 1, n);
	return 0;
}

const struct front_msg front_pg_messages[] = {
    {MSG_PG_OPENED, on_opened},
    {MSG_PG_REFUSED, on_refused},
    {MSG_PG_DONE, on_done},
    {MSG_PG_GONE, on_conn_gone},
    {MSG_UF_DATA, on_data},
    {MSG_UF_COPY, on_copy},
    {0, NULL},
};
