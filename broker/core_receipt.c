/*
 * Receipts (process: core). One is only given for what the writer has acknowledged: it says that
 * the record was in the log, and a log that has it no more has been tampered with.
 */
#include "broker/core_receipt.h"

#include "broker/core_act.h"

#include "common/banned.h"

struct receipt
core_receipt_of(const struct core_ack *ack)
{
	return (struct receipt){ack->seq, ack->size, ack->leaf};
}

void
core_receipt_put(const struct core *c, const struct receipt *r, struct buf *out)
{
	if (r->size != 0)
		receipt_put(out, str_z(c->origin), r);
}

void
core_receipt_list(const struct core_act *act, struct buf *out)
{
	const struct core_conn *conn = act->conn;
	size_t n = conn->receipts ? act->nactions : 0;

	buf_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		AUTO_BUF struct buf text = BUF(RECEIPT_MAX);

		core_receipt_put(conn->from.run->core, &act->actions[i]->receipt, &text);
		buf_lstr(out, buf_str(&text));
	}
}
