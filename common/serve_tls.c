/*
 * TLS of serve.h, with the certificate and key that the operator names; read once, before the first
 * connection. With a client CA nobody comes in without a certificate that it signed.
 */
#include "common/serve_int.h"

#include "common/hash.h"
#include "common/log.h"
#include "common/ossl.h"
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/banned.h"

DEFINE_AUTO(ctx, SSL_CTX, SSL_CTX_free)
DEFINE_AUTO(x509, X509, X509_free)

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

static int
clients_set(SSL_CTX *ctx, const char *ca, struct err *err)
{
	char why[200];

	if (SSL_CTX_load_verify_locations(ctx, ca, NULL) != 1)
		return err_set(err, ERR_CONFIG, "%s: %s", ca, tlsio_reason(why, sizeof(why)));
	SSL_CTX_set_client_CA_list(ctx, SSL_load_client_CA_file(ca));
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

int
serve_tls_context(const struct serve_config *c, struct ssl_ctx_st **ret, struct err *err)
{
	AUTO(ctx) SSL_CTX *ctx = NULL;
	char why[200];
	int rc;

	if ((c->cert == NULL) != (c->key == NULL) || (c->client_ca != NULL && c->cert == NULL))
		return err_set(err, ERR_INVALID,
		    "%s: TLS needs a certificate and its key, and clients' certificates need both",
		    c->option);
	if (c->cert == NULL)
		return 0;
	ctx = SSL_CTX_new(TLS_server_method());
	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	if (SSL_CTX_use_certificate_chain_file(ctx, c->cert) != 1)
		return err_set(err, ERR_CONFIG, "%s: %s", c->cert, tlsio_reason(why, sizeof(why)));
	if (SSL_CTX_use_PrivateKey_file(ctx, c->key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return err_set(err, ERR_CONFIG, "%s: %s", c->key, tlsio_reason(why, sizeof(why)));
	if (c->client_ca != NULL && (rc = clients_set(ctx, c->client_ca, err)) != 0)
		return rc;
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	(void)SSL_CTX_set_options(
	    ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	*ret = TAKE_PTR(ctx);
	return 0;
}

void
serve_tls_context_free(struct ssl_ctx_st *ctx)
{
	SSL_CTX_free(ctx);
}

void
serve_tls_begin(struct ssl_ctx_st *ctx, struct tlsio *io)
{
	SSL *ssl = SSL_new(ctx);

	if (ssl == NULL || SSL_set_fd(ssl, io->fd) != 1)
		fatal("OpenSSL: no connection");
	SSL_set_accept_state(ssl);
	tlsio_start(io, ssl);
}

void
serve_tls_client(const struct tlsio *io, char out[SERVE_CLIENT_SIZE])
{
	AUTO(x509) X509 *x = io->ssl != NULL ? SSL_get1_peer_certificate(io->ssl) : NULL;
	struct hash h;
	char hex[HASH_HEX_SIZE];
	unsigned n = 0;

	out[0] = '\0';
	if (x == NULL || X509_digest(x, EVP_sha256(), h.b, &n) != 1 || n != sizeof(h.b))
		return;
	hash_hex(&h, hex);
	(void)snprintf(out, SERVE_CLIENT_SIZE, "sha256:%s", hex);
}
