/*
 * Data of COPY FROM STDIN, from the client to upstream. Runs in front on hostile bytes. They are
 * data, not statements: core has allowed the statement, upstream asks for them and says how many it
 * will take, and they go there as they come, however large the client makes its messages.
 */
#include "broker/front_pg.h"

#include <stdio.h>

#include "common/banned.h"

#define FRAME_MAX ((size_t)64 << 10)
#define WHY_MAX ((size_t)1000)
#define CODE_DATA 'd'

static void
tell(struct front_conn *c, enum front_copy_how how, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(FRAME_MAX + 64);

	buf_u64(&b, c->id);
	buf_u64(&b, c->pg->act);
	buf_u8(&b, (uint8_t)how);
	buf_lstr(&b, bytes);
	front_hub_upstream(c->hub, MSG_FU_COPY, &b);
}

/* Of the CopyData message that is passing; false: not now. */
static bool
some_data(struct front_conn *c)
{
	struct front_copy *y = &c->pg->copy;
	struct str in = front_conn_in(c);
	size_t n = in.n < y->left ? in.n : y->left;

	if (n > y->credit)
		n = y->credit;
	if (n > FRAME_MAX)
		n = FRAME_MAX;
	if (n == 0 || front_hub_busy(c, c->hub->upstream))
		return false;
	tell(c, FRONT_COPY_DATA, str_mem(in.p, n));
	c->in_at += n;
	y->left -= n;
	y->credit -= n;
	return true;
}

static void
end(struct front_conn *c, enum front_copy_how how, struct str why)
{
	if (why.n > WHY_MAX)
		why.n = WHY_MAX;
	c->pg->copy.open = false;
	tell(c, how, why);
}

static void
failed(struct front_conn *c, const struct pgwire_msg *m)
{
	char why[80];

	(void)snprintf(why, sizeof(why), "unexpected message type 0x%02X during COPY from stdin",
	    (unsigned)(uint8_t)m->type);
	end(c, FRONT_COPY_FAIL, str_z(why));
}

/* Something else than data: as the server takes it in the middle of a COPY. */
static bool
other(struct front_conn *c, const struct pgwire_msg *m)
{
	struct rd r = rd_init(m->body);

	switch (m->type) {
	case 'c': end(c, FRONT_COPY_DONE, STR("")); break;
	case 'f': end(c, FRONT_COPY_FAIL, pgwire_rd_z(&r)); break;
	case 'S':
	case 'H': break;
	case 'X': front_conn_end(c); return false;
	default: failed(c, m); break;
	}
	c->in_at += m->whole.n;
	return c->pg->copy.open;
}

int
front_pg_copy_head(struct front_conn *c)
{
	struct str in = front_conn_in(c);
	struct rd r = rd_init(in);
	uint32_t len;

	if (in.n == 0 || (in.n >= 5 && in.p[0] != CODE_DATA))
		return -1;
	(void)rd_u8(&r);
	len = rd_u32(&r);
	if (r.bad)
		return 0;
	if (len < 4 || len > INT32_MAX) {
		front_pg_last_words(c, "08P01", "CopyData of an impossible length");
		return 0;
	}
	c->in_at += 5;
	c->pg->copy.left = len - 4;
	return 1;
}

bool
front_pg_copy_step(struct front_conn *c)
{
	struct pgwire_msg m;
	struct err err = {0};
	int rc;

	if (!c->pg->copy.open)
		return false;
	if (c->pg->copy.left != 0)
		return some_data(c);
	rc = front_pg_copy_head(c);
	if (rc >= 0)
		return rc == 1;
	rc = pgwire_next(front_conn_in(c), PGWIRE_MESSAGE_MAX, &m, &err);
	if (rc > 0)
		rc = pgwire_check_frontend(&m, &err);
	else if (rc == 0)
		return false;
	if (rc < 0) {
		front_pg_last_words(c, err_sqlstate(err.code), err.msg);
		return false;
	}
	return other(c, &m);
}

bool
front_pg_copy_drop(struct front_conn *c)
{
	size_t n = front_conn_in(c).n;

	if (n > c->pg->copy.left)
		n = c->pg->copy.left;
	c->in_at += n;
	c->pg->copy.left -= n;
	return c->pg->copy.left == 0;
}

void
front_pg_copy_more(struct front_conn *c, uint64_t act, bool open, uint32_t n)
{
	struct front_copy *y = &c->pg->copy;

	if (c->pg->state != FRONT_PG_ACT || act != c->pg->act)
		return;
	if (open) {
		y->open = true;
		y->credit = 0;
		/* The server reads over this Sync; the client sends another one behind its data. */
		if (c->pg->kind == FRONT_SYNC)
			c->pg->kind = FRONT_FLUSH;
	}
	y->credit += n;
	front_conn_kick(c);
}
