/* Front's TLS towards the sandbox: a key of its own per listener, a certificate from core,
 * TLS 1.2+. */
#ifndef BROKER_FRONT_TLS_H
#define BROKER_FRONT_TLS_H

#include "common/buf.h"
#include "common/err.h"

struct evp_pkey_st;
struct ssl_ctx_st;
struct ssl_st;

/* An ephemeral P-256 key; never leaves the process. */
int front_tls_key(struct evp_pkey_st **ret, struct err *err);
/* SubjectPublicKeyInfo, DER. */
int front_tls_spki(const struct evp_pkey_st *key, struct buf *out, struct err *err);
/* Leaf first, then what it is signed by. The leaf must be for this key. */
int front_tls_context(
    struct evp_pkey_st *key, struct str pem, struct ssl_ctx_st **ret, struct err *err);
/* False when the leaf ends within the hour: time for another. */
bool front_tls_fresh(const struct ssl_ctx_st *ctx);
int front_tls_accept(struct ssl_ctx_st *ctx, int fd, struct ssl_st **ret, struct err *err);

#endif
