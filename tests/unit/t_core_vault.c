/* The vault file: round trip, order, versions; a wrong key or a changed byte opens nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <sodium.h>

#include "broker/core_vault.h"
#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

static struct vault_bind
bind_of(const char *name)
{
	return (struct vault_bind){.name = str_z(name),
	    .kind = STR("postgresql-password"),
	    .scheme = STR("postgresql"),
	    .host = STR("db.internal"),
	    .user = STR("agent"),
	    .port = 5432};
}

static void
put(struct vault *v, const char *name, struct str secret)
{
	struct vault_bind b = bind_of(name);
	struct err err;

	if (vault_put(v, &b, secret_copy(secret), &err) != 0)
		fail_msg("%s", err.msg);
}

static struct secret *
key(uint8_t fill)
{
	struct secret *k = secret_new(VAULT_KEY_LEN);

	memset(secret_bytes(k), fill, VAULT_KEY_LEN);
	return k;
}

static void
sealed_entries_open_as_they_were_sorted_by_name(void **state)
{
	AUTO(vault) struct vault *v = vault_new();
	AUTO(vault) struct vault *back = NULL;
	AUTO(secret) struct secret *k = key(1);
	AUTO_BUF struct buf file = BUF(VAULT_FILE_MAX);
	const struct vault_entry *e;
	struct err err;

	(void)state;
	put(v, "zeta", STR("z"));
	put(v, "alpha", str_mem("\0\xff\"\\", 4)); /* any bytes */
	put(v, "mid", STR("m"));
	assert_int_equal(vault_seal(v, k, &file, &err), 0);
	assert_null(memmem(file.p, file.n, "alpha", 5));
	assert_int_equal(vault_open(buf_str(&file), k, &back, &err), 0);
	assert_int_equal(vault_count(back), 3);
	assert_string_equal(vault_at(back, 0)->name, "alpha");
	assert_string_equal(vault_at(back, 2)->name, "zeta");
	e = vault_find(back, STR("alpha"));
	assert_true(str_eq(secret_str(e->secret), str_mem("\0\xff\"\\", 4)));
	assert_string_equal(e->host, "db.internal");
	assert_int_equal(e->port, 5432);
	assert_int_equal(e->version, 1);
	assert_null(vault_find(back, STR("alph")));
}

static void
an_empty_vault_is_a_vault(void **state)
{
	AUTO(vault) struct vault *v = vault_new();
	AUTO(vault) struct vault *back = NULL;
	AUTO(secret) struct secret *k = key(1);
	AUTO_BUF struct buf file = BUF(VAULT_FILE_MAX);
	struct err err;

	(void)state;
	assert_int_equal(vault_seal(v, k, &file, &err), 0);
	assert_int_equal(vault_open(buf_str(&file), k, &back, &err), 0);
	assert_int_equal(vault_count(back), 0);
}

static void
replacing_counts_the_version_and_removing_removes(void **state)
{
	AUTO(vault) struct vault *v = vault_new();
	struct err err;

	(void)state;
	put(v, "a", STR("one"));
	put(v, "a", STR("two"));
	assert_int_equal(vault_count(v), 1);
	assert_int_equal(vault_find(v, STR("a"))->version, 2);
	assert_true(str_eqz(secret_str(vault_find(v, STR("a"))->secret), "two"));
	assert_int_equal(vault_remove(v, STR("b"), &err), ERR_NOT_FOUND);
	assert_int_equal(vault_remove(v, STR("a"), &err), 0);
	assert_int_equal(vault_count(v), 0);
}

static void
rotating_keeps_the_binding_and_takes_what_fits_it(void **state)
{
	AUTO(vault) struct vault *v = vault_new();
	AUTO(secret) struct secret *bad = secret_copy(STR("two\nlines"));
	struct vault_bind b = {.name = STR("t"),
	    .kind = STR("bearer"),
	    .scheme = STR("https"),
	    .host = STR("api.test"),
	    .port = 443};
	const struct vault_entry *e;
	struct err err;

	(void)state;
	assert_int_equal(vault_put(v, &b, secret_copy(STR("first")), &err), 0);
	assert_int_equal(vault_rotate(v, STR("t"), bad, 7, &err), ERR_INVALID);
	assert_int_equal(vault_rotate(v, STR("none"), bad, 7, &err), ERR_NOT_FOUND);
	assert_int_equal(vault_rotate(v, STR("t"), secret_copy(STR("second")), 7, &err), 0);
	e = vault_find(v, STR("t"));
	assert_true(str_eqz(secret_str(e->secret), "second"));
	assert_int_equal(e->version, 2);
	assert_int_equal(e->set_s, 7);
	assert_string_equal(e->host, "api.test");
}

