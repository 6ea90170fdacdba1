/* Answers to core that wait for the batch their records are in. Runs in the writer. */
#ifndef AUDIT_WRITER_ACKS_H
#define AUDIT_WRITER_ACKS_H

#include "common/hash.h"
#include "common/ipc.h"

#define ACK_CHECKPOINT 1 /* flags of W_APPEND: a signed head first */
#define ACK_ROOT 2	 /* the root behind the record is wanted */

struct ack {
	uint64_t ticket, seq;
	uint8_t flags;
	struct hash root;
};

struct acks {
	struct ack *p;
	size_t n, cap;
};
void acks_add(struct acks *a, const struct ack *one);
bool acks_want_checkpoint(const struct acks *a);
/* Those with the flag ACK_CHECKPOINT, or those without; `size` is what is durable. They stay in the
 * list. */
void acks_send(const struct acks *a, struct ipc *core, uint64_t size, bool checkpoint);

#endif
