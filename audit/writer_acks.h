/* Answers to core that wait for the batch their records are in. Runs in the writer. */
#ifndef AUDIT_WRITER_ACKS_H
#define AUDIT_WRITER_ACKS_H

#include "common/hash.h"
#include "common/ipc.h"

#define ACK_CHECKPOINT 1 /* flags of W_APPEND: a signed head first */
#define ACK_ROOT 2	 /* the root behind the record is wanted */
#define ACK_WITNESS 4	 /* a signed head, and witnesses are asked at once */

struct ack {
	uint64_t ticket, seq;
	uint8_t flags;
	struct hash root, leaf;
};

struct acks {
	struct ack *p;
	size_t n, cap;
};
void acks_add(struct acks *a, const struct ack *one);
uint8_t acks_flags(const struct acks *a); /* of any of them */
/* Those with the flag ACK_CHECKPOINT, or those without; `size` is what is durable. They stay in the
 * list. */
void acks_send(const struct acks *a, struct ipc *core, uint64_t size, bool checkpoint);

#endif
