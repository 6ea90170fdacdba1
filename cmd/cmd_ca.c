/*
 * The run CA, made once by `cofferdam init`. Runs as the operator. The key goes from
 * OpenSSL's memory to a wiped buffer and a 0600 file, nowhere else.
 */
#include "common/ossl.h"

#include "cmd/cmd_ca.h"

#include <stdio.h>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/hash.h"

#include "common/banned.h"

DEFINE_AUTO(pkey, EVP_PKEY, EVP_PKEY_free)
DEFINE_AUTO(x509, X509, X509_free)
DEFINE_AUTO(bio, BIO, BIO_free_all)
DEFINE_AUTO(bignum, BIGNUM, BN_free)

static int
add_ext(X509 *x, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	int ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = e != NULL && X509_add_ext(x, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok ? 0 : -1;
}

/* A random serial of 127 bits (CA/Browser Forum: at least 64). */
static int
set_serial(X509 *x)
{
	AUTO(bignum) BIGNUM *bn = NULL;
	uint8_t r[16];

	rand_bytes(r, sizeof(r));
	r[0] &= 0x7f;
	bn = BN_bin2bn(r, sizeof(r), NULL);
	return bn != NULL && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(x)) != NULL ? 0 : -1;
}

static int
fill(X509 *x, EVP_PKEY *k, const char *origin)
{
	X509_NAME *name = X509_get_subject_name(x);
	char cn[65];

	/* ub-common-name of RFC 5280 is 64. */
	(void)snprintf(cn, sizeof(cn), "Cofferdam run CA %s", origin);
	if (set_serial(x) != 0 || X509_set_version(x, 2) != 1 ||
	    X509_gmtime_adj(X509_getm_notBefore(x), -300) == NULL ||
	    X509_time_adj_ex(X509_getm_notAfter(x), CA_YEARS * 365, 0, NULL) == NULL ||
	    X509_NAME_add_entry_by_txt(
		name, "CN", MBSTRING_UTF8, (const unsigned char *)cn, -1, -1, 0) != 1 ||
	    X509_set_issuer_name(x, name) != 1 || X509_set_pubkey(x, k) != 1)
		return -1;
	if (add_ext(x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") != 0 ||
	    add_ext(x, NID_key_usage, "critical,keyCertSign,cRLSign") != 0 ||
	    add_ext(x, NID_subject_key_identifier, "hash") != 0)
		return -1;
	return X509_sign(x, k, EVP_sha256()) > 0 ? 0 : -1;
}

static int
put_pem(BIO *b, struct buf *out)
{
	char *p;
	long n = BIO_get_mem_data(b, &p);

	if (n <= 0)
		return -1;
	buf_put(out, p, (size_t)n);
	return buf_over(out) ? -1 : 0;
}

int
ca_make(const char *origin, struct buf *key_pem, struct buf *cert_pem, struct err *err)
{
	AUTO(pkey) EVP_PKEY *k = EVP_EC_gen("P-256");
	AUTO(x509) X509 *x = X509_new();
	AUTO(bio) BIO *kb = BIO_new(BIO_s_secmem());
	AUTO(bio) BIO *cb = BIO_new(BIO_s_mem());

	if (k == NULL || x == NULL || kb == NULL || cb == NULL || fill(x, k, origin) != 0 ||
	    PEM_write_bio_PKCS8PrivateKey(kb, k, NULL, NULL, 0, NULL, NULL) != 1 ||
	    PEM_write_bio_X509(cb, x) != 1 || put_pem(kb, key_pem) != 0 ||
	    put_pem(cb, cert_pem) != 0)
		return err_set(err, ERR_CRYPTO, "cannot make the run CA");
	return 0;
}
