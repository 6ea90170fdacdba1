/*
 * Unit tests of common/sig. Software keys and signatures come from the real ssh-keygen,
 * made in a scratch directory; a security key is built in software, since its touch flag
 * is what must be tested. Where OpenSSH accepts and we refuse, the test shows both.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sodium.h>

#include "common/buf.h"
#include "common/hash.h"
#include "common/sig.h"

#include "common/banned.h"

#define NS "cofferdam-approval"

static char dir[64];
static const char text[] = "cofferdam approval\nDROP TABLE orders\n";

static struct str
msg(void)
{
	return STR("cofferdam approval\nDROP TABLE orders\n");
}

/* Runs a command in the scratch directory, input from `in` if not NULL; its exit status. */
static int
run(const char *in, const char *const *argv)
{
	posix_spawn_file_actions_t fa;
	int status = -1;
	pid_t pid;

	assert_int_equal(posix_spawn_file_actions_init(&fa), 0);
	assert_int_equal(posix_spawn_file_actions_addchdir_np(&fa, dir), 0);
	(void)posix_spawn_file_actions_addopen(&fa, 0, in != NULL ? in : "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_addopen(&fa, 1, "out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	(void)posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
	assert_int_equal(
	    posix_spawnp(&pid, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&fa);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#define RUN(in, ...) run(in, (const char *const[]){__VA_ARGS__, NULL})

static FILE *
scratch(const char *name, const char *mode)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, mode);
	if (f == NULL)
		fail_msg("%s", path);
	return f;
}

static void
spill(const char *name, struct str s)
{
	FILE *f = scratch(name, "we");

	assert_int_equal(fwrite(s.p, 1, s.n, f), s.n);
	assert_int_equal(fclose(f), 0);
}

/* Caller frees. */
static char *
slurp(const char *name)
{
	FILE *f = scratch(name, "re");
	char *p = calloc(1, 8192);

	assert_non_null(p);
	assert_true(fread(p, 1, 8191, f) > 0);
	(void)fclose(f);
	return p;
}

/* Sign `text` with a key file; the armor, which the caller frees. */
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
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(dir, sizeof(dir), "%.40s/t_sig.XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
	spill("msg", str_mem(text, sizeof(text) - 1));
	assert_int_equal(
	    RUN(NULL, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "al ice", "-f", "ed"),
	    0);
	assert_int_equal(
	    RUN(NULL, "ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-C", "bob", "-f", "ec"), 0);
	return sodium_init() < 0;
}

static int
drop_keys(void **state UNUSED)
{
	return RUN(NULL, "rm", "-rf", "--", dir);
}

static void
assert_refused(struct str armored, const char *ns, struct str m, const char *says)
{
	struct sig_sshsig g = {.flags = 77};
	struct err e = {0};

	assert_int_equal(sig_sshsig_verify(armored, ns, m, &g, &e), ERR_SIGNATURE);
	if (strcmp(e.msg, says) != 0)
		fail_msg("\"%s\", wanted \"%s\"", e.msg, says);
	assert_int_equal(g.flags, 77);
}

static void
assert_accepted(struct str armored, struct sig_sshsig *ret)
{
	struct err e = {0};

	if (sig_sshsig_verify(armored, NS, msg(), ret, &e) != 0)
		fail_msg("%s", e.msg);
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
	assert_refused(str_z(armor), NS, str_mem(text, sizeof(text)), says);
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
	AUTO_FREE char *armor = sign("ec", NS, NULL), *pub = slurp("ec.pub");
	struct sig_pubkey k = {0};
	struct err e = {0};

	assert_refused(str_z(armor), NS, msg(),
	    "key type must be ssh-ed25519 or sk-ssh-ed25519@openssh.com, is "
	    "\"ecdsa-sha2-nistp256\"");
	assert_int_equal(sig_pubkey_parse(str_z(pub), &k, &e), ERR_SIGNATURE);
	assert_string_equal(e.msg, "key type must be ssh-ed25519 or sk-ssh-ed25519@openssh.com, is "
				   "\"ecdsa-sha2-nistp256\"");
}

static void
every_flipped_bit_of_a_signature_is_noticed(void **state UNUSED)
{
	AUTO_FREE char *armor = sign("ed", NS, NULL);
	AUTO_BUF struct buf raw = BUF(1000);
	AUTO_BUF struct buf b64 = BUF(1000);
	struct str s = str_z(armor), line;

	while (str_cut(&s, '\n', &line))
		if (!str_has_prefix(line, "-"))
			buf_put_str(&b64, line);
	assert_true(enc_unbase64(buf_str(&b64), &raw));
	for (size_t i = 0; i < raw.n * 8; i++) {
		AUTO_BUF struct buf a = BUF(2000);

		raw.p[i / 8] ^= (uint8_t)(1u << i % 8);
		buf_put_z(&a, "-----BEGIN SSH SIGNATURE-----\n");
		buf_reset(&b64);
		enc_base64(&b64, buf_str(&raw));
		for (size_t k = 0; k < b64.n; k += 70)
			buf_printf(&a, "%.*s\n", (int)(b64.n - k < 70 ? b64.n - k : 70), b64.p + k);
		buf_put_z(&a, "-----END SSH SIGNATURE-----\n");
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

/* --- blobs of our own making ------------------------------------------------------------ */

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
	AUTO_BUF struct buf b64 = BUF(4000);
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
	enc_base64(&b64, buf_str(&blob));
	buf_put_z(out, "-----BEGIN SSH SIGNATURE-----\n");
	for (size_t k = 0; k < b64.n; k += 70)
		buf_printf(out, "%.*s\n", (int)(b64.n - k < 70 ? b64.n - k : 70), b64.p + k);
	buf_put_z(out, "-----END SSH SIGNATURE-----\n");
	assert_false(buf_over(out));
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
	AUTO_BUF struct buf b64 = BUF(5000);
	AUTO_BUF struct buf raw = BUF(5000);
	struct parts p = touched;
	struct str s, line;

	p.flags = 0;
	armored(&a, &p);
	s = buf_str(&a);
	while (str_cut(&s, '\n', &line))
		if (!str_has_prefix(line, "-"))
			buf_put_str(&b64, line);
	assert_true(enc_unbase64(buf_str(&b64), &raw));
	raw.p[raw.n - 5] = 1; /* the flags: claim a touch that was not signed */
	buf_reset(&b64);
	enc_base64(&b64, buf_str(&raw));
	buf_reset(&a);
	buf_put_z(&a, "-----BEGIN SSH SIGNATURE-----\n");
	for (size_t k = 0; k < b64.n; k += 70)
		buf_printf(&a, "%.*s\n", (int)(b64.n - k < 70 ? b64.n - k : 70), b64.p + k);
	buf_put_z(&a, "-----END SSH SIGNATURE-----\n");
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
	parts_refused(p, "key type must be ssh-ed25519 or sk-ssh-ed25519@openssh.com, is "
			 "\"ssh-ed25519-cert-v01@openssh.com\"");
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
	    cmocka_unit_test(a_hardware_signature_with_touch_is_accepted),
	    cmocka_unit_test(a_hardware_signature_without_touch_is_refused_though_openssh_takes_it),
	    cmocka_unit_test(flags_counter_and_application_are_under_the_signature),
	    cmocka_unit_test(parts_of_the_blob_that_are_wrong_are_refused_by_name),
	    cmocka_unit_test(bytes_left_over_are_refused_at_each_level),
	    cmocka_unit_test(key_and_signature_must_be_of_one_type),
	    cmocka_unit_test(a_key_line_is_read_with_and_without_comment),
	    cmocka_unit_test(a_key_line_with_anything_odd_is_refused),
	    cmocka_unit_test(a_hardware_key_line_is_read_with_its_application),
	    cmocka_unit_test(an_application_that_is_empty_too_long_or_binary_is_refused),
	    cmocka_unit_test(the_fingerprint_is_that_of_ssh_keygen),
	    cmocka_unit_test(plain_ed25519_signatures_are_checked),
	};

	return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
