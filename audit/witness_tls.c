/*
 * TLS of the witness, with a certificate and key that its operator names. Runs in
 * cofferdam-witness before it is confined; reads both files once.
 */
#include "audit/witness.h"

#include "common/ossl.h"
#include "common/tlsio.h"
#include <openssl/ssl.h>

#include "common/banned.h"

DEFINE_AUTO(ctx, SSL_CTX, SSL_CTX_free)

/* A key under a passphrase would wait for somebody to type it. */
static int
no_passphrase(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

int
witness_tls(const char *cert, const char *key, struct ssl_ctx_st **ret, struct err *err)
{
	AUTO(ctx) SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	char why[200];

	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		return err_set(err, ERR_CONFIG, "%s: %s", cert, tlsio_reason(why, sizeof(why)));
	if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return err_set(err, ERR_CONFIG, "%s: %s", key, tlsio_reason(why, sizeof(why)));
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	(void)SSL_CTX_set_options(
	    ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	*ret = TAKE_PTR(ctx);
	return 0;
}
