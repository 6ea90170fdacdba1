/* Shared by common/sig*.c alone. */
#ifndef COMMON_SIG_INT_H
#define COMMON_SIG_INT_H

#include "common/sig.h"

/* What is quoted from outside, made safe and short. */
struct sig_quote {
	char z[84];
};
struct sig_quote sig_quote(struct str s);

/* A key blob: string type, then by type string curve, string key, string application. */
int sig_key_from_blob(struct str blob, struct sig_pubkey *ret, struct err *err);
const char *sig_type_name(const struct sig_pubkey *k);
/* BEGIN line, lines of base64, END line, at most one LF behind; no CR, no blank line. */
int sig_unarmor(
    struct str s, const char *begin, const char *end, struct buf *blob, struct err *err);
/* sig_webauthn.c: "webauthn:ORIGIN CREDENTIAL KEY". */
int sig_webauthn_line(struct str line, struct sig_pubkey *ret, struct buf *cred, struct err *err);
void sig_webauthn_put(struct buf *out, const struct sig_pubkey *k, struct str credential);

#endif
