/*
 * Unit tests of common/sig with software keys: all of them, and the signatures, come from
 * the real ssh-keygen.
 */
#include "tests/unit/sshkeygen.h"

#include "common/banned.h"

/* Sign the message with a key file; the armor, which the caller frees. */
static char *
sign(const char *key, const char *ns, const char *option)
{
	int r = option == NULL ? RUN("msg", "ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", ns)
			       : RUN("msg", "ssh-keygen", "-Y", "sign", "-q", "-O", option, "-f",
				     key, "-n", ns);

	assert_int_equal(r, 0);
	return slurp("out");
}

static int
make_keys(void **state UNUSED)
{
	scratch_open();
	assert_int_equal(
	    RUN(NULL, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "al ice", "-f", "ed"),
	    0);
	assert_int_equal(RUN(NULL, "ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-C",
			     "bob", "-f", "rsa"),
	    0);
	return 0;
}

/* --- software keys, by ssh-keygen ------------------------------------------------------ */

static void
a_signature_made_by_ssh_keygen_is_accepted_and_names_its_key(void **state UNUSED)
{
	AUTO_FREE char *armor = sign("ed", NS, NULL), *pub = slurp("ed.pub");
	struct sig_sshsig g = {0};
	struct sig_pubkey k = {0};

	assert_accepted(str_z(armor), &g);
	assert_int_equal(sig_pubkey_parse(str_z(pub), &k, NULL), 0);
	assert_true(sig_pubkey_eq(&g.key, &k));
	assert_false(g.key.hardware);
	assert_int_equal(g.flags, 0);
}

static void
any_other_text_is_refused(void **state UNUSED)
{
	AUTO_FREE char *armor = sign("ed", NS, NULL);
	const char *says = "signature does not match the text and the key";

	assert_refused(str_z(armor), NS, STR("cofferdam approval\nDROP TABLE order\n"), says);
	assert_refused(str_z(armor), NS, STR_NONE, says);
	assert_refused(str_z(armor), NS, str_mem(msg().p, msg().n + 1), says);
}

static void
another_namespace_is_refused_by_name(void **state UNUSED)
{
	AUTO_FREE char *armor = sign("ed", "file", NULL), *odd = sign("ed", "a\nb", NULL);

	assert_refused(
	    str_z(armor), NS, msg(), "namespace is \"file\", must be \"cofferdam-approval\"");
	assert_refused(
	    str_z(odd), NS, msg(), "namespace is \"a\\x0ab\", must be \"cofferdam-approval\"");
	assert_int_equal(
	    sig_sshsig_verify(str_z(armor), "file", msg(), &(struct sig_sshsig){0}, NULL), 0);
}

static void
the_weaker_hash_is_refused(void **state UNUSED)
{
	AUTO_FREE char *weak = sign("ed", NS, "hashalg=sha256");
	AUTO_FREE char *good = sign("ed", NS, "hashalg=sha512");
	struct sig_sshsig g;

	assert_refused(str_z(weak), NS, msg(), "hash must be sha512, is \"sha256\"");
	assert_accepted(str_z(good), &g);
}

static void
other_kinds_of_key_are_refused(void **state UNUSED)
{
	AUTO_FREE char *armor = sign("rsa", NS, NULL), *pub = slurp("rsa.pub");
	struct sig_pubkey k = {0};
	struct err e = {0};

	static const char says[] =
	    "key type must be one of ssh-ed25519, sk-ssh-ed25519@openssh.com, ecdsa-sha2-nistp256, "
	    "ecdsa-sha2-nistp384, ecdsa-sha2-nistp521, sk-ecdsa-sha2-nistp256@openssh.com, "
	    "cofferdam-ed25519, is \"ssh-rsa\"";

	assert_refused(str_z(armor), NS, msg(), says);
	assert_int_equal(sig_pubkey_parse(str_z(pub), &k, &e), ERR_SIGNATURE);
	assert_string_equal(e.msg, says);
}

static void
every_flipped_bit_of_a_signature_is_noticed(void **state UNUSED)
{
	AUTO_FREE char *armor = sign("ed", NS, NULL);
	AUTO_BUF struct buf raw = BUF(1000);

	take_armor(str_z(armor), &raw);
	for (size_t i = 0; i < raw.n * 8; i++) {
		AUTO_BUF struct buf a = BUF(2000);

		raw.p[i / 8] ^= (uint8_t)(1u << i % 8);
		put_armor(&a, &raw);
		if (sig_sshsig_verify(buf_str(&a), NS, msg(), &(struct sig_sshsig){0}, NULL) == 0)
			fail_msg("bit %zu", i);
		raw.p[i / 8] ^= (uint8_t)(1u << i % 8);
	}
}

