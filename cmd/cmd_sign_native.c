/*
 * Ed25519 keys of our own, for people without SSH keys. Runs as the person, on the person's
 * machine: the secret half is opened here alone, in guarded memory, for one signature. The file is
 * sealed by a passphrase (Argon2id), and what stands open in it is under the seal, too.
 */
#include "cmd/cmd_sign_native.h"

#include <sodium.h>

#include "common/hash.h"
#include "common/sig.h"

#include "common/banned.h"

#define MAGIC "cofferdam-secret-key v1"
#define SALT crypto_pwhash_SALTBYTES
#define NONCE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG crypto_aead_xchacha20poly1305_ietf_ABYTES
#define SEED crypto_sign_SEEDBYTES
/* What a file may ask for: a made-up one must not hold the machine up. */
#define OPS_MAX 16
#define MEM_MAX ((uint64_t)1 << 30)

struct file {
	struct str head; /* the lines that stand open, with their LF */
	struct str line; /* the public one */
	bool sealed;
	uint64_t ops, mem;
	struct buf salt, secret;
};

static void
file_free(struct file *f)
{
	buf_free(&f->salt);
	buf_free(&f->secret);
}
#define AUTO_FILE __attribute__((cleanup(file_free)))

/* --- the file ---------------------------------------------------------------------- */

static bool
take_line(struct str *s, const char *name, struct str *ret)
{
	struct str line;

	if (!str_cut(s, '\n', &line) || !str_has_prefix(line, name))
		return false;
	*ret = str_mem(line.p + strlen(name), line.n - strlen(name));
	return true;
}

static bool
take_kdf(struct str s, struct file *f)
{
	struct str ops, mem;

	if (str_eqz(s, "none"))
		return true;
	if (!str_has_prefix(s, "argon2id "))
		return false;
	s = str_mem(s.p + strlen("argon2id "), s.n - strlen("argon2id "));
	f->sealed = true;
	return str_cut(&s, ' ', &ops) && str_cut(&s, ' ', &mem) &&
	       str_to_u64(ops, OPS_MAX, &f->ops) && f->ops >= crypto_pwhash_OPSLIMIT_MIN &&
	       str_to_u64(mem, MEM_MAX, &f->mem) && f->mem >= crypto_pwhash_MEMLIMIT_MIN &&
	       enc_unbase64(s, &f->salt) && f->salt.n == SALT;
}

static int
file_parse(struct str text, struct file *f, struct err *err)
{
	struct str s = text, magic, kdf, secret;

	if (!sign_native_is(text))
		return err_set(err, ERR_CONFIG, "not a key of `cofferdam key new`");
	if (!take_line(&s, MAGIC, &magic) || magic.n != 0 || !take_line(&s, "key: ", &f->line) ||
	    !take_line(&s, "kdf: ", &kdf))
		return err_set(err, ERR_CONFIG, "the key file is damaged");
	f->head = str_mem(text.p, (size_t)(s.p - text.p));
	if (!take_kdf(kdf, f) || !take_line(&s, "secret: ", &secret) || !str_eqz(s, "end\n") ||
	    !enc_unbase64(secret, &f->secret) ||
	    f->secret.n != (f->sealed ? NONCE + SEED + TAG : SEED))
		return err_set(err, ERR_CONFIG, "the key file is damaged");
	return 0;
}

bool
sign_native_is(struct str file)
{
	return str_has_prefix(file, MAGIC "\n");
}

bool
sign_native_is_sealed(struct str file)
{
	AUTO_FILE struct file f = {.salt = BUF(64), .secret = BUF(256)};

	return file_parse(file, &f, NULL) == 0 && f.sealed;
}

int
sign_native_line(struct str file, struct buf *ret, struct err *err)
{
	AUTO_FILE struct file f = {.salt = BUF(64), .secret = BUF(256)};
	int rc = file_parse(file, &f, err);

	if (rc == 0)
		buf_put_str(ret, f.line);
	return rc;
}

/* --- sealing ----------------------------------------------------------------------- */

static int
derive(const struct secret *passphrase, const struct file *f, struct secret *key, struct err *err)
{
	struct str s = secret_str(passphrase);

	if (crypto_pwhash(secret_bytes(key), crypto_aead_xchacha20poly1305_ietf_KEYBYTES, s.p, s.n,
		f->salt.p, f->ops, (size_t)f->mem, crypto_pwhash_ALG_ARGON2ID13) != 0)
		return err_set(err, ERR_SYSTEM, "the passphrase needs %llu MiB of memory",
		    (unsigned long long)(f->mem >> 20));
	return 0;
}

