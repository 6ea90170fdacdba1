/* The packs of sealed blobs beside the segments, and which member of a record refers to one. */
#ifndef AUDIT_PACK_H
#define AUDIT_PACK_H

#include "audit/blob.h"
#include "audit/record.h"

/* The blob reference of a record, as stored. False: records of this type have none. */
bool pack_ref(const struct record *r, struct str *ret_ref);
/* Its ciphertext hash. False: no reference, or not of the form. */
bool pack_ref_ct(const struct record *r, struct hash *ret_ct);

struct pack;
int pack_open(int logdir, uint64_t first, struct pack **ret, struct err *err);
void pack_free(struct pack *p);
/*
 * 1: the next frame (good until the next call) with the hash of its ciphertext; 0: the end. What is
 * no frame is skipped to the next one that is: pack_skipped tells where that first happened.
 */
int pack_next(struct pack *p, struct str *ret_frame, struct hash *ret_ct, struct err *err);
uint64_t pack_tell(const struct pack *p); /* the byte behind the frame given last */
bool pack_skipped(const struct pack *p, uint64_t *ret_off);

#endif
