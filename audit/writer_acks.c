/*
 * Answers that wait. Runs in the writer. What is sent here is believed to be on the disk: it must
 * be called after the sync, and for ACK_CHECKPOINT after the signature.
 */
#include "audit/writer_acks.h"

#include "common/xalloc.h"

#include "common/banned.h"

void
acks_add(struct acks *a, const struct ack *one)
{
	if (a->n == a->cap) {
		a->cap = a->cap != 0 ? 2 * a->cap : 64;
		a->p = xreallocarray(a->p, a->cap, sizeof(*a->p));
	}
	a->p[a->n++] = *one;
}

uint8_t
acks_flags(const struct acks *a)
{
	uint8_t all = 0;

	for (size_t i = 0; i < a->n; i++)
		all |= a->p[i].flags;
	return all;
}

void
acks_send(const struct acks *a, struct ipc *core, uint64_t size, bool checkpoint)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct ack *k = &a->p[i];
		AUTO_BUF struct buf b = BUF(256);

		if (((k->flags & ACK_CHECKPOINT) != 0) != checkpoint)
			continue;
		buf_u64(&b, k->ticket);
		buf_u64(&b, k->seq);
		buf_u64(&b, size);
		buf_put(&b, k->root.b, HASH_LEN);
		buf_put(&b, k->leaf.b, HASH_LEN);
		ipc_send(core, MSG_W_ACK, &b, NULL, 0);
	}
}