static int
unseal(const struct file *f, const struct secret *passphrase, struct secret *seed, struct err *err)
{
	AUTO(secret) struct secret *key = secret_new(crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
	int rc;

	if (!f->sealed) {
		memcpy(secret_bytes(seed), f->secret.p, SEED);
		return 0;
	}
	if (passphrase == NULL)
		return err_set(err, ERR_CONFIG, "the key is sealed by a passphrase");
	rc = derive(passphrase, f, key, err);
	if (rc == 0 && crypto_aead_xchacha20poly1305_ietf_decrypt(secret_bytes(seed), NULL, NULL,
			   f->secret.p + NONCE, SEED + TAG, (const uint8_t *)f->head.p, f->head.n,
			   f->secret.p, secret_bytes(key)) != 0)
		return err_set(
		    err, ERR_SIGNATURE, "the passphrase is wrong, or the key file was changed");
	return rc;
}

static int
seal(const struct secret *passphrase, struct file *f, struct secret *seed, struct buf *out,
    struct err *err)
{
	AUTO(secret) struct secret *key = secret_new(crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
	uint8_t box[NONCE + SEED + TAG];
	int rc = derive(passphrase, f, key, err);

	if (rc != 0)
		return rc;
	rand_bytes(box, NONCE);
	(void)crypto_aead_xchacha20poly1305_ietf_encrypt(box + NONCE, NULL, secret_bytes(seed),
	    SEED, (const uint8_t *)f->head.p, f->head.n, NULL, box, secret_bytes(key));
	enc_base64(out, str_mem(box, sizeof(box)));
	return 0;
}

static void
line_of(const uint8_t pub[SIG_ED25519_PUB], struct buf *out)
{
	struct sig_pubkey k = {.form = SIG_FORM_NATIVE, .alg = SIG_ED25519};

	memcpy(k.pub, pub, SIG_ED25519_PUB);
	sig_pubkey_put(out, &k, STR(""));
}

int
sign_native_new(
    const struct secret *passphrase, struct buf *ret_file, struct buf *ret_line, struct err *err)
{
	AUTO(secret) struct secret *seed = secret_new(SEED);
	AUTO(secret) struct secret *sk = secret_new(crypto_sign_SECRETKEYBYTES);
	AUTO_FILE struct file f = {.salt = BUF(64),
	    .secret = BUF(256),
	    .ops = crypto_pwhash_OPSLIMIT_MODERATE,
	    .mem = crypto_pwhash_MEMLIMIT_MODERATE};
	uint8_t pub[crypto_sign_PUBLICKEYBYTES];
	int rc = 0;

	rand_bytes(secret_bytes(seed), SEED);
	(void)crypto_sign_seed_keypair(pub, secret_bytes(sk), secret_bytes(seed));
	line_of(pub, ret_line);
	buf_put_z(ret_file, MAGIC "\nkey: ");
	buf_put_str(ret_file, buf_str(ret_line));
	buf_put_z(ret_file, passphrase == NULL ? "\nkdf: none\n" : "\nkdf: argon2id ");
	if (passphrase != NULL) {
		rand_bytes(buf_grow(&f.salt, SALT), SALT);
		buf_printf(
		    ret_file, "%llu %llu ", (unsigned long long)f.ops, (unsigned long long)f.mem);
		enc_base64(ret_file, buf_str(&f.salt));
		buf_put_c(ret_file, '\n');
		f.head = buf_str(ret_file);
	}
	if (passphrase != NULL)
		rc = seal(passphrase, &f, seed, &f.secret, err);
	else
		enc_base64(&f.secret, secret_str(seed));
	buf_put_z(ret_file, "secret: ");
	buf_put_str(ret_file, buf_str(&f.secret));
	buf_put_z(ret_file, "\nend\n");
	return rc;
}

/* --- signing ----------------------------------------------------------------------- */

static void
armor(struct str blob, struct buf *out)
{
	AUTO_BUF struct buf b64 = BUF(SIG_SSHSIG_MAX);

	enc_base64(&b64, blob);
	buf_put_z(out, SIG_NATIVE_BEGIN "\n");
	for (size_t i = 0; i < b64.n; i += 70)
		buf_printf(out, "%.*s\n", (int)(b64.n - i < 70 ? b64.n - i : 70), b64.p + i);
	buf_put_z(out, SIG_NATIVE_END "\n");
}

int
sign_native(struct str file, const struct secret *passphrase, const char *ns, struct str text,
    struct buf *ret, struct err *err)
{
	AUTO_FILE struct file f = {.salt = BUF(64), .secret = BUF(256)};
	AUTO(secret) struct secret *seed = secret_new(SEED);
	AUTO(secret) struct secret *sk = secret_new(crypto_sign_SECRETKEYBYTES);
	AUTO_BUF struct buf data = BUF((size_t)1 << 20);
	AUTO_BUF struct buf blob = BUF(1024);
	AUTO_BUF struct buf line = BUF(256);
	AUTO_BUF struct buf key = BUF(256);
	uint8_t pub[crypto_sign_PUBLICKEYBYTES], sig[crypto_sign_BYTES];
	int rc = file_parse(file, &f, err);

	if (rc == 0)
		rc = unseal(&f, passphrase, seed, err);
	if (rc != 0)
		return rc;
	(void)crypto_sign_seed_keypair(pub, secret_bytes(sk), secret_bytes(seed));
	line_of(pub, &line);
	if (!str_eq(buf_str(&line), f.line))
		return err_set(err, ERR_CONFIG, "the key file is damaged: its halves do not fit");
	sig_native_data(ns, text, &data);
	if (buf_over(&data))
		return err_set(
		    err, ERR_TOO_LARGE, "a text of %zu bytes is too long to be signed", text.n);
	(void)crypto_sign_detached(sig, NULL, data.p, data.n, secret_bytes(sk));
	buf_lz(&key, SIG_NATIVE_TYPE);
	buf_lstr(&key, str_mem(pub, sizeof(pub)));
	buf_lz(&blob, "cofferdam-signature");
	buf_lstr(&blob, buf_str(&key));
	buf_lz(&blob, ns);
	buf_lstr(&blob, str_mem(sig, sizeof(sig)));
	armor(buf_str(&blob), ret);
	return 0;
}
