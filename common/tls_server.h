/*
 * What each TLS server of this project begins with: one place for its protocol versions and its
 * options (the console, the witness, programs behind common/serve.h).
 */
#ifndef COMMON_TLS_SERVER_H
#define COMMON_TLS_SERVER_H

#include "common/err.h"

struct ssl_ctx_st;

/*
 * TLS 1.2 and above, HTTP/1.1 alone, no session that outlives its connection; no certificate yet.
 * The caller frees *ret (SSL_CTX_free).
 */
int tls_server_new(struct ssl_ctx_st **ret, struct err *err);
/* The chain and its key, both PEM files, a key without passphrase. ERR_CONFIG names the file. */
int tls_server_files(struct ssl_ctx_st *ctx, const char *cert, const char *key, struct err *err);
/* For PEM_read_bio_*: a key under a passphrase would wait for somebody to type it. */
int tls_no_passphrase(char *buf, int size, int rwflag, void *arg);

#endif