static void
the_armor_may_end_without_a_line_feed_and_in_nothing_else(void **state UNUSED)
{
	AUTO_FREE char *armor = sign("ed", NS, NULL);
	const char *end = "must end with the line -----END SSH SIGNATURE-----";
	const char *begin = "must begin with the line -----BEGIN SSH SIGNATURE-----";
	AUTO_BUF struct buf a = BUF(5000);
	struct sig_sshsig g;
	struct str s = str_z(armor);

	s.n--;
	assert_accepted(s, &g);
	buf_put_z(&a, armor);
	buf_put_z(&a, "\n");
	assert_refused(buf_str(&a), NS, msg(), end);
	a.p[a.n - 1] = 'x';
	assert_refused(buf_str(&a), NS, msg(), end);
	buf_reset(&a);
	buf_put_z(&a, " ");
	buf_put_z(&a, armor);
	assert_refused(buf_str(&a), NS, msg(), begin);
	assert_refused(STR_NONE, NS, msg(), begin);
	assert_refused(str_mem(armor, s.n - 1), NS, msg(), end);
	assert_refused(str_mem(armor, 100), NS, msg(), end);
	assert_refused(STR("-----BEGIN SSH SIGNATURE-----"), NS, msg(), begin);
	memset(buf_grow(&a, 4000), 'x', 4000);
	assert_refused(buf_str(&a), NS, msg(), "signature must be at most 4096 bytes, is 4315");
}

static void
the_armor_holds_strict_base64_lines(void **state UNUSED)
{
	AUTO_FREE char *armor = sign("ed", NS, NULL);
	const char *b64 = "signature is not base64";
	char *line = strchr(armor, '\n') + 1, *lf = strchr(line, '\n'), was[2];

	memcpy(was, line + 3, 2);
	line[3] = ' ';
	assert_refused(str_z(armor), NS, msg(), b64);
	line[3] = '\r';
	assert_refused(str_z(armor), NS, msg(), b64);
	line[3] = '=';
	assert_refused(str_z(armor), NS, msg(), b64);
	line[3] = '_';
	assert_refused(str_z(armor), NS, msg(), b64);
	line[3] = '\0';
	assert_refused(str_mem(armor, strlen(armor) + 1 + strlen(line + 4)), NS, msg(), b64);
	line[3] = '\n';
	line[4] = '\n';
	assert_refused(
	    str_z(armor), NS, msg(), "a line of the signature must be 1 to 76 characters, is 0");
	memcpy(line + 3, was, 2);
	*lf = 'A';
	assert_refused(
	    str_z(armor), NS, msg(), "a line of the signature must be 1 to 76 characters, is 141");
}

/* --- enrolled keys ----------------------------------------------------------------------- */

static void
a_key_line_is_read_with_and_without_comment(void **state UNUSED)
{
	AUTO_FREE char *pub = slurp("ed.pub");
	struct sig_pubkey a = {0}, b = {0};
	struct str line = str_z(pub);

	assert_int_equal(sig_pubkey_parse(line, &a, NULL), 0);
	line.n = strlen("ssh-ed25519 ") + 68;
	assert_int_equal(sig_pubkey_parse(line, &b, NULL), 0);
	assert_true(sig_pubkey_eq(&a, &b));
	b.pub[31] ^= 1;
	assert_false(sig_pubkey_eq(&a, &b));
	b = a;
	b.hardware = true;
	assert_false(sig_pubkey_eq(&a, &b));
}

