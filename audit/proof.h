/*
 * Proofs of single records that stand alone: C2SP tlog-proof files whose extra data is the BODY.
 * Whoever has the log's key needs nothing else to check one (docs/format-log.md, "Proofs").
 */
#ifndef AUDIT_PROOF_H
#define AUDIT_PROOF_H

#include "audit/checkpoint.h"
#include "audit/record.h"

#define PROOF_MAX ((size_t)131072) /* bytes of a file */

/*
 * The proof of record `seq` against a checkpoint that holds (its note goes in as it is). Reads
 * leaves files where there are some: the root that was signed tells whether they are right.
 * `line`: the record's line as somebody has it, for one that was pruned; else empty.
 * ERR_NOT_FOUND: not covered, or not there; ERR_TAMPER: what lies there is not what was signed.
 */
int proof_make(int logdir, const struct vkeys *keys, struct str note, uint64_t seq, struct str line,
    struct buf *out, struct err *err);

struct proof {
	struct record record; /* borrows from `body` of proof_open */
	struct checkpoint cp;
	const struct vkey *key;
};
/*
 * Check a file by public keys alone: signature, path, that the record is one and says its own
 * number. ERR_TAMPER what it is not; ERR_CONFIG: no signature by these keys.
 */
int proof_open(struct str file, const struct vkeys *keys, struct buf *body, struct proof *ret,
    struct err *err);

#endif
