/*
 * Trust for HTTPS targets. Runs in upstream. libcurl would read CA files when it connects, which a
 * confined process cannot, and would share sessions between targets: it gets stores from here and
 * keeps none. Its own check of names stays on; OpenSSL's is on besides.
 */
#include "broker/upstream_http_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "common/ossl.h"
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define STORES_MAX 64
#define SYSTEM_MAX ((size_t)4 << 20)

struct held {
	struct hash digest; /* of the PEM text */
	X509_STORE *store;
	uint64_t used;
};

struct stores {
	X509_STORE *system;
	char why[200]; /* there is none */
	struct held held[STORES_MAX];
	size_t n;
	uint64_t clock;
};

DEFINE_AUTO(store, X509_STORE, X509_STORE_free)

static int
load_system(struct stores *s, const char *file, struct err *err)
{
	AUTO_FD int fd = open(file, O_RDONLY | O_CLOEXEC);
	AUTO_BUF struct buf pem = BUF(SYSTEM_MAX);
	AUTO(store) X509_STORE *store = X509_STORE_new();
	ssize_t n = fd < 0 ? -1 : 1;
	int rc;

	while (n > 0) {
		uint8_t *p = buf_grow(&pem, 65536);

		if (p == NULL)
			return err_set(err, ERR_TOO_LARGE, "%s: over %zu bytes", file, SYSTEM_MAX);
		n = read(fd, p, 65536);
		pem.n -= 65536 - (n > 0 ? (size_t)n : 0);
	}
	if (n < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", file);
	rc = upstream_tls_load(store, buf_str(&pem), err);
	if (rc != 0)
		return err_wrap(err, "%s", file);
	s->system = TAKE_PTR(store);
	return 0;
}

struct stores *
stores_new(const char *system_file)
{
	struct stores *s = xcalloc(1, sizeof(*s));
	struct err err = {0};

	if (load_system(s, system_file, &err) != 0) {
		log_warn("targets without a CA of their own are refused: %s", err.msg);
		(void)snprintf(s->why, sizeof(s->why), "%.*s", (int)sizeof(s->why) - 1, err.msg);
	}
	return s;
}

void
stores_free(struct stores *s)
{
	if (s == NULL)
		return;
	X509_STORE_free(s->system);
	for (size_t i = 0; i < s->n; i++)
		X509_STORE_free(s->held[i].store);
	free(s);
}

void
stores_drop(struct x509_store_st *store)
{
	X509_STORE_free(store);
}

/* A free place, or that of the store not used for longest. */
static struct held *
place(struct stores *s)
{
	struct held *h = &s->held[0];

	if (s->n < STORES_MAX)
		return &s->held[s->n++];
	for (size_t i = 1; i < s->n; i++)
		if (s->held[i].used < h->used)
			h = &s->held[i];
	X509_STORE_free(h->store);
	return h;
}

static int
hold(struct stores *s, struct str ca, X509_STORE **ret, struct err *err)
{
	struct hash digest = hash_sha256(ca);
	AUTO(store) X509_STORE *store = NULL;
	struct held *h = NULL;
	int rc;

	for (size_t i = 0; i < s->n && h == NULL; i++)
		if (hash_eq(&s->held[i].digest, &digest))
			h = &s->held[i];
	if (h == NULL) {
		store = X509_STORE_new();
		rc = upstream_tls_load(store, ca, err);
		if (rc != 0)
			return rc;
		h = place(s);
		*h = (struct held){.digest = digest, .store = TAKE_PTR(store)};
	}
	h->used = ++s->clock;
	*ret = h->store;
	return 0;
}

int
stores_get(struct stores *s, struct str ca, struct x509_store_st **ret, struct err *err)
{
	X509_STORE *store = s->system;
	int rc = 0;

	if (ca.n != 0)
		rc = hold(s, ca, &store, err);
	else if (store == NULL)
		rc = err_set(err, ERR_CONFIG,
		    "the target names no CA, and this machine's are not to be had: %s", s->why);
	if (rc != 0)
		return rc;
	if (X509_STORE_up_ref(store) != 1)
		return err_set(err, ERR_CRYPTO, "a store of certificates cannot be shared");
	*ret = store;
	return 0;
}

int
upstream_http_tls(struct ssl_ctx_st *ctx, struct x509_store_st *store, const char *host)
{
	X509_VERIFY_PARAM *p = SSL_CTX_get0_param(ctx);

	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return ERR_CRYPTO;
	SSL_CTX_set1_cert_store(ctx, store);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	if (X509_VERIFY_PARAM_set1_ip_asc(p, host) == 1)
		return 0;
	ERR_clear_error();
	/* The common name is none of them (RFC 9110 section 4.3.4). */
	X509_VERIFY_PARAM_set_hostflags(
	    p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	return X509_VERIFY_PARAM_set1_host(p, host, 0) == 1 ? 0 : ERR_CRYPTO;
}
