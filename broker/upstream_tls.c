/*
 * TLS towards servers. Runs in upstream, which holds the credential: a server that is not
 * proved by the target's CA and name never sees a byte of the authentication.
 */
#include "broker/upstream_tls.h"

#include "common/ossl.h"
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "common/tlsio.h"

#include "common/banned.h"

DEFINE_AUTO(ctx, SSL_CTX, SSL_CTX_free)
DEFINE_AUTO(ssl, SSL, SSL_free)
DEFINE_AUTO(bio, BIO, BIO_free_all)
DEFINE_AUTO(x509, X509, X509_free)

int
upstream_tls_load(struct x509_store_st *store, struct str ca, struct err *err)
{
	AUTO(bio) BIO *b = BIO_new_mem_buf(ca.n != 0 ? ca.p : "", (int)ca.n);
	size_t n = 0;

	for (;;) {
		AUTO(x509) X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

		if (x == NULL)
			break;
		if (X509_STORE_add_cert(store, x) != 1)
			return err_set(
			    err, ERR_CONFIG, "CA certificate %zu is not accepted", n + 1);
		n++;
	}
	ERR_clear_error(); /* the end of the text is an error to PEM_read */
	if (n == 0)
		return err_set(err, ERR_CONFIG,
		    "the target's CA has no certificate in it (%zu bytes of PEM)", ca.n);
	return 0;
}

static int
expect_host(SSL *ssl, const char *host, struct err *err)
{
	X509_VERIFY_PARAM *p = SSL_get0_param(ssl);

	if (X509_VERIFY_PARAM_set1_ip_asc(p, host) == 1)
		return 0;
	X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	/* SSL_set_tlsext_host_name() by its parts: the macro casts const away. */
	if (SSL_set1_host(ssl, host) != 1 ||
	    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
		(void *)(uintptr_t)host) != 1)
		return err_set(
		    err, ERR_CONFIG, "target host \"%s\" is no name for a certificate", host);
	return 0;
}

int
upstream_tls_new(struct str ca, const char *host, int fd, struct ssl_st **ret, struct err *err)
{
	AUTO(ctx) SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	AUTO(ssl) SSL *ssl = NULL;
	int rc;

	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
	rc = upstream_tls_load(SSL_CTX_get_cert_store(ctx), ca, err);
	if (rc != 0)
		return rc;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	ssl = SSL_new(ctx);
	if (ssl == NULL || SSL_set_fd(ssl, fd) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
	rc = expect_host(ssl, host, err);
	if (rc != 0)
		return rc;
	SSL_set_connect_state(ssl);
	*ret = TAKE_PTR(ssl);
	return 0;
}

void
upstream_tls_explain(struct ssl_st *ssl, const char *host, struct err *err)
{
	long why = SSL_get_verify_result(ssl);

	if (why != X509_V_OK)
		(void)err_set(err, ERR_UPSTREAM, "the server's certificate for %s is refused: %s",
		    host, X509_verify_cert_error_string(why));
	else
		(void)err_wrap(err, "TLS with %s", host);
}

/* MD5 and SHA-1 count as SHA-256 (RFC 5929 section 4.1). NULL: the signature has no digest. */
static const EVP_MD *
binding_digest(X509 *x)
{
	int nid = NID_undef;

	if (X509_get_signature_info(x, &nid, NULL, NULL, NULL) != 1 || nid == NID_undef)
		return NULL;
	if (nid == NID_md5 || nid == NID_sha1)
		nid = NID_sha256;
	return EVP_get_digestbynid(nid);
}

int
upstream_tls_peer(struct ssl_st *ssl, char hex[HASH_HEX_SIZE], struct buf *binding, struct err *err)
{
	AUTO(x509) X509 *x = SSL_get1_peer_certificate(ssl);
	const EVP_MD *md;
	uint8_t out[EVP_MAX_MD_SIZE];
	struct hash h;
	unsigned n = 0;

	if (x == NULL || SSL_get_verify_result(ssl) != X509_V_OK)
		return err_set(err, ERR_UPSTREAM, "the server has shown no valid certificate");
	if (X509_digest(x, EVP_sha256(), h.b, &n) != 1 || n != HASH_LEN)
		return err_set(err, ERR_CRYPTO, "the server's certificate cannot be hashed");
	hash_hex(&h, hex);
	md = binding_digest(x);
	if (md == NULL)
		return 0;
	if (X509_digest(x, md, out, &n) != 1)
		return err_set(err, ERR_CRYPTO, "the server's certificate cannot be hashed");
	buf_put(binding, out, n);
	return 0;
}
