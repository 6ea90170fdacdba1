/*
 * The order to prune: a note signed with the log's key, which a person with that key lays into the
 * log's directory and the writer carries out (docs/format-log.md, "Pruned").
 */
#ifndef AUDIT_PRUNE_ORDER_H
#define AUDIT_PRUNE_ORDER_H

#include "audit/checkpoint.h"

#define PRUNE_ORDER_MAX 4096
#define PRUNE_BY_MAX 63	     /* bytes, printable ASCII */
#define PRUNE_REASON_MAX 256 /* the same */

struct prune_order {
	struct checkpoint to; /* the log up to the first record that stays */
	uint64_t from;	      /* the first that is there now */
	uint64_t segments, bytes, kept;
	struct hash kept_sha256; /* audit/pruned.h kept_digest() */
	char by[PRUNE_BY_MAX + 1], reason[PRUNE_REASON_MAX + 1];
};
void prune_order_text(struct buf *out, const struct prune_order *o);
/* ERR_TAMPER: not of the form, or not signed; ERR_CONFIG: by none of these keys. */
int prune_order_open(
    struct str note, const struct vkeys *keys, struct prune_order *ret, struct err *err);

#endif
