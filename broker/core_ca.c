/*
 * Leaf certificates for front (process: core). The key to certify comes from the process
 * that parses hostile bytes: it decides nothing here but its own public key. Times are core's own,
 * and a name is certified only where a live run's listener may have it.
 */
#include "broker/core_ca.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <time.h>

#include "broker/core_http.h"
#include "broker/core_plan.h"
#include "broker/core_run.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/ossl.h"
#include "common/xalloc.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/banned.h"

#define HOST_MAX 253

struct core_ca {
	EVP_PKEY *key;
	X509 *cert;
	char *pem;
};

DEFINE_AUTO(x509, X509, X509_free)
DEFINE_AUTO(pkey, EVP_PKEY, EVP_PKEY_free)
DEFINE_AUTO(bio, BIO, BIO_free_all)

static BIO *
bio_of(struct str s)
{
	return s.n <= 1 << 20 ? BIO_new_mem_buf(s.p, (int)s.n) : NULL;
}

void
core_ca_free(struct core_ca *ca)
{
	if (ca == NULL)
		return;
	EVP_PKEY_free(ca->key);
	X509_free(ca->cert);
	free(ca->pem);
	free(ca);
}
DEFINE_AUTO(ca, struct core_ca, core_ca_free)

#define RESTORE "restore both from the same backup"

int
core_ca_load(struct str key_pem, struct str cert_pem, struct core_ca **ret, struct err *err)
{
	AUTO(ca) struct core_ca *ca = xcalloc(1, sizeof(*ca));
	AUTO(bio) BIO *kb = bio_of(key_pem);
	AUTO(bio) BIO *cb = bio_of(cert_pem);

	if (kb == NULL || cb == NULL)
		return err_set(err, ERR_CONFIG,
		    "keys/ca/key.pem or keys/ca/cert.pem is empty or too large: " RESTORE);
	ca->key = PEM_read_bio_PrivateKey(kb, NULL, NULL, NULL);
	if (ca->key == NULL)
		return err_set(
		    err, ERR_CONFIG, "keys/ca/key.pem is not a PEM private key: " RESTORE);
	ca->cert = PEM_read_bio_X509(cb, NULL, NULL, NULL);
	if (ca->cert == NULL)
		return err_set(
		    err, ERR_CONFIG, "keys/ca/cert.pem is not a PEM certificate: " RESTORE);
	if (X509_check_private_key(ca->cert, ca->key) != 1)
		return err_set(err, ERR_CONFIG,
		    "keys/ca/key.pem and keys/ca/cert.pem do not belong together: " RESTORE);
	ca->pem = str_dup(cert_pem);
	*ret = TAKE_PTR(ca);
	return 0;
}

struct str
core_ca_pem(const struct core_ca *ca)
{
	return str_z(ca->pem);
}

/* --- one leaf -------------------------------------------------------------------- */

static EVP_PKEY *
spki_read(struct str spki, struct err *err)
{
	const unsigned char *p = (const unsigned char *)spki.p;
	AUTO(pkey) EVP_PKEY *k = NULL;
	char group[64] = "";
	size_t n;
	int bits;

	k = spki.n <= 4096 ? d2i_PUBKEY(NULL, &p, (long)spki.n) : NULL;
	if (k == NULL || p != (const unsigned char *)spki.p + spki.n) {
		(void)err_set(err, ERR_INVALID, "leaf key is not one DER SubjectPublicKeyInfo");
		return NULL;
	}
	bits = EVP_PKEY_get_bits(k);
	if (EVP_PKEY_is_a(k, "EC") && EVP_PKEY_get_group_name(k, group, sizeof(group), &n) == 1 &&
	    str_eqz(str_z(group), "prime256v1"))
		return TAKE_PTR(k);
	if (EVP_PKEY_is_a(k, "RSA") && bits >= 2048 && bits <= 4096)
		return TAKE_PTR(k);
	(void)err_set(err, ERR_UNSUPPORTED,
	    "leaf key must be EC P-256 or RSA of 2048 to 4096 bits, is %s of %d bits",
	    EVP_PKEY_get0_type_name(k) != NULL ? EVP_PKEY_get0_type_name(k) : "unknown", bits);
	return NULL;
}

static bool
host_ok(struct str host)
{
	for (size_t i = 0; i < host.n; i++) {
		char ch = host.p[i];

		if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
			(ch >= '0' && ch <= '9') || ch == '.' || ch == '-' || ch == '_' ||
			ch == ':'))
			return false;
	}
	return host.n >= 1 && host.n <= HOST_MAX;
}

static bool
san_add(X509 *x, const char *host)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *n = GENERAL_NAME_new();
	ASN1_OCTET_STRING *ip = a2i_IPADDRESS(host);
	ASN1_IA5STRING *dns = NULL;
	bool ok = names != NULL && n != NULL;

	if (ok && ip != NULL) {
		GENERAL_NAME_set0_value(n, GEN_IPADD, ip);
	} else if (ok) {
		dns = ASN1_IA5STRING_new();
		ok = dns != NULL && ASN1_STRING_set(dns, host, (int)strlen(host)) == 1;
		if (dns != NULL)
			GENERAL_NAME_set0_value(n, GEN_DNS, dns);
	}
	if (ok && sk_GENERAL_NAME_push(names, n) > 0)
		n = NULL;
	ok = ok && n == NULL && X509_add1_ext_i2d(x, NID_subject_alt_name, names, 1, 0) == 1;
	GENERAL_NAME_free(n);
	GENERAL_NAMES_free(names);
	return ok;
}

