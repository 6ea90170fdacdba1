/*
 * Unit tests of common/sig with blobs of our own making: a security key built in software,
 * since its touch flag is what must be tested, and each part of a blob made wrong by itself.
 * Where OpenSSH accepts and we refuse, the test shows both.
 */
#include "tests/unit/sshkeygen.h"

#include "common/banned.h"

/* Everything a signature is made of, so that each part can be made wrong by itself. */
struct parts {
	const char *magic, *key_type, *sig_type, *ns, *reserved, *hash, *app;
	uint32_t version, counter;
	uint8_t flags;
	size_t key_cut, sig_extra, key_extra, blob_extra;
	bool sk;
};

static const struct parts plain = {.magic = "SSHSIG",
    .version = 1,
    .key_type = "ssh-ed25519",
    .sig_type = "ssh-ed25519",
    .ns = NS,
    .reserved = "",
    .hash = "sha512"};
static const struct parts touched = {.magic = "SSHSIG",
    .version = 1,
    .key_type = "sk-ssh-ed25519@openssh.com",
    .sig_type = "sk-ssh-ed25519@openssh.com",
    .ns = NS,
    .reserved = "",
    .hash = "sha512",
    .app = "ssh:",
    .counter = 7,
    .flags = 1,
    .sk = true};

static void
put_extra(struct buf *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_u8(b, 0);
}

/* What PROTOCOL.sshsig and PROTOCOL.u2f say is signed. */
static void
put_signed(struct buf *out, const struct parts *p)
{
	AUTO_BUF struct buf data = BUF(1000);
	uint8_t h[64];
	struct hash a, d;

	hash_sha512(msg(), h);
	buf_put_z(&data, "SSHSIG");
	buf_lz(&data, p->ns);
	buf_lz(&data, "");
	buf_lz(&data, p->hash);
	buf_lstr(&data, str_mem(h, sizeof(h)));
	if (!p->sk) {
		buf_put_str(out, buf_str(&data));
		return;
	}
	a = hash_sha256(str_z(p->app));
	d = hash_sha256(buf_str(&data));
	buf_put(out, a.b, HASH_LEN);
	buf_u8(out, p->flags);
	buf_u32(out, p->counter);
	buf_put(out, d.b, HASH_LEN);
}

static void
armored(struct buf *out, const struct parts *p)
{
	AUTO_BUF struct buf key = BUF(1000);
	AUTO_BUF struct buf sig = BUF(1000);
	AUTO_BUF struct buf blob = BUF(3000);
	AUTO_BUF struct buf data = BUF(1000);
	uint8_t pub[crypto_sign_PUBLICKEYBYTES], sec[crypto_sign_SECRETKEYBYTES], raw[64];
	const uint8_t seed[crypto_sign_SEEDBYTES] = {1};

	assert_int_equal(crypto_sign_seed_keypair(pub, sec, seed), 0);
	put_signed(&data, p);
	assert_int_equal(crypto_sign_detached(raw, NULL, data.p, data.n, sec), 0);
	buf_lz(&key, p->key_type);
	buf_lstr(&key, str_mem(pub, sizeof(pub) - p->key_cut));
	if (p->sk)
		buf_lz(&key, p->app);
	put_extra(&key, p->key_extra);
	buf_lz(&sig, p->sig_type);
	buf_lstr(&sig, str_mem(raw, sizeof(raw)));
	if (p->sk) {
		buf_u8(&sig, p->flags);
		buf_u32(&sig, p->counter);
	}
	put_extra(&sig, p->sig_extra);
	buf_put_z(&blob, p->magic);
	buf_u32(&blob, p->version);
	buf_lstr(&blob, buf_str(&key));
	buf_lz(&blob, p->ns);
	buf_lz(&blob, p->reserved);
	buf_lz(&blob, p->hash);
	buf_lstr(&blob, buf_str(&sig));
	put_extra(&blob, p->blob_extra);
	put_armor(out, &blob);
}

static void
parts_refused(struct parts p, const char *says)
{
	AUTO_BUF struct buf a = BUF(5000);

	armored(&a, &p);
	assert_refused(buf_str(&a), NS, msg(), says);
}

static void
parts_accepted(struct parts p, struct sig_sshsig *ret)
{
	AUTO_BUF struct buf a = BUF(5000);

	armored(&a, &p);
	assert_accepted(buf_str(&a), ret);
}

/* Does OpenSSH itself think the signature good? */
static bool
openssh_accepts(const struct parts *p)
{
	AUTO_BUF struct buf a = BUF(5000);

	armored(&a, p);
	spill("made.sig", buf_str(&a));
	return RUN("msg", "ssh-keygen", "-Y", "check-novalidate", "-n", NS, "-s", "made.sig") == 0;
}

static void
a_hardware_signature_with_touch_is_accepted(void **state UNUSED)
{
	struct parts p = touched;
	struct sig_sshsig g = {0};

	assert_true(openssh_accepts(&p));
	parts_accepted(p, &g);
	assert_true(g.key.hardware);
	assert_string_equal(g.key.application, "ssh:");
	assert_int_equal(g.flags, 1);
	assert_int_equal(g.counter, 7);
	p.flags = 5; /* touched and the person verified */
	parts_accepted(p, &g);
	assert_int_equal(g.flags, 5);
}

static void
a_hardware_signature_without_touch_is_refused_though_openssh_takes_it(void **state UNUSED)
{
	struct parts p = touched;

	p.flags = 0;
	assert_true(openssh_accepts(&p));
	parts_refused(p, "hardware key was not touched (flags 0x00, must have 0x01)");
	p.flags = 4;
	parts_refused(p, "hardware key was not touched (flags 0x04, must have 0x01)");
}

