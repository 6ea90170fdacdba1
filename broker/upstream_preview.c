/*
 * What the broker itself asks a server before people are asked: a plan, a count. Runs in upstream.
 * The statements come from core, in a transaction that begins READ ONLY and is rolled back whatever
 * happens; their answer is read here and told to core, and no byte of it goes to the client.
 */
#include "broker/upstream_act.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define OWN_MAX 1024
#define PREVIEWED_MAX 131072
#define ROWS_MAX 8
#define COLUMN_MAX ((size_t)49152)

int
upstream_preview_begin(struct upstream_conn *c, struct err *err)
{
	struct upstream_act *a = c->act;
	AUTO_BUF struct buf out = BUF(a->messages.n);

	if (c->skip || c->executed || c->txn != 'I')
		return err_set(err, ERR_PROTOCOL, "a preview in a session that is not idle");
	buf_put_str(&out, buf_str(&a->messages));
	a->sent = hash_sha256(buf_str(&out));
	buf_free(&a->messages);
	upstream_act_phase(c, ACT_PREVIEW, &out);
	return 0;
}

static void
rollback(struct upstream_conn *c)
{
	AUTO_FREE char *name = xasprintf("cofferdam_own_%llu", (unsigned long long)++c->own);
	AUTO_BUF struct buf out = BUF(OWN_MAX);

	pgwire_put_own_statement(&out, str_z(name), STR("ROLLBACK"));
	pgwire_put_sync(&out);
	upstream_act_phase(c, ACT_ROLLBACK, &out);
}

int
upstream_preview_next(struct upstream_conn *c, struct err *err)
{
	struct upstream_act *a = c->act;

	(void)err;
	if (c->txn != 'I' && a->phase == ACT_PREVIEW) {
		rollback(c);
		return 0;
	}
	if (c->txn != 'I') {
		upstream_conn_end(c, "55000", "the server did not end the transaction");
		return 0;
	}
	upstream_preview_tell(c->hub, c->id, a, a->failed || a->over != ACT_OVER_NOT ? 2 : 1);
	upstream_act_drop(c);
	return 0;
}

/* u16 columns, of each u32 length (or -1) and bytes. */
static bool
first_column(struct str body, struct str *ret)
{
	struct rd r = rd_init(body);
	uint16_t n = rd_u16(&r);

	*ret = rd_lstr(&r);
	return n != 0 && !r.bad && ret->n <= COLUMN_MAX;
}

/* The first column of each row that came. */
static void
rows_put(const struct upstream_act *a, struct buf *out)
{
	struct str all = buf_str(&a->held), column[ROWS_MAX];
	struct pgwire_msg m;
	uint32_t n = 0;

	while (n < ROWS_MAX && all.n != 0 && pgwire_next(all, SIZE_MAX, &m, NULL) == 1) {
		if (m.type == 'D' && first_column(m.body, &column[n]))
			n++;
		all.p += m.whole.n;
		all.n -= m.whole.n;
	}
	buf_u32(out, n);
	for (uint32_t i = 0; i < n; i++)
		buf_lstr(out, column[i]);
}

void
upstream_preview_tell(
    struct upstream_hub *h, uint64_t id, const struct upstream_act *a, uint8_t how)
{
	AUTO_BUF struct buf rows = BUF(PREVIEWED_MAX - 4096);
	AUTO_BUF struct buf b = BUF(PREVIEWED_MAX);

	rows_put(a, &rows);
	if (buf_over(&rows)) {
		buf_reset(&rows);
		buf_u32(&rows, 0);
		how = 2;
	}
	buf_u64(&b, id);
	buf_u64(&b, a->id);
	buf_u8(&b, how);
	buf_put_str(&b, buf_str(&rows));
	buf_lz(&b, a->sqlstate);
	buf_lz(&b, a->message);
	buf_put(&b, a->sent.b, HASH_LEN);
	upstream_hub_core(h, MSG_U_PREVIEWED, &b);
}
