/* Sealed content: what comes out is what was put in and committed to, or an error. */
#include "audit/blob.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "common/banned.h"

static struct secret *
key_of(uint8_t b)
{
	struct secret *k = secret_new(BLOB_KEY_LEN);

	memset(secret_bytes(k), b, BLOB_KEY_LEN);
	return k;
}

static void
content_comes_back_with_its_key_and_reference(void **state)
{
	AUTO(secret) struct secret *k = key_of(1);
	AUTO_BUF struct buf frame = BUF(4096), plain = BUF(64), j_text = BUF(1024);
	AUTO(json) struct json_doc *d = NULL;
	struct blob_ref ref, again;
	struct jcs j;
	size_t len;
	struct hash ct;

	(void)state;
	assert_int_equal(
	    blob_seal(k, STR("r-1"), "text/plain", STR("DROP TABLE x"), &frame, &ref, NULL), 0);
	assert_int_equal(blob_frame_check(buf_str(&frame), &len, &ct, NULL), 0);
	assert_true(len == frame.n && hash_eq(&ct, &ref.ct));
	jcs_init(&j, &j_text);
	blob_ref_jcs(&j, NULL, &ref);
	assert_int_equal(json_parse(buf_str(&j_text), "ref", &d, NULL), 0);
	assert_int_equal(blob_ref_parse(json_root(d), &again, NULL), 0);
	assert_int_equal(blob_open(k, buf_str(&frame), &again, &plain, NULL), 0);
	assert_true(str_eqz(buf_str(&plain), "DROP TABLE x"));
}

static void
another_key_another_frame_or_another_commitment_is_refused(void **state)
{
	AUTO(secret) struct secret *k = key_of(1), *wrong = key_of(2), *brief = secret_new(16);
	AUTO_BUF struct buf frame = BUF(4096), other = BUF(4096), plain = BUF(64);
	struct blob_ref ref, ref2, mixed;

	(void)state;
	assert_int_equal(blob_seal(k, STR("r"), "t", STR("one"), &frame, &ref, NULL), 0);
	assert_int_equal(blob_seal(k, STR("r"), "t", STR("one"), &other, &ref2, NULL), 0);
	assert_false(hash_eq(&ref.c, &ref2.c)); /* salted: equal content does not show */
	assert_int_equal(blob_open(wrong, buf_str(&frame), &ref, &plain, NULL), ERR_CRYPTO);
	assert_int_equal(blob_open(brief, buf_str(&frame), &ref, &plain, NULL), ERR_CRYPTO);
	assert_int_equal(blob_open(k, buf_str(&other), &ref, &plain, NULL), ERR_TAMPER);
	mixed = ref;
	mixed.c = ref2.c;
	assert_int_equal(blob_open(k, buf_str(&frame), &mixed, &plain, NULL), ERR_TAMPER);
	mixed = ref;
	mixed.len++;
	assert_int_equal(blob_open(k, buf_str(&frame), &mixed, &plain, NULL), ERR_TAMPER);
	assert_int_equal(plain.n, 0);
	assert_int_equal(blob_open(k, buf_str(&frame), &ref, &plain, NULL), 0);
}

static void
a_lent_key_opens_its_own_frame_alone_and_a_wrap_only_under_its_name(void **state)
{
	AUTO(secret) struct secret *k = key_of(1), *a = NULL, *b = NULL;
	AUTO_BUF struct buf one = BUF(4096), two = BUF(4096), plain = BUF(64);
	uint8_t wa[BLOB_WRAP_LEN], wb[BLOB_WRAP_LEN];
	struct blob_ref ref, other, renamed;

	(void)state;
	assert_int_equal(blob_key_new(k, STR("r-1"), &a, wa, NULL), 0);
	assert_int_equal(blob_key_new(k, STR("r-1"), &b, wb, NULL), 0);
	assert_false(str_eq(secret_str(a), secret_str(b)));
	assert_int_equal(blob_seal_with(a, wa, STR("r-1"), "t", STR("one"), &one, &ref, NULL), 0);
	assert_int_equal(blob_seal_with(b, wa, STR("r-1"), "t", STR("two"), &two, &other, NULL), 0);
	assert_int_equal(blob_open(k, buf_str(&one), &ref, &plain, NULL), 0);
	/* Another key than the wrapped one: nobody will ever open it, and that is said. */
	assert_int_equal(blob_open(k, buf_str(&two), &other, &plain, NULL), ERR_CRYPTO);
	renamed = ref;
	renamed.kid[2] = '2';
	assert_int_equal(blob_open(k, buf_str(&one), &renamed, &plain, NULL), ERR_CRYPTO);
	/* The lent key does not open the wrap, so it is no way to the run's other frames. */
	assert_int_equal(blob_open(a, buf_str(&one), &ref, &plain, NULL), ERR_CRYPTO);
}

