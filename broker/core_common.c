/*
 * Small things that all parts of core use: the instant of judging, ids, a frame for a peer
 * (process: core). The clock never goes behind a time that was judged by before.
 */
#include <stdio.h>

#include "broker/core.h"

#include "common/banned.h"

struct instant
core_now(struct core *c)
{
	enum clock_mode mode = c->policy != NULL ? policy_clock(c->policy) : CLOCK_MODE_KERNEL_SYNC;
	struct instant now = clock_now(mode, c->last_us);

	if (now.us > c->last_us)
		c->last_us = now.us;
	return now;
}

void
core_id(char out[CORE_ID_SIZE], const char *prefix)
{
	AUTO_BUF struct buf b = BUF(CORE_ID_SIZE);
	uint8_t r[16];

	rand_bytes(r, sizeof(r));
	enc_base32(&b, str_mem(r, sizeof(r)));
	(void)snprintf(out, CORE_ID_SIZE, "%s%.*s", prefix, STR_ARG(buf_str(&b)));
}

void
core_send(const struct core_peer *p, uint16_t type, const struct buf *body)
{
	if (p != NULL && p->wire != NULL)
		ipc_send(p->wire, type, body, NULL, 0);
}