static void
a_wrong_key_or_any_changed_byte_opens_nothing(void **state)
{
	AUTO(vault) struct vault *v = vault_new();
	AUTO(secret) struct secret *k = key(1);
	AUTO(secret) struct secret *other = key(2);
	AUTO(secret) struct secret *small = secret_new(31);
	AUTO_BUF struct buf file = BUF(VAULT_FILE_MAX);
	struct vault *back = NULL;
	struct err err;

	(void)state;
	put(v, "a", STR("one"));
	assert_int_equal(vault_seal(v, k, &file, &err), 0);
	assert_int_equal(vault_open(buf_str(&file), other, &back, &err), ERR_TAMPER);
	assert_string_equal(err.msg,
	    "vault: not sealed under keys/vault.key, or changed since: restore vault and "
	    "keys/vault.key from the same backup");
	assert_int_equal(vault_open(buf_str(&file), small, &back, &err), ERR_CONFIG);
	for (size_t i = 0; i < file.n; i++) {
		file.p[i] ^= 0x10;
		assert_int_equal(vault_open(buf_str(&file), k, &back, &err), ERR_TAMPER);
		file.p[i] ^= 0x10;
	}
	for (size_t n = 0; n < file.n; n++)
		assert_int_equal(vault_open(str_mem(file.p, n), k, &back, &err), ERR_TAMPER);
	assert_null(back);
}

struct kind_case {
	const char *kind, *scheme, *host, *user, *field, *secret;
	int want;
};

static int
kind_try(const struct kind_case *c, struct err *err)
{
	struct vault_bind b = {.name = STR("a"),
	    .kind = str_z(c->kind),
	    .scheme = str_z(c->scheme),
	    .host = str_z(c->host),
	    .user = str_z(c->user),
	    .field = str_z(c->field),
	    .port = 443};

	return vault_bind_check(&b, str_z(c->secret), err);
}

/* Each refusal stands beside the nearest that is allowed. */
static void
a_credential_fits_its_kind_and_cannot_write_a_message(void **state)
{
	static const struct kind_case cases[] = {
	    {"bearer", "https", "api.test", "", "", "tok-123", 0},
	    {"bearer", "https", "api.test", "u", "", "tok-123", ERR_INVALID},
	    {"bearer", "https", "api.test", "", "F", "tok-123", ERR_INVALID},
	    {"bearer", "https", "api.test", "", "", "tok", ERR_INVALID},
	    {"bearer", "https", "api.test", "", "", "tok 123", ERR_INVALID},
	    {"bearer", "https", "api.test", "", "", "tok\r\nX: 1", ERR_INVALID},
	    {"bearer", "http", "api.test", "", "", "tok-123", ERR_INVALID},
	    {"bearer", "http", "127.0.0.9", "", "", "tok-123", 0},
	    {"bearer", "http", "localhost", "", "", "tok-123", 0},
	    {"bearer", "http", "model.localhost", "", "", "tok-123", 0},
	    {"bearer", "http", "::1", "", "", "tok-123", 0},
	    {"bearer", "http", "::2", "", "", "tok-123", ERR_INVALID},
	    {"bearer", "http", "127.0.0.1.evil.test", "", "", "tok-123", ERR_INVALID},
	    {"bearer", "http", "notlocalhost", "", "", "tok-123", ERR_INVALID},
	    {"bearer", "ftp", "api.test", "", "", "tok-123", ERR_UNSUPPORTED},
	    {"bearer", "postgresql", "api.test", "", "", "tok-123", ERR_UNSUPPORTED},
	    {"basic", "https", "api.test", "u", "", "pass word", 0},
	    {"basic", "https", "api.test", "u:v", "", "pass", ERR_INVALID},
	    {"basic", "https", "api.test", "", "", "pass", ERR_INVALID},
	    {"header", "https", "api.test", "", "X-Api-Key", "key-1", 0},
	    {"header", "https", "api.test", "", "X-Api-Key", "key-1 ", ERR_INVALID},
	    {"header", "https", "api.test", "", "X-Api-Key", "key\n1", ERR_INVALID},
	    {"header", "https", "api.test", "", "", "key-1", ERR_INVALID},
	    {"header", "https", "api.test", "", "X Api", "key-1", ERR_INVALID},
	    {"header", "https", "api.test", "", "X:", "key-1", ERR_INVALID},
	    {"header", "https", "api.test", "", "hOst", "key-1", ERR_INVALID},
	    {"header", "https", "api.test", "", "Content-Length", "1000", ERR_INVALID},
	    {"header", "https", "api.test", "", "Proxy-Authorization", "key-1", ERR_INVALID},
	    {"header", "https", "api.test", "", "Proxied", "key-1", 0},
	    {"query", "https", "api.test", "", "api_key", "key&1", 0},
	    {"query", "https", "api.test", "", "a=b", "key&1", ERR_INVALID},
	    {"postgresql-password", "postgresql", "db", "u", "", "x", 0},
	    {"postgresql-password", "https", "db", "u", "", "x", ERR_UNSUPPORTED},
	    {"cookie", "https", "api.test", "", "", "tok-123", ERR_UNSUPPORTED},
	};
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int rc = kind_try(&cases[i], &err);

		if (rc != cases[i].want)
			fail_msg("case %zu: %d, not %d: %s", i, rc, cases[i].want, err.msg);
		if (rc != 0)
			assert_null(strstr(err.msg, "tok-123"));
	}
}

