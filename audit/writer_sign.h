/*
 * The signer of heads. It keeps its own tree of what it has signed, is fed the leaves since, and
 * signs the head that these give: one that does not extend the last cannot be made.
 */
#ifndef AUDIT_WRITER_SIGN_H
#define AUDIT_WRITER_SIGN_H

#include "audit/checkpoint.h"
#include "audit/tree.h"
#include "common/secret.h"

struct signer;
/* seed: 32 bytes (copied); the key must be the one of vkey, whose name is the origin. */
int signer_new(
    const struct secret *seed, const struct vkey *vkey, struct signer **ret, struct err *err);
void signer_free(struct signer *s);
const struct vkey *signer_vkey(const struct signer *s);
/* What was signed last, as found on disk and checked; only once. */
void signer_resume(struct signer *s, const struct tree_range *signed_tree);
/* Sign the head behind these leaves; it must be of this size and root. ERR_TAMPER: it is not. */
int signer_sign(struct signer *s, const struct hash *leaves, size_t n, uint64_t size,
    const struct hash *root, struct buf *note, struct err *err);

#endif
