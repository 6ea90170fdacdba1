/*
 * Unit tests of common/hash: digests by known vectors, encodings by RFC 4648 vectors, and
 * that no value has two accepted spellings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/hash.h"

#include "common/banned.h"

static void
assert_sha256(struct hash h, const char *want)
{
	char z[HASH_HEX_SIZE];

	hash_hex(&h, z);
	assert_string_equal(z, want);
}

static void
sha256_gives_the_known_digests(void **state UNUSED)
{
	assert_sha256(hash_sha256(STR("abc")),
	    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_sha256(hash_sha256(STR_NONE),
	    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void
sha512_gives_the_known_digest(void **state UNUSED)
{
	AUTO_BUF struct buf hex = BUF(200);
	uint8_t h[64];

	hash_sha512(STR("abc"), h);
	enc_hex(&hex, str_mem(h, sizeof(h)));
	assert_true(str_eqz(buf_str(&hex),
	    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
	    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"));
}

static void
parts_and_pieces_hash_as_their_concatenation(void **state UNUSED)
{
	const struct str parts[] = {STR("a"), STR_NONE, STR("bc")};
	struct hash_ctx *x = hash_begin(), *y = hash_begin();
	struct hash want = hash_sha256(STR("abc")), hx, hy;

	/* Two at once: they share nothing. */
	hash_add(x, "ab", 2);
	hash_add(y, "zz", 2);
	hash_add(x, NULL, 0);
	hash_add(x, "c", 1);
	hx = hash_end(x);
	hy = hash_end(y);
	assert_true(hash_eq(&hx, &want));
	assert_false(hash_eq(&hy, &want));
	hx = hash_sha256_parts(parts, ARRAY_LEN(parts));
	assert_true(hash_eq(&hx, &want));
}

static void
digests_that_differ_in_one_bit_are_not_equal(void **state UNUSED)
{
	struct hash a = hash_sha256(STR("abc"));

	for (size_t i = 0; i < HASH_LEN * 8; i++) {
		struct hash b = a;

		b.b[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_false(hash_eq(&a, &b));
	}
	assert_true(hash_eq(&a, &a));
}

static void
a_digest_is_read_from_64_lower_case_digits_only(void **state UNUSED)
{
	char z[HASH_HEX_SIZE];
	struct hash h = hash_sha256(STR("abc")), g = {{0}};

	hash_hex(&h, z);
	assert_true(hash_from_hex(str_z(z), &g) && hash_eq(&g, &h));
	assert_false(hash_from_hex(str_mem(z, 63), &g));
	assert_false(hash_from_hex(str_mem(z, 65), &g));
	z[0] = 'B';
	assert_false(hash_from_hex(str_z(z), &g));
	z[0] = 'g';
	assert_false(hash_from_hex(str_z(z), &g));
	assert_true(hash_eq(&g, &h));
}

static void
hex_goes_both_ways_and_refuses_the_rest(void **state UNUSED)
{
	static const char *const bad[] = {"0", "0g", "AB", "0x", " 0", "0 "};
	AUTO_BUF struct buf b = BUF(100);

	enc_hex(&b, str_mem("\x00\x7f\xff", 3));
	assert_true(str_eqz(buf_str(&b), "007fff"));
	buf_reset(&b);
	assert_true(enc_unhex(STR("007fff"), &b));
	assert_memory_equal(b.p, "\x00\x7f\xff", 3);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(enc_unhex(str_z(bad[i]), &b));
	assert_int_equal(b.n, 3);
}

static void
base64_gives_the_vectors_of_rfc_4648(void **state UNUSED)
{
	static const char *const v[][2] = {{"", ""}, {"f", "Zg=="},
	    {"f"
	     "o",
		"Zm8="},
	    {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"},
	    {"\xfb\xff\xfe", "+//+"}};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		AUTO_BUF struct buf e = BUF(100);
		AUTO_BUF struct buf d = BUF(100);

		enc_base64(&e, str_z(v[i][0]));
		assert_true(str_eqz(buf_str(&e), v[i][1]));
		assert_true(enc_unbase64(str_z(v[i][1]), &d));
		assert_true(str_eqz(buf_str(&d), v[i][0]));
	}
}

static void
base64_in_any_other_spelling_is_refused(void **state UNUSED)
{
	static const char *const bad[] = {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm9v\n", "Zm 9v",
	    " Zm9v", "Zg==Zg==", "=", "====", "Z===", "-_-_", "Zm9v=", "Zm8=Zm8=", "Zm9vYg==\n"};
	AUTO_BUF struct buf b = BUF(100);

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (enc_unbase64(str_z(bad[i]), &b))
			fail_msg("%s was accepted", bad[i]);
	assert_int_equal(b.n, 0);
	assert_true(enc_unbase64(STR("Zg=="), &b));
}

static void
decoding_into_too_small_a_buffer_fails(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(2);
	AUTO_BUF struct buf c = BUF(1);

	assert_false(enc_unbase64(STR("Zm9v"), &b));
	assert_false(enc_unhex(STR("0011"), &c));
}

static void
base32_is_lower_case_without_padding(void **state UNUSED)
{
	static const char *const v[][2] = {{"", ""}, {"f", "my"},
	    {"f"
	     "o",
		"mzxq"},
	    {"foo", "mzxw6"}, {"foob", "mzxw6yq"}, {"fooba", "mzxw6ytb"}, {"foobar", "mzxw6ytboi"}};
	AUTO_BUF struct buf id = BUF(100);

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		AUTO_BUF struct buf b = BUF(100);

		enc_base32(&b, str_z(v[i][0]));
		assert_true(str_eqz(buf_str(&b), v[i][1]));
	}
	enc_base32(&id, STR("0123456789abcdef"));
	assert_int_equal(id.n, 26);
}

