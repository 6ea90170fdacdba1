/*
 * TLS towards people's browsers, with the operator's own certificate (process: console). The key
 * came from the parent, which opened the file; this process has no other secret, and no file.
 */
#include "broker/console.h"

#include "common/ossl.h"
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/banned.h"

DEFINE_AUTO(ctx, SSL_CTX, SSL_CTX_free)
DEFINE_AUTO(ssl, SSL, SSL_free)
DEFINE_AUTO(bio, BIO, BIO_free_all)
DEFINE_AUTO(x509, X509, X509_free)
DEFINE_AUTO(pkey, EVP_PKEY, EVP_PKEY_free)

/* One protocol, and a handshake that names none is as good. */
static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
    unsigned inlen, void *arg)
{
	struct rd offered = rd_init(str_mem(in, inlen));

	(void)ssl;
	(void)arg;
	while (!offered.bad && offered.n != 0) {
		struct str s = rd_bytes(&offered, rd_u8(&offered));

		if (!str_eqz(s, "http/1.1"))
			continue;
		*out = (const unsigned char *)s.p;
		*outlen = (unsigned char)s.n;
		return SSL_TLSEXT_ERR_OK;
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

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

static int
use_chain(SSL_CTX *ctx, struct str pem, struct err *err)
{
	AUTO(bio) BIO *b = BIO_new_mem_buf(pem.n != 0 ? pem.p : "", (int)pem.n);
	size_t n = 0;

	for (;;) {
		AUTO(x509) X509 *x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL);

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
	AUTO(ctx) SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	AUTO(bio) BIO *b = BIO_new_mem_buf(key_pem.n != 0 ? key_pem.p : "", (int)key_pem.n);
	AUTO(pkey) EVP_PKEY *key = PEM_read_bio_PrivateKey(b, NULL, no_passphrase, NULL);
	int rc;

	ERR_clear_error();
	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
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
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
					   SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
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