/* As docs/format-log.md has it: written by earlier versions. */
static void
a_frame_of_the_older_form_opens_with_the_runs_key_itself(void **state)
{
	AUTO(secret) struct secret *k = key_of(0);
	AUTO_BUF struct buf frame = BUF(256), plain = BUF(64);
	struct blob_ref ref = {.kid = "r", .len = 5, .media = "t"};

	(void)state;
	assert_true(enc_unhex(
	    STR("434642310000005900000000000000000000000000000000000000000000000000000035789e9689"
		"e5208d7fd9e1f3c5b5341f48ef18a13e418998addadd97a3693a987fe6e780b9aef890f3b79c64d2db"
		"de"
		"3c5a8bd4e90f28"),
	    &frame));
	assert_true(hash_from_hex(
	    STR("02a3712bcaf6313a7c4158c229b3ffdda19264578c7e0de4bfea85c2d53a30c2"), &ref.ct));
	assert_true(hash_from_hex(
	    STR("c8e1ead542e85ec745100234652a31f05f4153e2873b9eee250c62272ec5b00f"), &ref.c));
	assert_int_equal(blob_open(k, buf_str(&frame), &ref, &plain, NULL), 0);
	assert_true(str_eqz(buf_str(&plain), "hello"));
	frame.p[3] = '2'; /* not to be taken for the other form */
	assert_int_equal(blob_open(k, buf_str(&frame), &ref, &plain, NULL), ERR_TAMPER);
}

/* As docs/format-log.md has it. */
static void
the_published_frame_opens(void **state)
{
	AUTO(secret) struct secret *k = key_of(0);
	AUTO_BUF struct buf frame = BUF(256), plain = BUF(64);
	struct blob_ref ref = {.kid = "r-1", .len = 5, .media = "t"};

	(void)state;
	assert_true(enc_unhex(
	    STR("43464232000000a10202020202020202020202020202020202020202020202023047c44a2f579c95"
		"eceec5925c2280042cfa6e8ddca620f2a9231e2aeb5bf6e273f20da7abeaf87d0158f5392a2227d9"
		"00000000000000000000000000000000000000000000000000000035155197d5406155fe79446ce2"
		"d969a1022e81bcea8276063a956fc557778b10cac6461e56680a616e3863a910e23513cab5bcbb5d"
		"db"),
	    &frame));
	assert_true(hash_from_hex(
	    STR("1c79478606ac84ace5816f1927f185fd12c1f712dd66b8ed302ef002466b0473"), &ref.ct));
	assert_true(hash_from_hex(
	    STR("c8e1ead542e85ec745100234652a31f05f4153e2873b9eee250c62272ec5b00f"), &ref.c));
	assert_int_equal(blob_open(k, buf_str(&frame), &ref, &plain, NULL), 0);
	assert_true(str_eqz(buf_str(&plain), "hello"));
}

static void
any_flipped_bit_or_cut_of_a_frame_is_seen(void **state)
{
	AUTO(secret) struct secret *k = key_of(1);
	AUTO_BUF struct buf frame = BUF(4096), plain = BUF(64);
	struct blob_ref ref;
	struct hash ct;
	size_t len;

	(void)state;
	assert_int_equal(blob_seal(k, STR("r"), "t", STR("x"), &frame, &ref, NULL), 0);
	for (size_t i = 0; i < frame.n * 8; i++) {
		frame.p[i / 8] ^= (uint8_t)(1u << (i % 8));
		assert_int_not_equal(blob_open(k, buf_str(&frame), &ref, &plain, NULL), 0);
		frame.p[i / 8] ^= (uint8_t)(1u << (i % 8));
	}
	for (size_t n = 0; n < frame.n; n++)
		assert_int_equal(
		    blob_frame_check(str_mem(frame.p, n), &len, &ct, NULL), ERR_TAMPER);
	buf_put_z(&frame, "more"); /* the next frame */
	assert_int_equal(blob_frame_check(buf_str(&frame), &len, &ct, NULL), 0);
	assert_int_equal(len, frame.n - 4);
}

