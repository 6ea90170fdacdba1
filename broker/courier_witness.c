/*
 * Carries what the writer asks of witnesses, and what they answer. Runs in the courier. It makes no
 * request and judges no answer: what it could change, the writer and the witness would find wrong.
 */
#include "broker/courier.h"

#include "common/banned.h"

#define ANSWER_MAX ((size_t)8192) /* COSIGN_ANSWER_MAX: more is no witness' answer */

void
courier_witness_done(struct hook *h, unsigned status, struct str body, const char *why)
{
	AUTO_BUF struct buf b = BUF(16384);

	h->state = HOOK_IDLE;
	if (body.n > ANSWER_MAX) {
		status = 0;
		body = STR("");
		why = "an answer of more than 8192 bytes";
	}
	if (h->c->writer == NULL)
		return; /* a new one asks anew */
	buf_u32(&b, h->i - WEBHOOKS_MAX);
	buf_u64(&b, h->carry);
	buf_u16(&b, (uint16_t)status);
	buf_lstr(&b, body);
	buf_lz(&b, why);
	ipc_send(h->c->writer, MSG_W_CARRIED, &b, NULL, 0);
}

int
courier_witness_on_carry(struct courier *c, struct rd *body, struct err *err)
{
	uint32_t i = rd_u32(body);
	uint64_t id = rd_u64(body);
	struct str request = rd_lstr(body);
	struct hook *h;

	if (!rd_end(body) || i >= c->nwitnesses)
		return err_set(err, ERR_PROTOCOL, "malformed");
	h = &c->witnesses[i];
	h->carry = id;
	if (h->state == HOOK_BROKEN) {
		AUTO_FREE char *why = str_dup(str_z(h->count.why));

		courier_witness_done(h, 0, STR(""), why);
		h->state = HOOK_BROKEN;
		return 0;
	}
	courier_http_drop(h); /* of a writer that is gone */
	buf_reset(&h->body);
	buf_put_str(&h->body, request);
	h->state = HOOK_SENDING;
	courier_http_send(h);
	return 0;
}
