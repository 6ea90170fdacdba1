/*
 * Data of COPY FROM STDIN, from front to the server. Runs in upstream. Front may lie: its bytes are
 * put into CopyData messages made here, so that they can be nothing else, and only between the
 * server's CopyInResponse and the end of the data, and never more than it was told to send.
 */
#include "broker/upstream_copy.h"

#include "broker/upstream_act.h"

#include "common/banned.h"

#define FAIL_MAX 1000

static void
tell(struct upstream_conn *c, bool open, size_t n)
{
	AUTO_BUF struct buf b = BUF(64);

	c->copy.credit += n;
	buf_u64(&b, c->id);
	buf_u64(&b, c->copy.act);
	buf_u8(&b, open);
	buf_u32(&b, (uint32_t)n);
	upstream_hub_front(c->hub, MSG_UF_COPY, &b);
}

int
upstream_copy_open(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err)
{
	struct upstream_act *a = c->act;

	if (!a->copy_in || a->phase != ACT_RUN)
		return err_set(
		    err, ERR_UNSUPPORTED, "the server asks for COPY data, which is not leased");
	/* Core leases a limited one alone; before it nothing can have been completed. */
	if (a->over != ACT_OVER_NOT)
		return err_set(
		    err, ERR_PROTOCOL, "COPY FROM STDIN behind a statement under a row limit");
	/* The server reads over a Sync that it finds among the data; this one it never gets. */
	if (a->kind == ACT_SYNC)
		a->kind = ACT_FLUSH;
	a->sync_owed = false;
	if (a->copied == NULL)
		a->copied = hash_begin();
	upstream_act_release(c, m->whole);
	c->copy = (struct upstream_copy){.act = a->id, .state = COPY_OPEN};
	tell(c, true, UPSTREAM_COPY_WINDOW);
	return 0;
}

void
upstream_copy_more(struct upstream_conn *c)
{
	size_t held = c->copy.credit + (c->out.n - c->out_at);

	if (c->copy.state == COPY_OPEN && held <= UPSTREAM_COPY_WINDOW / 2)
		tell(c, false, UPSTREAM_COPY_WINDOW - held);
}

void
upstream_copy_stop(struct upstream_conn *c)
{
	if (c->copy.state == COPY_OPEN)
		c->copy.state = COPY_STOPPED;
}

static void
end(struct upstream_conn *c, uint8_t how, struct str why)
{
	struct upstream_act *a = c->act;
	AUTO_BUF struct buf out = BUF(2 * FAIL_MAX);
	char text[FAIL_MAX];

	c->copy.state = COPY_ENDED;
	upstream_plan_filled(&a->plan);
	upstream_text(why, text, sizeof(text));
	if (how == COPY_HOW_DONE)
		pgwire_put_copy_done(&out);
	else
		pgwire_put_copy_fail(&out, str_z(text));
	/* Nothing else makes the server tell its answer before the client's Sync. */
	if (a->kind != ACT_QUERY)
		pgwire_put_flush(&out);
	upstream_conn_send(c, buf_str(&out));
}

static void
data(struct upstream_conn *c, struct str bytes)
{
	struct upstream_act *a = c->act;
	AUTO_BUF struct buf out = BUF(bytes.n + 16);

	if (bytes.n == 0)
		return;
	hash_add(a->copied, bytes.p, bytes.n);
	a->copied_bytes += bytes.n;
	pgwire_put_copy_data(&out, bytes);
	upstream_conn_send(c, buf_str(&out));
	if (c->state != UP_DEAD)
		upstream_copy_more(c);
}

void
upstream_copy_on(struct upstream_conn *c, uint64_t act, uint8_t how, struct str bytes)
{
	struct upstream_copy *y = &c->copy;
	bool open = y->state == COPY_OPEN, stopped = y->state == COPY_STOPPED;

	if (act < y->act) /* of one that the server has failed; the two crossed */
		return;
	if (act != y->act || (!open && !stopped) || how > COPY_HOW_FAIL ||
	    (how == COPY_HOW_DATA && bytes.n > y->credit)) {
		upstream_conn_end(c, "08P01", "COPY data came that was not asked for");
		return;
	}
	if (how == COPY_HOW_DATA)
		y->credit -= bytes.n;
	if (open && how == COPY_HOW_DATA)
		data(c, bytes);
	else if (open)
		end(c, how, bytes);
	else if (how != COPY_HOW_DATA)
		y->state = COPY_ENDED;
}
