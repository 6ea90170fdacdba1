/*
 * WebAuthn (W3C Web Authentication, level 2): assertions over a statement, and what a new key's
 * attestation holds. ES256 and EdDSA. Verification alone.
 */
#ifndef COMMON_SIG_WEBAUTHN_H
#define COMMON_SIG_WEBAUTHN_H

#include "common/sig.h"

#define SIG_CREDENTIAL_MAX 1023 /* bytes of a credential's id (7.1) */

/*
 * {"authenticator_data","client_data","signature"[,"credential"]}, each base64url without padding:
 * what a browser's navigator.credentials.get() gave. The challenge must be SHA-256(msg), the
 * origin and relying party those of one of the keys; someone was there and verified.
 */
int sig_webauthn_verify(struct str assertion, struct str msg, const struct sig_pubkey *keys,
    size_t nkeys, struct sig_sshsig *ret, struct err *err);

/*
 * What navigator.credentials.create() gave, both raw: the key of a new credential, bound to
 * `origin`
 * ("https://HOST[:PORT]"; its host is the relying party), and the credential's id. The challenge
 * must be these bytes. Attestation statements are not looked at: who enrols is proved elsewhere.
 */
int sig_webauthn_enrol(struct str attestation, struct str client_data, struct str challenge,
    const char *origin, struct sig_pubkey *ret, struct buf *credential, struct err *err);

/* The credential's id out of a key line "webauthn:ORIGIN CREDENTIAL KEY". */
int sig_webauthn_credential(struct str line, struct buf *ret, struct err *err);

#endif
