/*
 * Content outside the chain: one AEAD frame per blob (XChaCha20-Poly1305) with a key of its own,
 * which stands in it wrapped by the run's; appended to the pack beside the segment. The record
 * holds a salted commitment, so erasing the run's key erases the content and a guess cannot be
 * confirmed. Linked by core, upstream (sealing) and the command line.
 */
#ifndef AUDIT_BLOB_H
#define AUDIT_BLOB_H

#include "common/hash.h"
#include "common/jcs.h"
#include "common/secret.h"

#define BLOB_KEY_LEN 32
#define BLOB_WRAP_LEN 72 /* a wrapped key: nonce, key, tag */
#define BLOB_PLAIN_MAX ((size_t)2 << 20)

struct blob_ref {
	struct hash c;	/* SHA-256("cofferdam-blob/v1\0" || salt32 || plaintext) */
	struct hash ct; /* SHA-256 of wrap, nonce and ciphertext */
	char kid[72];	/* key id: the run */
	uint64_t len;	/* plaintext bytes */
	char media[64];
};
/* A key for one frame, to be lent to who seals it, and the same wrapped by the run's. */
int blob_key_new(const struct secret *run_key, struct str kid, struct secret **ret_key,
    uint8_t ret_wrap[BLOB_WRAP_LEN], struct err *err);
/* Seal with such a key. */
int blob_seal_with(const struct secret *key, const uint8_t wrap[BLOB_WRAP_LEN], struct str kid,
    const char *media, struct str plaintext, struct buf *frame, struct blob_ref *ret,
    struct err *err);
/* Seal plaintext under a new key; the frame is appended to `frame` (its own length inside,
 * self-delimiting). */
int blob_seal(const struct secret *run_key, struct str kid, const char *media, struct str plaintext,
    struct buf *frame, struct blob_ref *ret, struct err *err);
void blob_ref_jcs(
    struct jcs *j, const char *key, const struct blob_ref *r); /* {"c","ct","kid","len","media"} */
int blob_ref_parse(const struct json *v, struct blob_ref *ret, struct err *err);
/* Check form and ct of the frame at s (may be followed by more); *ret_len = its bytes. */
int blob_frame_check(struct str s, size_t *ret_len, struct hash *ret_ct, struct err *err);
/* Where in s the next frame may begin; s.n: nowhere. */
size_t blob_frame_find(struct str s);
/* Form and length alone, without hashing (the writer, for each frame it appends). */
int blob_frame_len(struct str s, size_t *ret_len, struct err *err);
/*
 * Open a frame and check it against the reference. ERR_TAMPER: another frame, or not the content
 * that the record committed to; ERR_CRYPTO: not with this key.
 */
int blob_open(const struct secret *run_key, struct str frame, const struct blob_ref *ref,
    struct buf *plain, struct err *err);

#endif
