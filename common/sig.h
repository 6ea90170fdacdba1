/*
 * Signature checks only: nothing here can sign (an approval verifier must not link the signer).
 * A signature by a person is one of three texts: SSHSIG (openssh-portable PROTOCOL.sshsig), our
 * own form for keys of `cofferdam key new`, and a WebAuthn assertion as JSON.
 * docs/format-approval.md has them byte by byte.
 */
#ifndef COMMON_SIG_H
#define COMMON_SIG_H

#include "common/buf.h"
#include "common/err.h"

#define SIG_ED25519_PUB 32
#define SIG_ED25519_SIG 64
#define SIG_PUB_MAX 136	    /* the point of P-521, and room */
#define SIG_SSHSIG_MAX 4096 /* bytes of an armored signature, or of an assertion */

#define SIG_TOUCHED 0x01  /* of flags: someone was there */
#define SIG_VERIFIED 0x04 /* of flags: and gave a PIN or a finger */

bool sig_ed25519_verify(
    const uint8_t pub[SIG_ED25519_PUB], struct str msg, const uint8_t sig[SIG_ED25519_SIG]);

enum sig_alg { SIG_ED25519 = 0, SIG_P256, SIG_P384, SIG_P521 };
enum sig_form {
	SIG_FORM_SSH = 0,
	SIG_FORM_SK,	   /* a security key behind OpenSSH */
	SIG_FORM_NATIVE,   /* `cofferdam key new` */
	SIG_FORM_WEBAUTHN, /* a security key or a telephone behind a browser */
};

/*
 * An enrolled key: "ssh-ed25519 AAAA... [comment]", ecdsa-sha2-nistp256/384/521, the sk- forms of
 * Ed25519 and P-256, "cofferdam-ed25519 AAAA...", or "webauthn:ORIGIN CREDENTIAL KEY".
 */
struct sig_pubkey {
	enum sig_form form;
	enum sig_alg alg;
	bool hardware;		  /* sk or webauthn: each signature tells its flags */
	uint8_t pub[SIG_PUB_MAX]; /* 32 bytes, or the point 04 X Y; zeros behind */
	char application[128];	  /* sk: relying party, e.g. "ssh:"; webauthn: the origin */
};
int sig_pubkey_parse(struct str line, struct sig_pubkey *ret, struct err *err);
/*
 * The key as its line has it, without comment; `credential`: of a WebAuthn key, raw.
 * sig_pubkey_parse of what is put gives the same key.
 */
void sig_pubkey_put(struct buf *out, const struct sig_pubkey *k, struct str credential);
/* "SHA256:<unpadded base64>" as ssh-keygen -l prints; out holds 64 bytes. */
void sig_pubkey_fingerprint(const struct sig_pubkey *k, char out[64]);
bool sig_pubkey_eq(const struct sig_pubkey *a, const struct sig_pubkey *b);
size_t sig_pub_size(enum sig_alg alg);

struct sig_sshsig {
	struct sig_pubkey key; /* the key the blob claims; compare with an enrolled one */
	uint8_t flags;	       /* hardware: SIG_TOUCHED, SIG_VERIFIED */
	uint32_t counter;      /* hardware */
};
/*
 * Verify an armored SSHSIG (BEGIN/END SSH SIGNATURE) over msg in namespace ns, hash sha512
 * only, reserved empty, exact lengths, no trailing bytes. A hardware signature without the
 * touch flag is refused. On success *ret tells by which key. ERR_SIGNATURE names what was wrong:
 * "namespace is \"file\", must be \"cofferdam-approval\"".
 */
int sig_sshsig_verify(
    struct str armored, const char *ns, struct str msg, struct sig_sshsig *ret, struct err *err);
/* The same for the own form (BEGIN/END COFFERDAM SIGNATURE). */
int sig_native_verify(
    struct str armored, const char *ns, struct str msg, struct sig_sshsig *ret, struct err *err);
/*
 * Any of the three, told apart by how the text begins. An assertion names no key: it is tried with
 * the WebAuthn keys among `keys`, and is accepted for statements alone, whose first line says what
 * they are.
 */
int sig_verify(struct str text, const char *ns, struct str msg, const struct sig_pubkey *keys,
    size_t nkeys, struct sig_sshsig *ret, struct err *err);
/* What a key of the own form signs: domain, namespace, message. */
void sig_native_data(const char *ns, struct str msg, struct buf *out);
#define SIG_NATIVE_TYPE "cofferdam-ed25519"
#define SIG_NATIVE_BEGIN "-----BEGIN COFFERDAM SIGNATURE-----"
#define SIG_NATIVE_END "-----END COFFERDAM SIGNATURE-----"

#endif