static void
percent_leaves_printable_ascii_alone(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(100);

	enc_percent(&b, str_mem("a ~%\n\x7f\xc3\xa9\0", 9));
	assert_true(str_eqz(buf_str(&b), "a ~%25%0A%7F%C3%A9%00"));
}

static void
an_escape_is_undone_once_and_what_is_none_stays(void **state UNUSED)
{
	static const char digits[] = "0123456789abcdef";
	AUTO_BUF struct buf b = BUF(100);

	enc_unpercent(&b, STR("%41%7e%2Fa+b%2541%4%g1%1G%"));
	assert_true(str_eqz(buf_str(&b), "A~/a+b%41%4%g1%1G%"));
	for (int c = 0; c < 256; c++) {
		const char *at = c != 0 ? strchr(digits, c | (c >= 'A' ? 0x20 : 0)) : NULL;

		assert_int_equal(enc_hex_digit((char)c), at != NULL ? at - digits : -1);
	}
}

static void
random_bytes_fill_all_that_was_asked_and_do_not_repeat(void **state UNUSED)
{
	uint8_t a[1000] = {0}, b[1000] = {0};
	size_t zero = 0;

	rand_bytes(a, sizeof(a));
	rand_bytes(b, sizeof(b));
	rand_bytes(b, 0);
	assert_memory_not_equal(a, b, sizeof(a));
	for (size_t i = 0; i < sizeof(a); i++)
		zero += a[i] == 0;
	assert_true(zero < 50);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sha256_gives_the_known_digests),
	    cmocka_unit_test(sha512_gives_the_known_digest),
	    cmocka_unit_test(parts_and_pieces_hash_as_their_concatenation),
	    cmocka_unit_test(digests_that_differ_in_one_bit_are_not_equal),
	    cmocka_unit_test(a_digest_is_read_from_64_lower_case_digits_only),
	    cmocka_unit_test(hex_goes_both_ways_and_refuses_the_rest),
	    cmocka_unit_test(base64_gives_the_vectors_of_rfc_4648),
	    cmocka_unit_test(base64_in_any_other_spelling_is_refused),
	    cmocka_unit_test(decoding_into_too_small_a_buffer_fails),
	    cmocka_unit_test(base32_is_lower_case_without_padding),
	    cmocka_unit_test(an_escape_is_undone_once_and_what_is_none_stays),
	    cmocka_unit_test(percent_leaves_printable_ascii_alone),
	    cmocka_unit_test(random_bytes_fill_all_that_was_asked_and_do_not_repeat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
