/* Front's TLS towards the sandbox: keys of its own, certificates from core, TLS 1.2+. */
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

#define FRONT_TLS_NAME_SIZE 256

/* What one handshake must agree with, and what the client said. */
struct front_tls_peer {
	char *host;	  /* the leaf's; NULL: no TLS */
	const char *alpn; /* the one protocol name agreed to, when the client names some */
	bool sni;	  /* host must have been asked for, unless it is an address */
	struct ssl_ctx_st *ctx;
	char name[FRONT_TLS_NAME_SIZE]; /* asked for by the client, lower case; "" none */
	char reason[300];		/* why it was refused; "" it was not */
};
void front_tls_peer_init(struct front_tls_peer *p, const char *host, bool sni, const char *alpn);
void front_tls_peer_use(struct front_tls_peer *p, struct ssl_ctx_st *ctx); /* another reference */
void front_tls_peer_free(struct front_tls_peer *p);
/* p must outlive *ret. */
int front_tls_accept(struct front_tls_peer *p, int fd, struct ssl_st **ret, struct err *err);
/* Bytes that were read off the socket and not yet by us? */
bool front_tls_pending(const struct ssl_st *ssl);
/* No goodbye: the peer is to see that something is missing. NULL: no TLS. */
void front_tls_silence(struct ssl_st *ssl);

#endif
