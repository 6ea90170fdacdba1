/*
 * TLS of serve.h, with the certificate and key that the operator names; read once, before the first
 * connection. With a client CA nobody comes in without a certificate that it signed.
 */
#include "common/serve_int.h"

#include "common/hash.h"
#include "common/log.h"
#include "common/ossl.h"
#include "common/tls_server.h"
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/banned.h"

DEFINE_AUTO(ctx, SSL_CTX, SSL_CTX_free)
DEFINE_AUTO(x509, X509, X509_free)

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
	int rc;

	if ((c->cert == NULL) != (c->key == NULL) || (c->client_ca != NULL && c->cert == NULL))
		return err_set(err, ERR_INVALID,
		    "%s: TLS needs a certificate and its key, and clients' certificates need both",
		    c->option);
	if (c->cert == NULL)
		return 0;
	if ((rc = tls_server_new(&ctx, err)) != 0 ||
	    (rc = tls_server_files(ctx, c->cert, c->key, err)) != 0)
		return rc;
	if (c->client_ca != NULL && (rc = clients_set(ctx, c->client_ca, err)) != 0)
		return rc;
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
