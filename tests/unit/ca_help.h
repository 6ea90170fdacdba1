/* A throwaway CA for tests: P-256 key and self-signed certificate, as PEM. */
#ifndef TESTS_UNIT_CA_HELP_H
#define TESTS_UNIT_CA_HELP_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/ossl.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static inline void
bio_take(BIO *b, struct buf *out)
{
	char *p = NULL;
	long n = BIO_get_mem_data(b, &p);

	buf_put(out, p, (size_t)n);
	BIO_free_all(b);
}

static inline void
ca_make(struct buf *key_pem, struct buf *cert_pem)
{
	EVP_PKEY *k = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_NAME *name = X509_get_subject_name(x);
	BIO *kb = BIO_new(BIO_s_mem()), *cb = BIO_new(BIO_s_mem());
	X509V3_CTX ctx;
	X509_EXTENSION *e;

	assert_non_null(k);
	(void)X509_set_version(x, X509_VERSION_3);
	(void)ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	(void)X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	(void)X509_gmtime_adj(X509_getm_notAfter(x), 30 * 24 * 3600);
	(void)X509_NAME_add_entry_by_txt(
	    name, "CN", MBSTRING_ASC, (const unsigned char *)"test CA", -1, -1, 0);
	(void)X509_set_issuer_name(x, name);
	(void)X509_set_pubkey(x, k);
	X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, NID_basic_constraints, "critical,CA:TRUE");
	(void)X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
	e = X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_key_identifier, "hash");
	(void)X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
	assert_true(X509_sign(x, k, EVP_sha256()) > 0);
	(void)PEM_write_bio_PrivateKey(kb, k, NULL, NULL, 0, NULL, NULL);
	(void)PEM_write_bio_X509(cb, x);
	bio_take(kb, key_pem);
	bio_take(cb, cert_pem);
	EVP_PKEY_free(k);
	X509_free(x);
}

static inline void
spki_of(EVP_PKEY *k, struct buf *out)
{
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(k, &der);

	assert_true(n > 0);
	buf_put(out, der, (size_t)n);
	OPENSSL_free(der);
	EVP_PKEY_free(k);
}

#endif
