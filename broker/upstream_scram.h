/*
 * SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677, channel binding
 * tls-server-end-point of RFC 5929), the client's side. The server must prove that it
 * knows the password's verifier too: an exchange that ends without upstream_scram_finish()
 * returning 0 proves nothing.
 */
#ifndef BROKER_UPSTREAM_SCRAM_H
#define BROKER_UPSTREAM_SCRAM_H

#include "common/buf.h"
#include "common/err.h"
#include "common/secret.h"

#define SCRAM_ITERATIONS_MIN 4096   /* RFC 7677 section 4; fewer help whoever guesses */
#define SCRAM_ITERATIONS_MAX 600000 /* the loop stands still meanwhile */

struct upstream_scram;
/*
 * Takes the password, wiped with the object or as soon as it is not needed. Printable ASCII
 * only (SASLprep leaves that as it is; nothing we link does the rest), else ERR_UNSUPPORTED.
 * PostgreSQL ignores `user` here. `nonce` NULL: a random one.
 */
int upstream_scram_new(struct secret *password, struct str user, const char *nonce,
    struct upstream_scram **ret, struct err *err);
void upstream_scram_free(struct upstream_scram *s);
DEFINE_AUTO(upstream_scram, struct upstream_scram, upstream_scram_free)
/*
 * `offered`: body of AuthenticationSASL after its code. `binding`: the server certificate's
 * hash, empty when there is none (no TLS, or a certificate that has no such hash). With one and
 * no PLUS offered the header says so, and a server that did offer it sees the offer was removed.
 */
int upstream_scram_first(struct upstream_scram *s, struct str offered, struct str binding,
    const char **ret_mechanism, struct buf *out, struct err *err);
int upstream_scram_continue(
    struct upstream_scram *s, struct str server_first, struct buf *out, struct err *err);
/* 0 only when the server's signature is right. */
int upstream_scram_finish(struct upstream_scram *s, struct str server_final, struct err *err);

#endif
