/*
 * What front is told of PostgreSQL connections (process: core): answers to let go, refusals, ends;
 * with the receipts of what is on record, where the client asked for them.
 */
#include <string.h>

#include "broker/core_act.h"
#include "broker/core_receipt.h"

#include "common/banned.h"

#define TEXT_MAX 8192
#define GONE_MAX 2048

static void
put_receipt(struct buf *b, const struct core_conn *conn, const struct core_action *a)
{
	AUTO_BUF struct buf text = BUF(RECEIPT_MAX);

	if (conn->receipts && a != NULL)
		core_receipt_put(conn->from.run->core, &a->receipt, &text);
	buf_lstr(b, buf_str(&text));
}

void
core_pg_send_opened(const struct core_conn *conn, struct str params)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_u64(&b, conn->from.id);
	put_receipt(&b, conn, conn->open);
	buf_put_str(&b, params);
	core_send(conn->from.run->core->front, MSG_PG_OPENED, &b);
}

void
core_pg_send_done(const struct core_act *act, uint64_t bytes)
{
	AUTO_BUF struct buf b = BUF(1 << 18);

	buf_u64(&b, act->conn->from.id);
	buf_u64(&b, act->id);
	buf_u64(&b, bytes);
	core_receipt_list(act, &b);
	core_send(act->conn->from.run->core->front, MSG_PG_DONE, &b);
}

/* Texts of servers are cut: the message has a ceiling. */
static void
put_text(struct buf *b, const char *z)
{
	struct str s = str_z(z != NULL ? z : "");

	buf_lstr(b, str_mem(s.p, s.n < TEXT_MAX ? s.n : TEXT_MAX));
}

static void
put_refusal(struct buf *b, uint64_t conn, const struct core_pg_refusal *r)
{
	buf_u64(b, conn);
	buf_u64(b, r->act);
	buf_u8(b, r->close ? 0 : 1);
	buf_lz(b, r->sqlstate);
	put_text(b, r->message);
	put_text(b, r->detail);
	put_text(b, r->hint);
}

void
core_pg_send_refused(const struct core_conn *conn, const struct core_pg_refusal *r)
{
	AUTO_BUF struct buf b = BUF(32768);

	put_refusal(&b, conn->from.id, r);
	put_receipt(&b, conn, r->a);
	core_send(conn->from.run->core->front, MSG_PG_REFUSED, &b);
}

void
core_pg_send_stranger(
    const struct core *c, uint64_t conn, const char *sqlstate, const char *message)
{
	AUTO_BUF struct buf b = BUF(32768);

	put_refusal(&b, conn,
	    &(struct core_pg_refusal){.close = true, .sqlstate = sqlstate, .message = message});
	buf_lz(&b, "");
	core_send(c->front, MSG_PG_REFUSED, &b);
}

void
core_pg_send_gone(const struct core_conn *conn, const char *sqlstate, const char *message)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, conn->from.id);
	buf_lz(&b, sqlstate);
	buf_lstr(&b, str_mem(message, strnlen(message, GONE_MAX)));
	core_send(conn->from.run->core->front, MSG_PG_GONE, &b);
}
