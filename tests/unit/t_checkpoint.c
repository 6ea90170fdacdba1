/* Signed notes and checkpoints: the published example, and each way to change a byte. */
#include "audit/checkpoint.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>

#include <cmocka.h>

#include "common/banned.h"

#define DASH "\xe2\x80\x94 "
/* The example of golang.org/x/mod/sumdb/note, from which C2SP signed-note was written down. */
#define EXAMPLE_KEY "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
#define EXAMPLE_TEXT                                                 \
	"If you think cryptography is the answer to your problem,\n" \
	"then you don't know what your problem is.\n"
#define EXAMPLE_SIG                          \
	DASH "PeterNeumann x08go/ZJkuBS9UG/" \
	     "SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"

struct signer {
	struct vkeys keys;
	uint8_t sk[crypto_sign_SECRETKEYBYTES];
};

static struct signer
signer_new(const char *name, uint8_t seed_byte)
{
	uint8_t seed[32], pub[32];
	struct signer s = {.keys = {.n = 1}};

	memset(seed, seed_byte, sizeof(seed));
	crypto_sign_seed_keypair(pub, s.sk, seed);
	assert_int_equal(vkey_make(str_z(name), pub, &s.keys.key[0], NULL), 0);
	return s;
}

static void
put_sig(struct buf *note, const struct signer *s, struct str text)
{
	uint8_t sig[64];

	crypto_sign_detached(sig, NULL, (const uint8_t *)text.p, text.n, s->sk);
	note_put_sig(note, &s->keys.key[0], sig);
}

static void
sign_text(struct buf *note, const struct signer *s, struct str text)
{
	buf_put_str(note, text);
	buf_put_c(note, '\n');
	put_sig(note, s, text);
}

static void
make(struct buf *note, const struct signer *s, const char *origin, uint64_t size)
{
	struct checkpoint cp = {.size = size};
	AUTO_BUF struct buf text = BUF(1024);

	memcpy(cp.origin, origin, strlen(origin) + 1);
	memset(cp.root.b, 0xab, sizeof(cp.root.b));
	checkpoint_text(&text, &cp);
	sign_text(note, s, buf_str(&text));
}

static int
open_cp(struct str note, const struct vkeys *keys, struct checkpoint *cp)
{
	const struct vkey *key;

	return checkpoint_open(note, keys, cp, &key, NULL);
}

static void
the_published_example_verifies_and_any_change_does_not(void **state)
{
	char note[] = EXAMPLE_TEXT "\n" EXAMPLE_SIG;
	struct str s = {note, sizeof(note) - 1}, text;
	struct vkeys keys = {.n = 1};
	const struct vkey *key;
	AUTO_BUF struct buf again = BUF(256);

	(void)state;
	assert_int_equal(vkey_parse(STR(EXAMPLE_KEY), &keys.key[0], NULL), 0);
	vkey_put(&again, &keys.key[0]);
	assert_true(str_eqz(buf_str(&again), EXAMPLE_KEY));
	assert_int_equal(note_open(s, &keys, &text, &key, NULL), 0);
	assert_true(str_eqz(text, EXAMPLE_TEXT));
	for (size_t i = 0; i < s.n * 8; i++) {
		note[i / 8] = (char)(note[i / 8] ^ 1 << (i % 8));
		assert_int_not_equal(note_open(s, &keys, &text, &key, NULL), 0);
		note[i / 8] = (char)(note[i / 8] ^ 1 << (i % 8));
	}
	for (size_t n = 0; n < s.n; n++)
		assert_int_not_equal(note_open(str_mem(note, n), &keys, &text, &key, NULL), 0);
}

static void
a_checkpoint_is_read_back_as_it_was_signed(void **state)
{
	struct signer s = signer_new("broker.example/a", 1);
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	struct checkpoint cp;

	(void)state;
	make(&note, &s, "broker.example/a", 20852163);
	assert_int_equal(open_cp(buf_str(&note), &s.keys, &cp), 0);
	assert_string_equal(cp.origin, "broker.example/a");
	assert_int_equal(cp.size, 20852163);
	for (size_t i = 0; i < note.n * 8; i++) {
		note.p[i / 8] ^= (uint8_t)(1u << (i % 8));
		assert_int_not_equal(open_cp(buf_str(&note), &s.keys, &cp), 0);
		note.p[i / 8] ^= (uint8_t)(1u << (i % 8));
	}
}

static void
a_text_that_is_no_checkpoint_is_refused_though_signed(void **state)
{
#define ROOT "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="
	static const char *const text[] = {"o\n1\n", "o\n01\n" ROOT "\n", "o\n-1\n" ROOT "\n",
	    "o\n1\n" ROOT "\nextension\n", "o\n1\nq6ur\n", "o\n1\n" ROOT "A\n", "o\n1 \n" ROOT "\n",
	    "o\n1\nq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6t=\n" /* spare bits */,
	    "p\n1\n" ROOT "\n"};
	struct signer s = signer_new("o", 1);
	struct checkpoint cp;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(text); i++) {
		AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);

		sign_text(&note, &s, str_z(text[i]));
		assert_int_equal(open_cp(buf_str(&note), &s.keys, &cp), ERR_TAMPER);
	}
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);

	sign_text(&note, &s, STR("o\n1\n" ROOT "\n"));
	assert_int_equal(open_cp(buf_str(&note), &s.keys, &cp), 0);
}