static void
field_and_time_of_setting_are_kept(void **state)
{
	AUTO(vault) struct vault *v = vault_new();
	AUTO(vault) struct vault *back = NULL;
	AUTO(secret) struct secret *k = key(1);
	AUTO_BUF struct buf file = BUF(VAULT_FILE_MAX);
	struct vault_bind b = {.name = STR("b"),
	    .kind = STR("header"),
	    .scheme = STR("https"),
	    .host = STR("api.test"),
	    .field = STR("X-Api-Key"),
	    .port = 443,
	    .set_s = 1796000000};
	struct err err;

	(void)state;
	put(v, "a", STR("one"));
	assert_int_equal(vault_put(v, &b, secret_copy(STR("key-1")), &err), 0);
	put(v, "c", STR("three"));
	assert_int_equal(vault_seal(v, k, &file, &err), 0);
	assert_int_equal(vault_open(buf_str(&file), k, &back, &err), 0);
	assert_string_equal(vault_at(back, 0)->field, "");
	assert_int_equal(vault_at(back, 0)->set_s, 0);
	assert_string_equal(vault_at(back, 1)->field, "X-Api-Key");
	assert_string_equal(vault_at(back, 1)->user, "");
	assert_int_equal(vault_at(back, 1)->set_s, 1796000000);
	assert_string_equal(vault_at(back, 2)->user, "agent");
}

