/*
 * Signature checks only: nothing here can sign (an approval verifier must not link the
 * signer). Ed25519 by libsodium; SSHSIG as in openssh-portable PROTOCOL.sshsig.
 */
#ifndef COMMON_SIG_H
#define COMMON_SIG_H

#include "common/err.h"
#include "common/str.h"

#define SIG_ED25519_PUB 32
#define SIG_ED25519_SIG 64
#define SIG_SSHSIG_MAX 4096 /* bytes of an armored signature */

bool sig_ed25519_verify(
    const uint8_t pub[SIG_ED25519_PUB], struct str msg, const uint8_t sig[SIG_ED25519_SIG]);

/* An enrolled key: "ssh-ed25519 AAAA... [comment]" or the sk- form. */
struct sig_pubkey {
	bool hardware; /* sk-ssh-ed25519@openssh.com */
	uint8_t pub[SIG_ED25519_PUB];
	char application[128]; /* sk: relying party, e.g. "ssh:" */
};
int sig_pubkey_parse(struct str line, struct sig_pubkey *ret, struct err *err);
/* "SHA256:<unpadded base64>" as ssh-keygen -l prints; out holds 64 bytes. */
void sig_pubkey_fingerprint(const struct sig_pubkey *k, char out[64]);
bool sig_pubkey_eq(const struct sig_pubkey *a, const struct sig_pubkey *b);

struct sig_sshsig {
	struct sig_pubkey key; /* the key the blob claims; compare with an enrolled one */
	uint8_t flags;	       /* sk: 0x01 touched, 0x04 user verified */
	uint32_t counter;      /* sk */
};
/*
 * Verify an armored SSHSIG (BEGIN/END SSH SIGNATURE) over msg in namespace ns, hash sha512
 * only, reserved empty, exact lengths, no trailing bytes. A hardware signature without the
 * touch flag is refused. On success *ret tells by which key. ERR_SIGNATURE names what was wrong:
 * "namespace is \"file\", must be \"cofferdam-approval\"".
 */
int sig_sshsig_verify(
    struct str armored, const char *ns, struct str msg, struct sig_sshsig *ret, struct err *err);

#endif
