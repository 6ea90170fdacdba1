/*
 * ECDSA verification by OpenSSL, for whoever checks what people signed (core, command line).
 * Points and numbers come from outside: each has exactly one encoding here, and a point that is not
 * on its curve is no key. Nothing here can sign.
 */
#include "common/sig_ecdsa.h"

#include "common/ossl.h"
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/params.h>

#include "common/banned.h"

#define DER_MAX 160 /* two numbers of 66 bytes, each with a zero in front, and three heads */

static const struct curve {
	const char *ssh, *group, *digest;
	size_t bytes; /* of a coordinate */
} curves[] = {
    [SIG_ED25519] = {NULL, NULL, NULL, 0},
    [SIG_P256] = {"nistp256", "P-256", "SHA256", 32},
    [SIG_P384] = {"nistp384", "P-384", "SHA384", 48},
    [SIG_P521] = {"nistp521", "P-521", "SHA512", 66},
};

const char *
sig_ecdsa_curve(enum sig_alg alg)
{
	return curves[alg].ssh;
}

size_t
sig_pub_size(enum sig_alg alg)
{
	return alg == SIG_ED25519 ? SIG_ED25519_PUB : 1 + 2 * curves[alg].bytes;
}

/* NULL: no such point. */
static EVP_PKEY *
key_of(enum sig_alg alg, struct str point)
{
	OSSL_PARAM params[] = {
	    OSSL_PARAM_construct_utf8_string(
		OSSL_PKEY_PARAM_GROUP_NAME, (char *)(uintptr_t)curves[alg].group, 0),
	    OSSL_PARAM_construct_octet_string(
		OSSL_PKEY_PARAM_PUB_KEY, (void *)(uintptr_t)point.p, point.n),
	    OSSL_PARAM_construct_end(),
	};
	EVP_PKEY_CTX *ctx;
	EVP_PKEY *key = NULL;

	if (curves[alg].group == NULL || point.n != sig_pub_size(alg) || point.p[0] != 4)
		return NULL;
	ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	if (ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	ERR_clear_error();
	return key;
}

bool
sig_ecdsa_point(enum sig_alg alg, struct str point)
{
	EVP_PKEY *key = key_of(alg, point);
	EVP_PKEY_CTX *ctx = key != NULL ? EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL) : NULL;
	bool good = ctx != NULL && EVP_PKEY_public_check(ctx) == 1;

	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(key);
	ERR_clear_error();
	return good;
}

bool
sig_ecdsa_verify_der(enum sig_alg alg, const uint8_t *point, struct str msg, struct str der)
{
	EVP_PKEY *key = key_of(alg, str_mem(point, sig_pub_size(alg)));
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const uint8_t *at = (const uint8_t *)der.p;
	ECDSA_SIG *sig = der.n <= DER_MAX ? d2i_ECDSA_SIG(NULL, &at, (long)der.n) : NULL;
	unsigned char *again = NULL;
	int n = sig != NULL ? i2d_ECDSA_SIG(sig, &again) : -1;
	bool good =
	    key != NULL && ctx != NULL && n >= 0 && (size_t)n == der.n &&
	    memcmp(again, der.p, der.n) == 0 &&
	    EVP_DigestVerifyInit_ex(ctx, NULL, curves[alg].digest, NULL, NULL, key, NULL) == 1 &&
	    EVP_DigestVerify(
		ctx, (const unsigned char *)der.p, der.n, (const unsigned char *)msg.p, msg.n) == 1;

	OPENSSL_free(again);
	ECDSA_SIG_free(sig);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	ERR_clear_error();
	return good;
}

/* An mpint that is positive, in its shortest form, and not longer than the curve's numbers. */
static BIGNUM *
number(enum sig_alg alg, struct rd *r)
{
	struct str s = rd_lstr(r);
	bool padded = s.n > 1 && s.p[0] == 0;

	if (r->bad || s.n == 0 || ((uint8_t)s.p[0] & 0x80) != 0 ||
	    (padded && ((uint8_t)s.p[1] & 0x80) == 0) || s.n - (padded ? 1 : 0) > curves[alg].bytes)
		return NULL;
	return BN_bin2bn((const unsigned char *)s.p, (int)s.n, NULL);
}

bool
sig_ecdsa_verify_ssh(enum sig_alg alg, const uint8_t *point, struct str msg, struct str rs)
{
	struct rd in = rd_init(rs);
	BIGNUM *r = number(alg, &in), *s = r != NULL ? number(alg, &in) : NULL;
	ECDSA_SIG *sig = s != NULL && rd_end(&in) ? ECDSA_SIG_new() : NULL;
	unsigned char *der = NULL;
	bool good = false;
	int n;

	if (sig != NULL && ECDSA_SIG_set0(sig, r, s) == 1) {
		n = i2d_ECDSA_SIG(sig, &der);
		good = n > 0 && sig_ecdsa_verify_der(alg, point, msg, str_mem(der, (size_t)n));
	} else {
		BN_free(r);
		BN_free(s);
	}
	OPENSSL_free(der);
	ECDSA_SIG_free(sig);
	return good;
}