/* What opens under the key but is not of the exact form: our own writer never makes it. */
static void
a_sealed_text_that_is_not_of_the_form_is_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "{}",
	    "{\"credentials\":[]",
	    "{\"credentials\":[]} ",
	    "{\"credentials\":[,]}",
	    "{\"credentials\":[{\"bind\":{\"host\":\"h\",\"port\":0,\"scheme\":\"postgresql\","
	    "\"user\":\"u\"},"
	    "\"kind\":\"postgresql-password\",\"name\":\"a\",\"secret\":\"YQ==\",\"version\":1}]}",
	    "{\"credentials\":[{\"bind\":{\"host\":\"h\",\"port\":1,\"scheme\":\"postgresql\","
	    "\"user\":\"u\"},"
	    "\"kind\":\"postgresql-password\",\"name\":\"a\",\"secret\":\"YQ\",\"version\":1}]}",
	    "{\"credentials\":[{\"bind\":{\"host\":\"h\",\"port\":1,\"scheme\":\"postgresql\","
	    "\"user\":\"u\"},"
	    "\"kind\":\"bearer\",\"name\":\"a\",\"secret\":\"YQ==\",\"version\":1}]}",
	    "{\"credentials\":[{\"bind\":{\"field\":\"\",\"host\":\"h\",\"port\":1,"
	    "\"scheme\":\"postgresql\",\"user\":\"u\"},"
	    "\"kind\":\"postgresql-password\",\"name\":\"a\",\"secret\":\"YQ==\",\"version\":1}]}",
	    "{\"credentials\":[{\"bind\":{\"field\":\"f\",\"host\":\"h\",\"port\":1,"
	    "\"scheme\":\"postgresql\",\"user\":\"u\"},"
	    "\"kind\":\"postgresql-password\",\"name\":\"a\",\"secret\":\"YQ==\",\"version\":1}]}",
	    "{\"credentials\":[{\"bind\":{\"host\":\"h\",\"port\":1,\"scheme\":\"postgresql\","
	    "\"user\":\"u\"},"
	    "\"kind\":\"postgresql-password\",\"name\":\"a\",\"secret\":\"YQ==\",\"set\":0,"
	    "\"version\":1}]}",
	    "{\"credentials\":[{\"bind\":{\"host\":\"h\",\"port\":1,\"scheme\":\"postgresql\","
	    "\"user\":\"u\"},"
	    "\"kind\":\"postgresql-password\",\"name\":\"a\",\"secret\":\"YQ==\",\"version\":0}]}",
	};
	static const char good[] =
	    "{\"credentials\":[{\"bind\":{\"host\":\"h\",\"port\":1,\"scheme\":\"postgresql\","
	    "\"user\":\"u\"},"
	    "\"kind\":\"postgresql-password\",\"name\":\"a\",\"secret\":\"YQ==\",\"version\":7}]}";
	AUTO(secret) struct secret *k = key(1);
	struct vault *back = NULL;
	struct err err;

	(void)state;
	for (size_t i = 0; i <= ARRAY_LEN(bad); i++) {
		const char *text = i < ARRAY_LEN(bad) ? bad[i] : good;
		uint8_t file[1024] = "CFV1";
		unsigned long long n = 0;

		(void)crypto_aead_xchacha20poly1305_ietf_encrypt(file + 28, &n,
		    (const uint8_t *)text, strlen(text), (const uint8_t *)"CFV1", 4, NULL, file + 4,
		    (const uint8_t *)secret_str(k).p);
		if (i < ARRAY_LEN(bad)) {
			assert_int_equal(vault_open(str_mem(file, 28 + n), k, &back, &err) != 0, 1);
			continue;
		}
		assert_int_equal(vault_open(str_mem(file, 28 + n), k, &back, &err), 0);
		assert_int_equal(vault_find(back, STR("a"))->version, 7);
		vault_free(back);
	}
}

static void
names_and_secrets_have_their_limits(void **state)
{
	AUTO(vault) struct vault *v = vault_new();
	AUTO_FREE char *big = xcalloc(1, VAULT_SECRET_MAX + 1);
	static const char *const names[] = {"", "a b", "a/b", "a\"b", "\xc3\xa4"};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO(secret) struct secret *s = secret_copy(STR("x"));
		struct vault_bind b = bind_of(names[i]);

		assert_int_equal(vault_put(v, &b, s, &err), ERR_INVALID);
	}
	for (size_t n = 0; n <= VAULT_SECRET_MAX + 1; n += VAULT_SECRET_MAX + 1) {
		AUTO(secret) struct secret *s = secret_copy(str_mem(big, n));
		struct vault_bind b = bind_of("a");

		assert_int_equal(vault_put(v, &b, s, &err), ERR_INVALID);
	}
	put(v, "A-z0.9_", str_mem(big, VAULT_SECRET_MAX));
	assert_int_equal(vault_count(v), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sealed_entries_open_as_they_were_sorted_by_name),
	    cmocka_unit_test(an_empty_vault_is_a_vault),
	    cmocka_unit_test(replacing_counts_the_version_and_removing_removes),
	    cmocka_unit_test(rotating_keeps_the_binding_and_takes_what_fits_it),
	    cmocka_unit_test(a_wrong_key_or_any_changed_byte_opens_nothing),
	    cmocka_unit_test(a_credential_fits_its_kind_and_cannot_write_a_message),
	    cmocka_unit_test(field_and_time_of_setting_are_kept),
	    cmocka_unit_test(a_sealed_text_that_is_not_of_the_form_is_refused),
	    cmocka_unit_test(names_and_secrets_have_their_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
