/*
 * The server side of TLS towards agents. Runs in front. The private key is made here and
 * stays here; core, which has the CA key, sees the public half only.
 */
#include "broker/front_tls.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/http.h"
#include "common/ossl.h"
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include "common/tlsio.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define RENEW_SECONDS 3600

DEFINE_AUTO(ctx, SSL_CTX, SSL_CTX_free)
DEFINE_AUTO(ssl, SSL, SSL_free)
DEFINE_AUTO(bio, BIO, BIO_free_all)
DEFINE_AUTO(x509, X509, X509_free)

int
front_tls_key(struct evp_pkey_st **ret, struct err *err)
{
	char reason[200];
	EVP_PKEY *k = EVP_EC_gen("P-256");

	if (k == NULL)
		return err_set(
		    err, ERR_CRYPTO, "no P-256 key: %s", tlsio_reason(reason, sizeof(reason)));
	*ret = k;
	return 0;
}

int
front_tls_spki(const struct evp_pkey_st *key, struct buf *out, struct err *err)
{
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(key, &der);

	if (n <= 0)
		return err_set(err, ERR_CRYPTO, "the public key cannot be encoded");
	buf_put(out, der, (size_t)n);
	OPENSSL_free(der);
	return 0;
}

static int
use_chain(SSL_CTX *ctx, struct str pem, struct err *err)
{
	AUTO(bio) BIO *b = BIO_new_mem_buf(pem.n != 0 ? pem.p : "", (int)pem.n);
	size_t n = 0;

	for (;;) {
		AUTO(x509) X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
		int ok;

		if (x == NULL)
			break;
		ok =
		    n == 0 ? SSL_CTX_use_certificate(ctx, x) : SSL_CTX_add1_chain_cert(ctx, x) == 1;
		if (ok != 1)
			return err_set(err, ERR_CRYPTO, "certificate %zu is not accepted", n + 1);
		n++;
	}
	ERR_clear_error(); /* the end of the text is an error to PEM_read */
	if (n == 0)
		return err_set(err, ERR_CRYPTO, "no certificate in %zu bytes of PEM", pem.n);
	return 0;
}

/* --- what the client asks for ------------------------------------------------------ */

static struct front_tls_peer *
peer(const SSL *ssl)
{
	return SSL_get_app_data(ssl);
}

static void PRINTF_LIKE(2, 3) refuse(struct front_tls_peer *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(p->reason, sizeof(p->reason), fmt, ap);
	va_end(ap);
}

/* The protocol of HTTP connections has an older form, which they speak as well. */
static bool
speaks(const struct front_tls_peer *p, struct str name)
{
	return str_eqz(name, p->alpn) ||
	       (strcmp(p->alpn, "http/1.1") == 0 && str_eqz(name, "http/1.0"));
}

/* Newer clients name the protocol; a handshake without a name is as good. */
static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
    unsigned inlen, void *arg)
{
	struct front_tls_peer *p = peer(ssl);
	struct rd offered = rd_init(str_mem(in, inlen));

	(void)arg;
	while (!offered.bad && offered.n != 0) {
		struct str s = rd_bytes(&offered, rd_u8(&offered));

		if (s.n == 0 || !speaks(p, s))
			continue;
		*out = (const unsigned char *)s.p;
		*outlen = (unsigned char)s.n;
		return SSL_TLSEXT_ERR_OK;
	}
	refuse(p, "the client offers no %s by ALPN", p->alpn);
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool
is_address(const char *host)
{
	struct in6_addr a;

	return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1;
}

/* Runs with and without a name. The certificate is for one host: who asks for another, or for
 * nobody, means something else than the connection was made for. */
static int
check_name(SSL *ssl, int *alert, void *arg)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	struct front_tls_peer *p = peer(ssl);
	uint16_t port = 0;
	char host[HTTP_HOST_SIZE];

	(void)arg;
	if (name != NULL && http_authority_parse(str_z(name), host, &port, NULL) == 0 && port == 0)
		(void)snprintf(p->name, sizeof(p->name), "%s", host);
	if (!p->sni)
		return SSL_TLSEXT_ERR_OK;
	if (name == NULL && is_address(p->host))
		return SSL_TLSEXT_ERR_OK;
	if (name != NULL && strcmp(p->name, p->host) == 0)
		return SSL_TLSEXT_ERR_OK;
	*alert = name == NULL ? SSL_AD_MISSING_EXTENSION : SSL_AD_UNRECOGNIZED_NAME;
	if (name == NULL)
		refuse(p, "the client names no host (SNI)");
	else
		refuse(p, "the client names host \"%s\" (SNI)", name);
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void
front_tls_peer_init(struct front_tls_peer *p, const char *host, bool sni, const char *alpn)
{
	front_tls_peer_free(p);
	p->host = xstrdup(host);
	p->sni = sni;
	p->alpn = alpn;
}

void
front_tls_peer_use(struct front_tls_peer *p, struct ssl_ctx_st *ctx)
{
	(void)SSL_CTX_up_ref(ctx);
	SSL_CTX_free(p->ctx);
	p->ctx = ctx;
}

void
front_tls_peer_free(struct front_tls_peer *p)
{
	free(p->host);
	SSL_CTX_free(p->ctx);
	*p = (struct front_tls_peer){0};
}

/* --- contexts -------------------------------------------------------------------- */

int
front_tls_context(struct evp_pkey_st *key, struct str pem, struct ssl_ctx_st **ret, struct err *err)
{
	AUTO(ctx) SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int rc;

	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
	rc = use_chain(ctx, pem, err);
	if (rc != 0)
		return rc;
	if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1) {
		ERR_clear_error();
		return err_set(
		    err, ERR_CRYPTO, "the certificate is not for the key it was asked for");
	}
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
					   SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	(void)SSL_CTX_set_tlsext_servername_callback(ctx, check_name);
	*ret = TAKE_PTR(ctx);
	return 0;
}

bool
front_tls_fresh(const struct ssl_ctx_st *ctx)
{
	const X509 *x = SSL_CTX_get0_certificate(ctx);
	int days = 0, seconds = 0;

	if (x == NULL || ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(x)) != 1)
		return false;
	return days > 0 || (days == 0 && seconds > RENEW_SECONDS);
}

int
front_tls_accept(struct front_tls_peer *p, int fd, struct ssl_st **ret, struct err *err)
{
	AUTO(ssl) SSL *ssl = SSL_new(p->ctx);

	if (ssl == NULL || SSL_set_fd(ssl, fd) != 1 || SSL_set_app_data(ssl, p) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
	SSL_set_accept_state(ssl);
	*ret = TAKE_PTR(ssl);
	return 0;
}

bool
front_tls_pending(const struct ssl_st *ssl)
{
	return ssl != NULL && SSL_pending(ssl) > 0;
}

void
front_tls_silence(struct ssl_st *ssl)
{
	if (ssl != NULL)
		SSL_set_quiet_shutdown(ssl, 1);
}
