/* ECDSA over the NIST curves P-256, P-384 and P-521, verification alone. */
#ifndef COMMON_SIG_ECDSA_H
#define COMMON_SIG_ECDSA_H

#include "common/sig.h"

const char *sig_ecdsa_curve(enum sig_alg alg); /* "nistp256"; NULL: not ECDSA */
/* Is it an uncompressed point (04 X Y) of the right length, and on the curve? */
bool sig_ecdsa_point(enum sig_alg alg, struct str point);
/* rs as SSH has it: mpint r, mpint s (RFC 5656 3.1.2), nothing behind. Hash by curve. */
bool sig_ecdsa_verify_ssh(enum sig_alg alg, const uint8_t *point, struct str msg, struct str rs);
/* DER, as X.509 and WebAuthn have it; only its one encoding. */
bool sig_ecdsa_verify_der(enum sig_alg alg, const uint8_t *point, struct str msg, struct str der);

#endif
