/*
 * The server's side of TLS before the first connection (console, witness, cofferdam-mcp,
 * cofferdam-sandboxd). It must never ask a terminal for a passphrase, and never keep a session: who
 * comes again shakes hands again.
 */
#include "common/tls_server.h"

#include "common/buf.h"
#include "common/ossl.h"
#include "common/tlsio.h"
#include <openssl/ssl.h>

#include "common/banned.h"

DEFINE_AUTO(ctx, SSL_CTX, SSL_CTX_free)

int
tls_no_passphrase(char *buf, int size, int rwflag, void *arg)
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

int
tls_server_new(struct ssl_ctx_st **ret, struct err *err)
{
	AUTO(ctx) SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return err_set(err, ERR_CRYPTO, "TLS cannot be set up");
	SSL_CTX_set_default_passwd_cb(ctx, tls_no_passphrase);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	(void)SSL_CTX_set_options(
	    ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	*ret = TAKE_PTR(ctx);
	return 0;
}

int
tls_server_files(struct ssl_ctx_st *ctx, const char *cert, const char *key, struct err *err)
{
	char why[200];

	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		return err_set(err, ERR_CONFIG, "%s: %s", cert, tlsio_reason(why, sizeof(why)));
	if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return err_set(err, ERR_CONFIG, "%s: %s", key, tlsio_reason(why, sizeof(why)));
	return 0;
}