static void
signatures_of_others_are_ignored_and_a_wrong_one_of_ours_is_not(void **state)
{
	struct signer a = signer_new("o", 1), other = signer_new("witness", 2),
		      o2 = signer_new("o", 3);
	struct signer forged = a;
	struct checkpoint cp;
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX), text = BUF(1024);

	(void)state;
	make(&note, &other, "o", 7);
	assert_int_equal(open_cp(buf_str(&note), &a.keys, &cp), ERR_CONFIG); /* nobody we know */
	cp = (struct checkpoint){.origin = "o", .size = 7};
	memset(cp.root.b, 0xab, sizeof(cp.root.b));
	checkpoint_text(&text, &cp);
	put_sig(&note, &o2, buf_str(&text)); /* same name, another key */
	assert_int_equal(open_cp(buf_str(&note), &a.keys, &cp), ERR_CONFIG);
	put_sig(&note, &a, buf_str(&text));
	assert_int_equal(open_cp(buf_str(&note), &a.keys, &cp), 0);
	memcpy(
	    forged.sk, other.sk, sizeof(forged.sk)); /* our name and ID over a foreign signature */
	put_sig(&note, &forged, buf_str(&text));
	assert_int_equal(open_cp(buf_str(&note), &a.keys, &cp), ERR_TAMPER);
}

static void
sixteen_signatures_pass_and_too_many_do_not(void **state)
{
	struct signer a = signer_new("o", 1);
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	struct checkpoint cp;

	(void)state;
	make(&note, &a, "o", 1);
	for (int i = 0; i < 16; i++) {
		uint8_t sig[64] = {0};
		struct signer w = signer_new("w", (uint8_t)(10 + i));

		note_put_sig(&note, &w.keys.key[0], sig);
	}
	assert_int_equal(open_cp(buf_str(&note), &a.keys, &cp), 0);
	for (int i = 0; i < NOTE_SIGS_MAX; i++) {
		uint8_t sig[64] = {0};
		struct signer w = signer_new("w", (uint8_t)(10 + i));

		note_put_sig(&note, &w.keys.key[0], sig);
	}
	assert_int_equal(open_cp(buf_str(&note), &a.keys, &cp), ERR_TAMPER);
}

static void
a_key_signs_only_within_its_sizes(void **state)
{
	struct signer s = signer_new("o", 1);
	AUTO_BUF struct buf line = BUF(512), file = BUF(1024);
	struct checkpoint cp;
	struct vkeys keys;

	(void)state;
	vkey_put(&line, &s.keys.key[0]);
	buf_printf(&file, "# ours\n\n%.*s 10 20\n", STR_ARG(buf_str(&line)));
	assert_int_equal(vkeys_parse(buf_str(&file), "f", &keys, NULL), 0);
	for (uint64_t size = 9; size <= 21; size++) {
		AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);

		make(&note, &s, "o", size);
		assert_int_equal(
		    open_cp(buf_str(&note), &keys, &cp), size >= 10 && size <= 20 ? 0 : ERR_TAMPER);
	}
}

static void
a_key_file_names_what_is_wrong_in_it(void **state)
{
	static const char *const bad[] = {"", "# nothing\n", "x\n", EXAMPLE_KEY " 5\n",
	    EXAMPLE_KEY " 5 4\n", EXAMPLE_KEY " 05 6\n", EXAMPLE_KEY " 5 6 7\n", EXAMPLE_KEY " \n",
	    EXAMPLE_KEY " 5 - revoked\n", EXAMPLE_KEY " 5 6 revoked \n",
	    EXAMPLE_KEY "\n" EXAMPLE_KEY "\n",
	    EXAMPLE_KEY " 0 5\n" EXAMPLE_KEY " 6 -\n", /* which of the two had signed? */
	    "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW\n",
	    "Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW\n",
	    "PeterNeumann+c74f20a3+AhpcsQcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW\n"};
	static const char *const good[] = {EXAMPLE_KEY, EXAMPLE_KEY "\n", EXAMPLE_KEY " 5 5\n",
	    EXAMPLE_KEY " 0 -\n", EXAMPLE_KEY " 0 9 revoked\n"};
	struct vkeys keys;
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(vkeys_parse(str_z(bad[i]), "f", &keys, &err), ERR_CONFIG);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(vkeys_parse(str_z(good[i]), "f", &keys, NULL), 0);
	(void)vkeys_parse(STR("\n" EXAMPLE_KEY " 5 4\n"), "trust", &keys, &err);
	assert_non_null(strstr(err.msg, "trust:2"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_published_example_verifies_and_any_change_does_not),
	    cmocka_unit_test(a_checkpoint_is_read_back_as_it_was_signed),
	    cmocka_unit_test(a_text_that_is_no_checkpoint_is_refused_though_signed),
	    cmocka_unit_test(signatures_of_others_are_ignored_and_a_wrong_one_of_ours_is_not),
	    cmocka_unit_test(sixteen_signatures_pass_and_too_many_do_not),
	    cmocka_unit_test(a_key_signs_only_within_its_sizes),
	    cmocka_unit_test(a_key_file_names_what_is_wrong_in_it),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