static void
a_key_line_with_anything_odd_is_refused(void **state UNUSED)
{
	AUTO_FREE char *pub = slurp("ed.pub");
	AUTO_BUF struct buf b = BUF(9000);
	struct sig_pubkey k;
	static const char *const before[] = {
	    "restrict ", "sk-", "ssh-rsa ", "x", "namespaces=\"file\" ", "*@example.com "};

	for (size_t i = 0; i < ARRAY_LEN(before); i++) {
		buf_reset(&b);
		buf_put_z(&b, before[i]);
		buf_put_z(&b, pub);
		assert_int_equal(sig_pubkey_parse(buf_str(&b), &k, NULL), ERR_SIGNATURE);
	}
	buf_reset(&b);
	buf_put_z(&b, pub);
	buf_put_z(&b, pub); /* two keys, two lines */
	assert_int_equal(sig_pubkey_parse(buf_str(&b), &k, NULL), ERR_SIGNATURE);
	buf_reset(&b);
	buf_put_z(&b, "sk-ssh-ed25519@openssh.com");
	buf_put_z(&b, pub + strlen("ssh-ed25519"));
	assert_int_equal(sig_pubkey_parse(buf_str(&b), &k, NULL), ERR_SIGNATURE);
	assert_int_equal(sig_pubkey_parse(STR("ssh-ed25519"), &k, NULL), ERR_SIGNATURE);
	assert_int_equal(sig_pubkey_parse(STR("ssh-ed25519 "), &k, NULL), ERR_SIGNATURE);
	assert_int_equal(sig_pubkey_parse(STR("ssh-ed25519 AAAA"), &k, NULL), ERR_SIGNATURE);
	assert_int_equal(sig_pubkey_parse(STR_NONE, &k, NULL), ERR_SIGNATURE);
	memset(buf_grow(&b, 5000), 'x', 5000);
	assert_int_equal(sig_pubkey_parse(buf_str(&b), &k, NULL), ERR_SIGNATURE);
}

static void
a_hardware_key_line_is_read_with_its_application(void **state UNUSED)
{
	AUTO_BUF struct buf line = BUF(1000);
	AUTO_BUF struct buf blob = BUF(500);
	const uint8_t pub[32] = {9};
	struct sig_pubkey k = {0};

	buf_lz(&blob, "sk-ssh-ed25519@openssh.com");
	buf_lstr(&blob, str_mem(pub, sizeof(pub)));
	buf_lz(&blob, "ssh:prod");
	buf_put_z(&line, "sk-ssh-ed25519@openssh.com ");
	enc_base64(&line, buf_str(&blob));
	buf_put_z(&line, " carol@laptop\n");
	assert_int_equal(sig_pubkey_parse(buf_str(&line), &k, NULL), 0);
	assert_true(k.hardware);
	assert_string_equal(k.application, "ssh:prod");
	assert_memory_equal(k.pub, pub, sizeof(pub));
}

static void
the_fingerprint_is_that_of_ssh_keygen(void **state UNUSED)
{
	AUTO_FREE char *pub = slurp("ed.pub"), *out = NULL;
	struct sig_pubkey k = {0};
	char fp[64];

	assert_int_equal(sig_pubkey_parse(str_z(pub), &k, NULL), 0);
	sig_pubkey_fingerprint(&k, fp);
	assert_int_equal(RUN(NULL, "ssh-keygen", "-l", "-f", "ed.pub"), 0);
	out = slurp("out");
	assert_non_null(strstr(out, fp));
	assert_int_equal(strlen(fp), 50);
}

static void
plain_ed25519_signatures_are_checked(void **state UNUSED)
{
	uint8_t pub[32], sec[64], sig[64];
	const uint8_t seed[32] = {3}, zero[32] = {0};

	assert_int_equal(crypto_sign_seed_keypair(pub, sec, seed), 0);
	assert_int_equal(crypto_sign_detached(sig, NULL, (const uint8_t *)"abc", 3, sec), 0);
	assert_true(sig_ed25519_verify(pub, STR("abc"), sig));
	assert_false(sig_ed25519_verify(pub, STR("abd"), sig));
	sig[40] ^= 1;
	assert_false(sig_ed25519_verify(pub, STR("abc"), sig));
	/* A key of small order would verify anything. */
	memset(sig, 0, sizeof(sig));
	assert_false(sig_ed25519_verify(zero, STR("abc"), sig));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_signature_made_by_ssh_keygen_is_accepted_and_names_its_key),
	    cmocka_unit_test(any_other_text_is_refused),
	    cmocka_unit_test(another_namespace_is_refused_by_name),
	    cmocka_unit_test(the_weaker_hash_is_refused),
	    cmocka_unit_test(other_kinds_of_key_are_refused),
	    cmocka_unit_test(every_flipped_bit_of_a_signature_is_noticed),
	    cmocka_unit_test(the_armor_may_end_without_a_line_feed_and_in_nothing_else),
	    cmocka_unit_test(the_armor_holds_strict_base64_lines),
	    cmocka_unit_test(a_key_line_is_read_with_and_without_comment),
	    cmocka_unit_test(a_key_line_with_anything_odd_is_refused),
	    cmocka_unit_test(a_hardware_key_line_is_read_with_its_application),
	    cmocka_unit_test(the_fingerprint_is_that_of_ssh_keygen),
	    cmocka_unit_test(plain_ed25519_signatures_are_checked),
	};

	return cmocka_run_group_tests(tests, make_keys, scratch_drop);
}
