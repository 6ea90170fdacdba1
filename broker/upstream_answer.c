/*
 * A server's answer on its way to front. Runs in upstream. What streams goes at once, in frames;
 * the end of it is withheld until core has recorded the outcome, and all of it where rows are
 * counted.
 */
#include "broker/upstream_act.h"

#include <assert.h>

#include "common/banned.h"

void
upstream_act_frame(struct upstream_conn *c, uint64_t act, bool hold, struct str bytes)
{
	if (c->act != NULL && c->act->id == act)
		upstream_seal_add(c->act->seal, bytes);
	while (bytes.n != 0) {
		size_t n = bytes.n < UPSTREAM_FRAME_BYTES ? bytes.n : UPSTREAM_FRAME_BYTES;
		AUTO_BUF struct buf b = BUF(UPSTREAM_FRAME_BYTES + 64);

		buf_u64(&b, c->id);
		buf_u64(&b, act);
		buf_u8(&b, hold);
		buf_lstr(&b, str_mem(bytes.p, n));
		upstream_hub_front(c->hub, MSG_UF_DATA, &b);
		bytes.p += n;
		bytes.n -= n;
	}
	if (c->hub->front != NULL && ipc_queued(c->hub->front) > UPSTREAM_QUEUE_HIGH)
		c->throttled = c->hub->throttled = true;
}

void
upstream_answer_drain(struct upstream_conn *c, struct buf *b, bool hold)
{
	assert(!buf_over(b)); /* what upstream_answer_put() lets in fits */
	c->act->bytes += b->n;
	upstream_act_frame(c, c->act->id, hold, buf_str(b));
	buf_reset(b);
}

void
upstream_act_flush(struct upstream_conn *c)
{
	if (c->act != NULL && c->act->stream.n != 0)
		upstream_answer_drain(c, &c->act->stream, false);
}

void
upstream_act_release(struct upstream_conn *c, struct str last)
{
	upstream_act_flush(c);
	upstream_answer_drain(c, &c->act->held, false);
	upstream_answer_drain(c, &c->act->tail, false);
	c->act->bytes += last.n;
	upstream_act_frame(c, c->act->id, false, last);
}

/* Withheld until counted, up to a bound; what is over it is read and forgotten. */
static void
hold(struct upstream_act *a, struct str bytes)
{
	buf_put_str(&a->held, bytes);
	if (buf_over(&a->held) && a->over == ACT_OVER_NOT)
		a->over = ACT_OVER_SIZE;
}

/* Behind a completion all waits, so that it goes out last; a long answer is not kept for that. */
void
upstream_answer_put(struct upstream_conn *c, struct str bytes, bool tail)
{
	struct upstream_act *a = c->act;

	if (a->preview)
		return;
	if (a->hold_all) {
		hold(a, bytes);
		return;
	}
	if (!tail && a->tail.n == 0) {
		buf_put_str(&a->stream, bytes);
		if (a->stream.n >= UPSTREAM_FRAME_BYTES)
			upstream_answer_drain(c, &a->stream, false);
		return;
	}
	if (a->tail.n + bytes.n > UPSTREAM_TAIL_BYTES) {
		upstream_act_flush(c);
		upstream_answer_drain(c, &a->tail, false);
	}
	buf_put_str(&a->tail, bytes);
}

void
upstream_act_body(struct upstream_conn *c, struct str bytes)
{
	if (c->act->preview) {
		hold(c->act, bytes);
		return;
	}
	/* Of an own statement only what the server adds by itself is for the client. */
	if (c->act->phase == ACT_RUN ||
	    (bytes.n != 0 && (bytes.p[0] == 'N' || bytes.p[0] == 'A' || bytes.p[0] == 'S')))
		upstream_answer_put(c, bytes, false);
}
