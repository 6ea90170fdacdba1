/* The little CBOR that WebAuthn needs (RFC 8949, canonical as CTAP2 has it), and COSE keys. */
#ifndef COMMON_SIG_COSE_H
#define COMMON_SIG_COSE_H

#include "common/sig.h"

enum cbor_major {
	CBOR_UINT = 0,
	CBOR_NINT,
	CBOR_BYTES,
	CBOR_TEXT,
	CBOR_ARRAY,
	CBOR_MAP,
	CBOR_TAG,
	CBOR_SIMPLE
};

/* The head of the next item, in its shortest form, of definite length; false: it is not. */
bool cbor_head(struct rd *r, enum cbor_major *ret_major, uint64_t *ret_n);
/* A byte or text string. */
bool cbor_string(struct rd *r, enum cbor_major major, struct str *ret);
/* Any one item, whatever it holds; at most 8 deep, 64 items. */
bool cbor_skip(struct rd *r);

/* One COSE key at the front of r: ES256 on P-256, or EdDSA on Ed25519, nothing else in its map. */
bool cose_key_read(struct rd *r, struct sig_pubkey *ret);
void cose_key_put(struct buf *out, const struct sig_pubkey *k);

#endif
