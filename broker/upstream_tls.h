/*
 * The client side of TLS towards a target: verify-full against the target's own CA and
 * nothing else, TLS 1.2 or newer. There is no way to ask for less.
 */
#ifndef BROKER_UPSTREAM_TLS_H
#define BROKER_UPSTREAM_TLS_H

#include "common/buf.h"
#include "common/err.h"
#include "common/hash.h"

struct ssl_st;
struct x509_store_st;
/* Adds all certificates of a PEM text. ERR_CONFIG: there is none, or one is not accepted. */
int upstream_tls_load(struct x509_store_st *store, struct str ca, struct err *err);
/* `ca`: one or more PEM certificates. `host`: name or numeric address the certificate must carry.
 */
int upstream_tls_new(struct str ca, const char *host, int fd, struct ssl_st **ret, struct err *err);
/* After a failed handshake: says what was wrong with the certificate, if that was it. */
void upstream_tls_explain(struct ssl_st *ssl, const char *host, struct err *err);
/*
 * After the handshake: SHA-256 of the peer's certificate, and its tls-server-end-point hash
 * (RFC 5929 section 4.1) appended to *binding; nothing for a signature without a digest.
 */
int upstream_tls_peer(
    struct ssl_st *ssl, char hex[HASH_HEX_SIZE], struct buf *binding, struct err *err);

#endif