static void
the_largest_content_is_sealed_and_one_byte_more_is_not(void **state)
{
	AUTO(secret) struct secret *k = key_of(1);
	AUTO_BUF struct buf frame = BUF(BLOB_PLAIN_MAX + 4096), big = BUF(BLOB_PLAIN_MAX + 1);
	AUTO_BUF struct buf plain = BUF(BLOB_PLAIN_MAX);
	struct blob_ref ref;

	(void)state;
	memset(buf_grow(&big, BLOB_PLAIN_MAX), 'x', BLOB_PLAIN_MAX);
	assert_int_equal(blob_seal(k, STR("r"), "t", buf_str(&big), &frame, &ref, NULL), 0);
	assert_int_equal(blob_open(k, buf_str(&frame), &ref, &plain, NULL), 0);
	assert_int_equal(plain.n, BLOB_PLAIN_MAX);
	/* No room for a second one: refused, and the buffer stays as it was. */
	assert_int_equal(
	    blob_seal(k, STR("r"), "t", buf_str(&big), &frame, &ref, NULL), ERR_TOO_LARGE);
	assert_false(buf_over(&frame));
	buf_reset(&frame);
	buf_put_c(&big, 'x');
	assert_int_equal(
	    blob_seal(k, STR("r"), "t", buf_str(&big), &frame, &ref, NULL), ERR_TOO_LARGE);
}

static void
a_reference_with_a_member_missing_or_of_another_form_is_refused(void **state)
{
#define H "0000000000000000000000000000000000000000000000000000000000000000"
	static const char *const bad[] = {"{}", "[]",
	    "{\"c\":\"" H "\",\"ct\":\"" H "\",\"kid\":\"r\",\"len\":1}",
	    "{\"c\":\"" H "\",\"ct\":\"" H "\",\"kid\":\"r\",\"len\":-1,\"media\":\"t\"}",
	    "{\"c\":\"" H "\",\"ct\":\"" H "\",\"kid\":\"\",\"len\":1,\"media\":\"t\"}",
	    "{\"a\":1,\"b\":\"" H "\",\"d\":\"r\",\"len\":1,\"media\":\"t\"}",
	    "{\"c\":\"" H "\",\"ct\":\"0\",\"kid\":\"r\",\"len\":1,\"media\":\"t\"}",
	    "{\"c\":\"" H "\",\"ct\":\"" H "\",\"kid\":\"r\",\"len\":\"1\",\"media\":\"t\"}"};
	struct blob_ref ref;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO(json) struct json_doc *d = NULL;

		assert_int_equal(json_parse(str_z(bad[i]), "r", &d, NULL), 0);
		assert_int_equal(blob_ref_parse(json_root(d), &ref, NULL), ERR_INVALID);
	}
	assert_int_equal(blob_ref_parse(NULL, &ref, NULL), ERR_INVALID);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(content_comes_back_with_its_key_and_reference),
	    cmocka_unit_test(another_key_another_frame_or_another_commitment_is_refused),
	    cmocka_unit_test(a_lent_key_opens_its_own_frame_alone_and_a_wrap_only_under_its_name),
	    cmocka_unit_test(a_frame_of_the_older_form_opens_with_the_runs_key_itself),
	    cmocka_unit_test(the_published_frame_opens),
	    cmocka_unit_test(any_flipped_bit_or_cut_of_a_frame_is_seen),
	    cmocka_unit_test(the_largest_content_is_sealed_and_one_byte_more_is_not),
	    cmocka_unit_test(a_reference_with_a_member_missing_or_of_another_form_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