static void
flags_counter_and_application_are_under_the_signature(void **state UNUSED)
{
	const char *says = "signature does not match the text and the key";
	AUTO_BUF struct buf a = BUF(5000);
	AUTO_BUF struct buf raw = BUF(5000);
	struct parts p = touched;

	p.flags = 0;
	armored(&a, &p);
	take_armor(buf_str(&a), &raw);
	raw.p[raw.n - 5] = 1; /* the flags: claim a touch that was not signed */
	buf_reset(&a);
	put_armor(&a, &raw);
	assert_refused(buf_str(&a), NS, msg(), says);
}

static void
parts_of_the_blob_that_are_wrong_are_refused_by_name(void **state UNUSED)
{
	struct sig_sshsig g;
	struct parts p = plain;

	parts_accepted(p, &g);
	p.magic = "SSHSIC";
	parts_refused(p, "not an SSHSIG blob");
	p = plain;
	p.version = 2;
	parts_refused(p, "version must be 1, is 2");
	p = plain;
	p.reserved = "x"; /* OpenSSH skips it, so only our rule refuses */
	assert_true(openssh_accepts(&p));
	parts_refused(p, "reserved field must be empty, has 1 bytes");
	p = plain;
	p.ns = "";
	parts_refused(p, "namespace is \"\", must be \"cofferdam-approval\"");
	p = plain;
	p.ns = NS "2";
	parts_refused(p, "namespace is \"cofferdam-approval2\", must be \"cofferdam-approval\"");
	p = plain;
	p.hash = "SHA512";
	parts_refused(p, "hash must be sha512, is \"SHA512\"");
	p = plain;
	p.key_cut = 1;
	parts_refused(p, "key must be 32 bytes, is 31");
}

static void
bytes_left_over_are_refused_at_each_level(void **state UNUSED)
{
	struct parts p = plain;

	p.blob_extra = 1;
	parts_refused(p, "bytes left over behind the signature");
	p = plain;
	p.key_extra = 1;
	parts_refused(p, "bytes left over behind the key");
	p = plain;
	p.sig_extra = 1;
	parts_refused(p, "signature has the wrong length");
	p.sig_extra = 5; /* flags and counter on a software key */
	parts_refused(p, "signature has the wrong length");
	p = touched;
	p.key_extra = 1;
	parts_refused(p, "bytes left over behind the key");
	p = touched;
	p.sig_extra = 1;
	parts_refused(p, "signature has the wrong length");
}

static void
key_and_signature_must_be_of_one_type(void **state UNUSED)
{
	struct parts p = plain;

	p.sig_type = "sk-ssh-ed25519@openssh.com";
	parts_refused(p, "signature type \"sk-ssh-ed25519@openssh.com\" is not that of the key");
	p = touched;
	p.sig_type = "ssh-ed25519";
	parts_refused(p, "signature type \"ssh-ed25519\" is not that of the key");
	p = plain;
	p.key_type = "ssh-ed25519-cert-v01@openssh.com";
	parts_refused(p,
	    "key type must be one of ssh-ed25519, sk-ssh-ed25519@openssh.com, ecdsa-sha2-nistp256, "
	    "ecdsa-sha2-nistp384, ecdsa-sha2-nistp521, sk-ecdsa-sha2-nistp256@openssh.com, "
	    "cofferdam-ed25519, is \"ssh-ed25519-cert-v01@openssh.com\"");
}

static void
an_application_that_is_empty_too_long_or_binary_is_refused(void **state UNUSED)
{
	static const struct str bad[] = {{"", 0}, {"ssh:\0x", 6}, {"ssh:\n", 5}};
	char big[200];
	struct parts p = touched;
	struct sig_sshsig g;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_BUF struct buf line = BUF(1000);
		AUTO_BUF struct buf blob = BUF(500);
		struct sig_pubkey k;

		buf_lz(&blob, "sk-ssh-ed25519@openssh.com");
		buf_lstr(&blob, str_mem("0123456789abcdef0123456789abcdef", 32));
		buf_lstr(&blob, bad[i]);
		buf_put_z(&line, "sk-ssh-ed25519@openssh.com ");
		enc_base64(&line, buf_str(&blob));
		assert_int_equal(sig_pubkey_parse(buf_str(&line), &k, NULL), ERR_SIGNATURE);
	}
	memset(big, 'a', sizeof(big));
	big[127] = '\0';
	p.app = big;
	parts_accepted(p, &g);
	big[127] = 'a';
	big[128] = '\0';
	parts_refused(p, "application must be 1 to 127 printable characters, is "
			 "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\"");
}

static int
open_scratch(void **state UNUSED)
{
	scratch_open();
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_hardware_signature_with_touch_is_accepted),
	    cmocka_unit_test(a_hardware_signature_without_touch_is_refused_though_openssh_takes_it),
	    cmocka_unit_test(flags_counter_and_application_are_under_the_signature),
	    cmocka_unit_test(parts_of_the_blob_that_are_wrong_are_refused_by_name),
	    cmocka_unit_test(bytes_left_over_are_refused_at_each_level),
	    cmocka_unit_test(key_and_signature_must_be_of_one_type),
	    cmocka_unit_test(an_application_that_is_empty_too_long_or_binary_is_refused),
	};

	return cmocka_run_group_tests(tests, open_scratch, scratch_drop);
}
