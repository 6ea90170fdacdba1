/* Inclusion proofs for many records of one log: the leaves once, then each proof in log(n) steps.
 */
#ifndef AUDIT_REPLAY_PROOF_H
#define AUDIT_REPLAY_PROOF_H

#include "audit/tree.h"

struct proofs;
struct proofs *proofs_new(void);
void proofs_free(struct proofs *p);
DEFINE_AUTO(proofs, struct proofs, proofs_free)
void proofs_leaf(struct proofs *p, const struct hash *leaf); /* each, in order */
/* No leaf comes after this. size: the checkpoint's; at most as many as there were leaves. */
void proofs_seal(struct proofs *p, uint64_t size);
struct hash proofs_root(const struct proofs *p);
/* RFC 6962 2.1.1 for leaf `index` of the sealed size; how many hashes were written, 0 also where
 * the checkpoint does not cover it. */
size_t proofs_get(const struct proofs *p, uint64_t index, struct hash out[TREE_PROOF_MAX]);
const struct hash *proofs_leaf_at(const struct proofs *p, uint64_t index); /* NULL: none */

#endif
