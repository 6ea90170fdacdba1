/* Leaves of the run CA: for the target's name, for one key, for a day; nothing else is signed. */
#include "tests/unit/ca_help.h"

#include "broker/core_ca.h"
#include "common/banned.h"

#define NOW INT64_C(1780000000)

struct made {
	struct core_ca *ca;
	struct buf key, cert;
};

static void
make(struct made *m)
{
	struct err err;

	m->key = BUF(8192);
	m->cert = BUF(8192);
	ca_make(&m->key, &m->cert);
	if (core_ca_load(buf_str(&m->key), buf_str(&m->cert), &m->ca, &err) != 0)
		fail_msg("%s", err.msg);
}

static void
drop(struct made *m)
{
	core_ca_free(m->ca);
	buf_free(&m->key);
	buf_free(&m->cert);
}

static X509 *
leaf(const struct made *m, EVP_PKEY *k, const char *host)
{
	AUTO_BUF struct buf spki = BUF(4096);
	AUTO_BUF struct buf pem = BUF(16384);
	struct err err;
	BIO *b;
	X509 *x;

	spki_of(k, &spki);
	if (core_ca_sign(m->ca, buf_str(&spki), str_z(host), NOW, &pem, &err) != 0)
		fail_msg("%s", err.msg);
	b = BIO_new_mem_buf(pem.p, (int)pem.n);
	x = PEM_read_bio_X509(b, NULL, NULL, NULL);
	BIO_free_all(b);
	assert_non_null(x);
	return x;
}

static bool
verifies(const struct made *m, X509 *x, time_t when)
{
	BIO *b = BIO_new_mem_buf(m->cert.p, (int)m->cert.n);
	X509 *ca = PEM_read_bio_X509(b, NULL, NULL, NULL);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_VERIFY_PARAM *p;
	bool ok;

	(void)X509_STORE_add_cert(store, ca);
	(void)X509_STORE_CTX_init(ctx, store, x, NULL);
	p = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_time(p, when);
	(void)X509_VERIFY_PARAM_set_purpose(p, X509_PURPOSE_SSL_SERVER);
	ok = X509_verify_cert(ctx) == 1;
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(ca);
	BIO_free_all(b);
	return ok;
}

static void
a_leaf_is_for_the_host_and_verifies_for_a_day(void **state)
{
	struct made m;
	time_t now = time(NULL);
	X509 *x;

	(void)state;
	make(&m);
	{
		AUTO_BUF struct buf spki = BUF(4096);
		AUTO_BUF struct buf pem = BUF(16384);
		struct err err;
		BIO *b;

		spki_of(EVP_EC_gen("P-256"), &spki);
		assert_int_equal(
		    core_ca_sign(m.ca, buf_str(&spki), STR("db.internal"), now, &pem, &err), 0);
		b = BIO_new_mem_buf(pem.p, (int)pem.n);
		x = PEM_read_bio_X509(b, NULL, NULL, NULL);
		BIO_free_all(b);
	}
	assert_int_equal(X509_check_host(x, "db.internal", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(x, "other.internal", 0, 0, NULL), 0);
	assert_true(verifies(&m, x, now));
	assert_false(verifies(&m, x, now + CA_LEAF_SECONDS + 1));
	assert_false(verifies(&m, x, now - CA_BACKDATE_SECONDS - 1));
	assert_int_equal(X509_check_ca(x), 0); /* cannot sign others */
	X509_free(x);
	drop(&m);
}

static void
an_address_becomes_an_address(void **state)
{
	struct made m;
	X509 *x;

	(void)state;
	make(&m);
	x = leaf(&m, EVP_RSA_gen(2048), "127.0.0.1");
	assert_int_equal(X509_check_ip_asc(x, "127.0.0.1", 0), 1);
	assert_int_equal(X509_check_host(x, "127.0.0.1", 0, 0, NULL), 0);
	X509_free(x);
	drop(&m);
}

static void
other_keys_and_strange_hosts_are_refused(void **state)
{
	struct made m;
	AUTO_BUF struct buf p384 = BUF(4096);
	AUTO_BUF struct buf small = BUF(4096);
	AUTO_BUF struct buf good = BUF(4096);
	AUTO_BUF struct buf pem = BUF(16384);
	struct err err = {0};

	(void)state;
	make(&m);
	spki_of(EVP_EC_gen("P-384"), &p384);
	spki_of(EVP_RSA_gen(1024), &small);
	spki_of(EVP_EC_gen("P-256"), &good);
	assert_int_equal(
	    core_ca_sign(m.ca, buf_str(&p384), STR("h"), NOW, &pem, &err), ERR_UNSUPPORTED);
	assert_int_equal(
	    core_ca_sign(m.ca, buf_str(&small), STR("h"), NOW, &pem, &err), ERR_UNSUPPORTED);
	assert_int_equal(
	    core_ca_sign(m.ca, STR("not a key"), STR("h"), NOW, &pem, &err), ERR_INVALID);
	assert_int_equal(core_ca_sign(m.ca, buf_str(&good), STR(""), NOW, &pem, &err), ERR_INVALID);
	assert_int_equal(
	    core_ca_sign(m.ca, buf_str(&good), STR("a,DNS:b"), NOW, &pem, &err), ERR_INVALID);
	buf_put_c(&good, 'x'); /* trailing bytes */
	assert_int_equal(
	    core_ca_sign(m.ca, buf_str(&good), STR("h"), NOW, &pem, &err), ERR_INVALID);
	assert_int_equal(pem.n, 0);
	drop(&m);
}

static void
a_key_of_another_ca_does_not_load(void **state)
{
	AUTO_BUF struct buf k1 = BUF(8192);
	AUTO_BUF struct buf c1 = BUF(8192);
	AUTO_BUF struct buf k2 = BUF(8192);
	AUTO_BUF struct buf c2 = BUF(8192);
	struct core_ca *ca = NULL;
	struct err err;

	(void)state;
	ca_make(&k1, &c1);
	ca_make(&k2, &c2);
	assert_int_equal(core_ca_load(buf_str(&k1), buf_str(&c2), &ca, &err), ERR_CONFIG);
	assert_int_equal(core_ca_load(STR("x"), buf_str(&c1), &ca, &err), ERR_CONFIG);
	assert_string_equal(
	    err.msg, "keys/ca/key.pem is not a PEM private key: restore both from the same backup");
	assert_null(ca);
	assert_int_equal(core_ca_load(buf_str(&k1), buf_str(&c1), &ca, &err), 0);
	core_ca_free(ca);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_leaf_is_for_the_host_and_verifies_for_a_day),
	    cmocka_unit_test(an_address_becomes_an_address),
	    cmocka_unit_test(other_keys_and_strange_hosts_are_refused),
	    cmocka_unit_test(a_key_of_another_ca_does_not_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
