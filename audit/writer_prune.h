/*
 * Carrying out an order to prune (audit/prune_order.h), in steps that are short: between two of
 * them records are appended. What a step has done is durable.
 */
#ifndef AUDIT_WRITER_PRUNE_H
#define AUDIT_WRITER_PRUNE_H

#include "audit/writer_store.h"

struct prune;
struct prune *prune_new(struct store *s);
void prune_free(struct prune *p);

enum prune_next {
	PRUNE_IDLE = 0,	  /* there is no order, or it was refused and said so: look again later */
	PRUNE_MORE = 1,	  /* again soon */
	PRUNE_COMMIT = 2, /* its record is queued: commit, sign, then go on */
};
/* enum prune_next; an error is one of write or sync, after which the log must stop. */
int prune_step(struct prune *p, struct err *err);
/* All records before it may be gone from now on: a record that was committed says so. 0: none. */
uint64_t prune_to(const struct prune *p);

#endif
