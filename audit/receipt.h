/*
 * Receipts of records, `ORIGIN#SEQ:HASH:SIZE`: which record of which log an answer was given for,
 * its leaf hash, and how many records were durable then. Whoever keeps one can tell later whether
 * the log still holds that record as it was (docs/format-log.md, "Receipts").
 */
#ifndef AUDIT_RECEIPT_H
#define AUDIT_RECEIPT_H

#include "audit/checkpoint.h"

#define RECEIPT_MAX ((size_t)(3 * ORIGIN_MAX + 2 * 20 + HASH_HEX_SIZE + 3)) /* bytes of text */

struct receipt {
	uint64_t seq, size; /* size 0: there is none */
	struct hash leaf;
};
/* Printable ASCII without spaces and quotes: other bytes of the origin are escaped as %XX. */
void receipt_put(struct buf *out, struct str origin, const struct receipt *r);
/* *ret_origin: escaped, as it stands; borrows from s. ERR_INVALID: not of that form. */
int receipt_parse(struct str s, struct str *ret_origin, struct receipt *ret, struct err *err);
/* Is that the escaped form of this origin? */
bool receipt_is_of(struct str escaped, struct str origin);

#endif
