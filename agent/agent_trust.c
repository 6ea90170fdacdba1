/*
 * Forms of the certificates that a sandbox is given (process: cofferdam-agent). All of it is
 * public. Nothing here decides what is trusted: no connection leaves the sandbox but to the
 * broker, whose leaves the run's CA signs.
 */
#include "common/ossl.h"

#include "agent/agent_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/xalloc.h"
#include "agent/sandbox/sandbox.h"

#include "common/banned.h"

#define MAC_ROUNDS 1024
#define CERTS_MAX 1024

/* --- the bundle of this machine -------------------------------------------------- */

static int
read_all(int fd, struct buf *out)
{
	for (;;) {
		uint8_t room[16384];
		ssize_t k = read(fd, room, sizeof(room));

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 || buf_over(out) ? -1 : 0;
		buf_put(out, room, (size_t)k);
	}
}

static char *
roots_read(void)
{
	static const char *const places[] = {"/etc/ssl/certs/ca-certificates.crt",
	    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
	AUTO_BUF struct buf b = BUF(SANDBOX_TRUST_MAX);

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		AUTO_FD int fd = open(places[i], O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue;
		if (read_all(fd, &b) == 0 && (b.n == 0 || memchr(b.p, 0, b.n) == NULL))
			return buf_dup_z(&b);
		log_warn("%s cannot be read as certificates: the sandbox trusts the run's CA alone",
		    places[i]);
		return NULL;
	}
	return NULL;
}

/* --- PKCS #12 -------------------------------------------------------------------- */

typedef STACK_OF(PKCS12_SAFEBAG) bags_t;
typedef STACK_OF(PKCS7) safes_t;

static void
bags_free(bags_t **b)
{
	sk_PKCS12_SAFEBAG_pop_free(*b, PKCS12_SAFEBAG_free);
}

static void
safes_free(safes_t **s)
{
	sk_PKCS7_pop_free(*s, PKCS7_free);
}

/* Java takes a certificate for trusted only with this attribute: "trusted for any usage". */
static bool
attribute_add(PKCS12_SAFEBAG *bag)
{
	ASN1_OBJECT *any = OBJ_txt2obj("2.5.29.37.0", 1);
	int ok = any != NULL ? PKCS12_add1_attr_by_txt(bag, "2.16.840.1.113894.746875.1.1",
				   V_ASN1_OBJECT, (const unsigned char *)any, -1)
			     : 0;

	ASN1_OBJECT_free(any);
	return ok == 1;
}

static bool
bag_add(bags_t *bags, X509 *x)
{
	PKCS12_SAFEBAG *bag = PKCS12_SAFEBAG_create_cert(x);

	if (bag != NULL && attribute_add(bag) && sk_PKCS12_SAFEBAG_push(bags, bag) > 0)
		return true;
	PKCS12_SAFEBAG_free(bag);
	return false;
}

/* Certificates of a PEM text; what is none ends it. */
static bool
pem_add(bags_t *bags, const char *pem)
{
	BIO *bio = pem != NULL ? BIO_new_mem_buf(pem, -1) : NULL;
	bool ok = true;
	X509 *x;

	while (ok && bio != NULL && sk_PKCS12_SAFEBAG_num(bags) < CERTS_MAX &&
	       (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		ok = bag_add(bags, x);
		X509_free(x);
	}
	BIO_free(bio);
	return ok;
}

static bool
keystore_write(bags_t *bags, struct buf *out)
{
	__attribute__((cleanup(safes_free))) safes_t *safes = sk_PKCS7_new_null();
	PKCS7 *p7 = PKCS12_pack_p7data(bags);
	PKCS12 *p12 = NULL;
	unsigned char *der = NULL;
	int n = -1;

	if (safes == NULL || p7 == NULL || sk_PKCS7_push(safes, p7) <= 0) {
		PKCS7_free(p7);
		return false;
	}
	p12 = PKCS12_add_safes(safes, 0);
	if (p12 != NULL &&
	    PKCS12_set_mac(p12, "changeit", -1, NULL, 0, MAC_ROUNDS, EVP_sha256()) == 1)
		n = i2d_PKCS12(p12, &der);
	if (n > 0)
		buf_put(out, der, (size_t)n);
	OPENSSL_free(der);
	PKCS12_free(p12);
	return n > 0 && !buf_over(out);
}

static int
ca_hash(const char *ca_pem, char out[9], struct err *err)
{
	BIO *bio = BIO_new_mem_buf(ca_pem, -1);
	X509 *x = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
	unsigned long h = 0;
	int ok = 0;

	if (x != NULL)
		h = X509_NAME_hash_ex(X509_get_subject_name(x), NULL, NULL, &ok);
	X509_free(x);
	BIO_free(bio);
	if (ok != 1)
		return err_set(err, ERR_CRYPTO, "the broker's CA is no certificate");
	(void)snprintf(out, 9, "%08lx", h & 0xffffffffUL);
	return 0;
}

int
agent_trust_load(const char *ca_pem, struct agent_trust *ret, struct err *err)
{
	__attribute__((cleanup(bags_free))) bags_t *bags = sk_PKCS12_SAFEBAG_new_null();
	int rc;

	*ret = (struct agent_trust){.keystore = BUF(SANDBOX_TRUST_MAX)};
	if ((rc = ca_hash(ca_pem, ret->ca_hash, err)) != 0)
		return rc;
	ret->roots_pem = roots_read();
	if (bags == NULL || !pem_add(bags, ca_pem) || !pem_add(bags, ret->roots_pem) ||
	    !keystore_write(bags, &ret->keystore))
		return err_set(err, ERR_CRYPTO, "a keystore for Java cannot be made");
	return 0;
}

void
agent_trust_free(struct agent_trust *t)
{
	free(t->roots_pem);
	buf_free(&t->keystore);
}
