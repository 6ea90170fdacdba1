/*
 * TLS towards people's browsers, with the operator's own certificate (process: console). The key
 * came from the parent, which opened the file; this process has no other secret, and no file.
 */
#include "broker/console.h"

#include "common/ossl.h"
#include "common/tls_server.h"
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/banned.h"

DEFINE_AUTO(ctx, SSL_CTX, SSL_CTX_free)
DEFINE_AUTO(ssl, SSL, SSL_free)
DEFINE_AUTO(bio, BIO, BIO_free_all)
DEFINE_AUTO(x509, X509, X509_free)
DEFINE_AUTO(pkey, EVP_PKEY, EVP_PKEY_free)

static int
use_chain(SSL_CTX *ctx, struct str pem, struct err *err)
{
	AUTO(bio) BIO *b = BIO_new_mem_buf(pem.n != 0 ? pem.p : "", (int)pem.n);
	size_t n = 0;

	for (;;) {
		AUTO(x509) X509 *x = PEM_read_bio_X509(b, NULL, tls_no_passphrase, NULL);

		if (x == NULL)
			break;
		if ((n == 0 ? SSL_CTX_use_certificate(ctx, x) : SSL_CTX_add1_chain_cert(ctx, x)) !=
		    1)
			return err_set(
			    err, ERR_CONFIG, "tls_cert: certificate %zu is not accepted", n + 1);
		n++;
	}
	ERR_clear_error(); /* the end of the text is an error to PEM_read */
	return n != 0 ? 0 : err_set(err, ERR_CONFIG, "tls_cert: there is no certificate in it");
}

int
console_tls_context(
    struct str key_pem, struct str cert_pem, struct ssl_ctx_st **ret, struct err *err)
{
	AUTO(ctx) SSL_CTX *ctx = NULL;
	AUTO(bio) BIO *b = BIO_new_mem_buf(key_pem.n != 0 ? key_pem.p : "", (int)key_pem.n);
	AUTO(pkey) EVP_PKEY *key = PEM_read_bio_PrivateKey(b, NULL, tls_no_passphrase, NULL);
	int rc = tls_server_new(&ctx, err);

	ERR_clear_error();
	if (rc != 0)
		return rc;
	if (key == NULL)
		return err_set(
		    err, ERR_CONFIG, "tls_key: there is no key without passphrase in it (PEM)");
	rc = use_chain(ctx, cert_pem, err);
	if (rc != 0)
		return rc;
	if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1) {
		ERR_clear_error();
		return err_set(err, ERR_CONFIG, "tls_key: is not the key of tls_cert");
	}
	(void)SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
	*ret = TAKE_PTR(ctx);
	return 0;
}

int
console_tls_accept(struct ssl_ctx_st *ctx, int fd, struct ssl_st **ret, struct err *err)
{
	AUTO(ssl) SSL *ssl = SSL_new(ctx);

	if (ssl == NULL || SSL_set_fd(ssl, fd) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
	SSL_set_accept_state(ssl);
	*ret = TAKE_PTR(ssl);
	return 0;
}

bool
console_tls_pending(const struct ssl_st *ssl)
{
	return ssl != NULL && SSL_pending(ssl) > 0;
}

void
console_tls_free(struct ssl_ctx_st *ctx)
{
	SSL_CTX_free(ctx);
}