static bool
ext_add(const struct core_ca *ca, X509 *x, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	bool ok;

	X509V3_set_ctx(&ctx, ca->cert, x, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = e != NULL && X509_add_ext(x, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}

static bool
serial_set(X509 *x)
{
	uint8_t b[16];
	BIGNUM *bn;
	bool ok;

	rand_bytes(b, sizeof(b));
	b[0] = (uint8_t)((b[0] & 0x3f) | 0x40); /* positive, never zero */
	bn = BN_bin2bn(b, (int)sizeof(b), NULL);
	ok = bn != NULL && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(x)) != NULL;
	BN_free(bn);
	return ok;
}

static bool
leaf_fill(const struct core_ca *ca, X509 *x, EVP_PKEY *k, const char *host, int64_t now_s)
{
	time_t from = (time_t)(now_s - CA_BACKDATE_SECONDS), to = (time_t)(now_s + CA_LEAF_SECONDS);

	return X509_set_version(x, X509_VERSION_3) == 1 && serial_set(x) &&
	       ASN1_TIME_set(X509_getm_notBefore(x), from) != NULL &&
	       ASN1_TIME_set(X509_getm_notAfter(x), to) != NULL &&
	       X509_set_issuer_name(x, X509_get_subject_name(ca->cert)) == 1 &&
	       X509_set_pubkey(x, k) == 1 &&
	       ext_add(ca, x, NID_basic_constraints, "critical,CA:FALSE") &&
	       ext_add(ca, x, NID_key_usage, "critical,digitalSignature") &&
	       ext_add(ca, x, NID_ext_key_usage, "serverAuth") &&
	       ext_add(ca, x, NID_subject_key_identifier, "hash") &&
	       ext_add(ca, x, NID_authority_key_identifier, "keyid") && san_add(x, host);
}

int
core_ca_sign(const struct core_ca *ca, struct str spki, struct str host, int64_t now_s,
    struct buf *out, struct err *err)
{
	AUTO(x509) X509 *x = X509_new();
	AUTO(pkey) EVP_PKEY *k = spki_read(spki, err);
	AUTO(bio) BIO *b = BIO_new(BIO_s_mem());
	AUTO_FREE char *name = str_dup(host);
	char *p = NULL;
	long n;

	if (k == NULL)
		return err != NULL && err->code != 0 ? err->code : ERR_INVALID;
	if (!host_ok(host))
		return err_set(
		    err, ERR_INVALID, "leaf host \"%.*s\" is not a host name", STR_ARG(host));
	if (x == NULL || b == NULL || !leaf_fill(ca, x, k, name, now_s))
		return err_set(err, ERR_CRYPTO, "cannot make a leaf for %s", name);
	if (X509_sign(x, ca->key, EVP_sha256()) <= 0 || PEM_write_bio_X509(b, x) != 1)
		return err_set(err, ERR_CRYPTO, "cannot sign a leaf for %s", name);
	n = BIO_get_mem_data(b, &p);
	buf_put(out, p, n > 0 ? (size_t)n : 0);
	if (buf_over(out))
		return err_set(err, ERR_TOO_LARGE, "leaf is over %zu bytes", out->max);
	return 0;
}

/* The listener's own name; on the proxy's that of each https target which the run may reach. */
static bool
may_have(struct core *c, uint32_t listener, struct str host)
{
	struct core_run *run = NULL;
	const struct core_target *t = core_run_listener(c, listener, &run);

	if (t == NULL || run->state != CORE_RUN_LIVE || host.n > HOST_MAX)
		return false;
	if (strcmp(t->kind, CORE_KIND_PROXY) == 0)
		return core_http_reaches(run, host, 0);
	return t->id[0] != '\0' && strcmp(t->scheme, "http") != 0 && str_eqz(host, t->host);
}

int
core_ca_on_ask(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	AUTO_BUF struct buf pem = BUF(16384);
	AUTO_BUF struct buf out = BUF(32768);
	struct core *c = p->core;
	uint32_t listener = rd_u32(body);
	struct str host = rd_lstr(body), spki = rd_lstr(body);
	struct err why = {0};

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "F_LEAF_ASK is malformed");
	if (c->ca == NULL)
		(void)err_set(&why, ERR_CONFIG, "the broker has no CA key");
	else if (!may_have(c, listener, host))
		(void)err_set(&why, ERR_DENIED, "no name that it may have");
	else
		(void)core_ca_sign(c->ca, spki, host, clock_wall_us() / 1000000, &pem, &why);
	if (why.code != 0) {
		log_warn("no leaf for listener %u: %s", listener, why.msg);
		buf_reset(&pem);
	}
	buf_u32(&out, listener);
	buf_lstr(&out, host);
	buf_lstr(&out, buf_str(&pem));
	core_send(p, MSG_F_LEAF, &out);
	return 0;
}
