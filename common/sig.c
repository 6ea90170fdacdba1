/*
 * Signature checks for approvals, registrations and checkpoints: core, writer, command
 * line. Armor and blob come from whoever claims to be a person; every byte must be where
 * PROTOCOL.sshsig says and nothing may be left over. Nothing here can sign, and nothing
 * here says whether the key is enrolled: the caller compares.
 */
#include "common/sig.h"

#include <assert.h>
#include <sodium.h>

#include "common/buf.h"
#include "common/hash.h"
#include "common/log.h"

#include "common/banned.h"

#define TYPE_PLAIN "ssh-ed25519"
#define TYPE_SK "sk-ssh-ed25519@openssh.com"
#define SSHSIG_MAGIC "SSHSIG"
#define SSHSIG_VERSION 1
#define SK_TOUCHED 0x01

bool
sig_ed25519_verify(
    const uint8_t pub[SIG_ED25519_PUB], struct str msg, const uint8_t sig[SIG_ED25519_SIG])
{
	/* libsodium refuses keys of small order and a scalar that is not reduced. */
	return crypto_sign_verify_detached(sig, (const unsigned char *)msg.p, msg.n, pub) == 0;
}

/* What is quoted from outside, made safe and short. */
struct quote {
	char z[84];
};

static struct quote
quote(struct str s)
{
	AUTO_FREE char *vis = log_vis(str_mem(s.p, s.n < 64 ? s.n : 64));
	struct quote q = {.z = ""};
	size_t n = strnlen(vis, sizeof(q.z) - 4);

	memcpy(q.z, vis, n);
	if (vis[n] != '\0' || s.n > 64)
		memcpy(q.z + n, "...", 4);
	return q;
}

/* --- keys ---------------------------------------------------------------------------- */

/* string type, string key, and for sk string application; nothing behind. */
static int
key_from_blob(struct str blob, struct sig_pubkey *ret, struct err *err)
{
	struct rd r = rd_init(blob);
	struct sig_pubkey k = {0};
	struct str type = rd_lstr(&r), pub = rd_lstr(&r), app;

	if (r.bad)
		return err_set(err, ERR_SIGNATURE, "key is cut short");
	k.hardware = str_eqz(type, TYPE_SK);
	if (!k.hardware && !str_eqz(type, TYPE_PLAIN))
		return err_set(err, ERR_SIGNATURE, "key type must be %s or %s, is \"%s\"",
		    TYPE_PLAIN, TYPE_SK, quote(type).z);
	if (pub.n != SIG_ED25519_PUB)
		return err_set(
		    err, ERR_SIGNATURE, "key must be %d bytes, is %zu", SIG_ED25519_PUB, pub.n);
	memcpy(k.pub, pub.p, SIG_ED25519_PUB);
	if (k.hardware) {
		app = rd_lstr(&r);
		if (r.bad || app.n == 0 || app.n >= sizeof(k.application) ||
		    !str_is_ascii_print(app))
			return err_set(err, ERR_SIGNATURE,
			    "application must be 1 to %zu printable characters, is \"%s\"",
			    sizeof(k.application) - 1, quote(app).z);
		memcpy(k.application, app.p, app.n);
	}
	if (!rd_end(&r))
		return err_set(err, ERR_SIGNATURE, "bytes left over behind the key");
	*ret = k;
	return 0;
}

static void
key_to_blob(const struct sig_pubkey *k, struct buf *out)
{
	buf_lz(out, k->hardware ? TYPE_SK : TYPE_PLAIN);
	buf_lstr(out, str_mem(k->pub, SIG_ED25519_PUB));
	if (k->hardware)
		buf_lz(out, k->application);
}

int
sig_pubkey_parse(struct str line, struct sig_pubkey *ret, struct err *err)
{
	AUTO_BUF struct buf blob = BUF(SIG_SSHSIG_MAX);
	struct str rest = str_trim(line), type = STR_NONE, text;
	struct sig_pubkey k = {0};
	int r;

	if (rest.n > SIG_SSHSIG_MAX || (rest.n != 0 && memchr(rest.p, '\n', rest.n) != NULL))
		return err_set(
		    err, ERR_SIGNATURE, "key must be one line of at most %d bytes", SIG_SSHSIG_MAX);
	if (!str_cut(&rest, ' ', &type))
		return err_set(err, ERR_SIGNATURE, "key must look like \"%s AAAA...\"", TYPE_PLAIN);
	rest = str_trim(rest);
	if (!str_cut(&rest, ' ', &text))
		text = rest;
	if (!enc_unbase64(text, &blob))
		return err_set(err, ERR_SIGNATURE, "key is not base64");
	if ((r = key_from_blob(buf_str(&blob), &k, err)) != 0)
		return r;
	/* Options before the type ("cert-authority", "restrict") end here as well. */
	if (!str_eqz(type, k.hardware ? TYPE_SK : TYPE_PLAIN))
		return err_set(
		    err, ERR_SIGNATURE, "key says \"%s\" before another type", quote(type).z);
	*ret = k;
	return 0;
}

void
sig_pubkey_fingerprint(const struct sig_pubkey *k, char out[64])
{
	AUTO_BUF struct buf blob = BUF(512);
	AUTO_BUF struct buf text = BUF(64);
	struct hash h;

	key_to_blob(k, &blob);
	h = hash_sha256(buf_str(&blob));
	buf_put_z(&text, "SHA256:");
	enc_base64(&text, str_mem(h.b, HASH_LEN));
	assert(!buf_over(&text) && text.n == 51 && text.p[50] == '=');
	memcpy(out, text.p, 50);
	out[50] = '\0';
}

bool
sig_pubkey_eq(const struct sig_pubkey *a, const struct sig_pubkey *b)
{
	return a->hardware == b->hardware && memcmp(a->pub, b->pub, SIG_ED25519_PUB) == 0 &&
	       strcmp(a->application, b->application) == 0;
}

/* --- SSHSIG -------------------------------------------------------------------------- */

/* BEGIN line, lines of base64, END line, at most one LF behind; no CR, no blank line. */
static int
unarmor(struct str s, struct buf *blob, struct err *err)
{
	AUTO_BUF struct buf text = BUF(SIG_SSHSIG_MAX);
	struct str line;

	if (s.n > SIG_SSHSIG_MAX)
		return err_set(err, ERR_SIGNATURE, "signature must be at most %d bytes, is %zu",
		    SIG_SSHSIG_MAX, s.n);
	if (!str_cut(&s, '\n', &line) || !str_eqz(line, "-----BEGIN SSH SIGNATURE-----"))
		return err_set(err, ERR_SIGNATURE,
		    "must begin with the line "
		    "-----BEGIN SSH SIGNATURE-----");
	while (str_cut(&s, '\n', &line) && !str_has_prefix(line, "-")) {
		if (line.n == 0 || line.n > 76)
			return err_set(err, ERR_SIGNATURE,
			    "a line of the signature must be 1 to 76 characters, is %zu", line.n);
		buf_put_str(&text, line);
		line = STR_NONE;
	}
	if (line.n == 0) { /* the last line has no LF */
		line = s;
		s = STR("");
	}
	if (!str_eqz(line, "-----END SSH SIGNATURE-----") || s.n != 0)
		return err_set(err, ERR_SIGNATURE,
		    "must end with the line "
		    "-----END SSH SIGNATURE-----");
	if (!enc_unbase64(buf_str(&text), blob))
		return err_set(err, ERR_SIGNATURE, "signature is not base64");
	return 0;
}

struct blob {
	struct str key, ns, reserved, hash, sig;
};

static int
blob_parse(struct str s, const char *ns, struct blob *ret, struct err *err)
{
	struct rd r = rd_init(s);
	struct blob b;
	uint32_t version;

	if (!str_eqz(rd_bytes(&r, strlen(SSHSIG_MAGIC)), SSHSIG_MAGIC))
		return err_set(err, ERR_SIGNATURE, "not an SSHSIG blob");
	version = rd_u32(&r);
	b.key = rd_lstr(&r);
	b.ns = rd_lstr(&r);
	b.reserved = rd_lstr(&r);
	b.hash = rd_lstr(&r);
	b.sig = rd_lstr(&r);
	if (r.bad)
		return err_set(err, ERR_SIGNATURE, "signature is cut short");
	if (!rd_end(&r))
		return err_set(err, ERR_SIGNATURE, "bytes left over behind the signature");
	if (version != SSHSIG_VERSION)
		return err_set(
		    err, ERR_SIGNATURE, "version must be %d, is %u", SSHSIG_VERSION, version);
	if (!str_eqz(b.ns, ns))
		return err_set(
		    err, ERR_SIGNATURE, "namespace is \"%s\", must be \"%s\"", quote(b.ns).z, ns);
	if (b.reserved.n != 0)
		return err_set(err, ERR_SIGNATURE, "reserved field must be empty, has %zu bytes",
		    b.reserved.n);
	if (!str_eqz(b.hash, "sha512"))
		return err_set(
		    err, ERR_SIGNATURE, "hash must be sha512, is \"%s\"", quote(b.hash).z);
	*ret = b;
	return 0;
}

/* "SSHSIG", string namespace, string reserved, string hash name, string H(message) */
static void
signed_data(const char *ns, struct str msg, struct buf *out)
{
	uint8_t h[64];

	hash_sha512(msg, h);
	buf_put_z(out, SSHSIG_MAGIC);
	buf_lz(out, ns);
	buf_lz(out, "");
	buf_lz(out, "sha512");
	buf_lstr(out, str_mem(h, sizeof(h)));
}

/* What a security key signs (PROTOCOL.u2f): H(application), flags, counter, H(data). */
static void
sk_data(const struct sig_sshsig *g, struct str data, struct buf *out)
{
	struct hash app = hash_sha256(str_z(g->key.application)), h = hash_sha256(data);

	buf_put(out, app.b, HASH_LEN);
	buf_u8(out, g->flags);
	buf_u32(out, g->counter);
	buf_put(out, h.b, HASH_LEN);
}

/* string type, string signature, and for sk u8 flags, u32 counter. */
static int
sig_parse(struct str s, struct sig_sshsig *g, struct str *ret_sig, struct err *err)
{
	struct rd r = rd_init(s);
	struct str type = rd_lstr(&r), sig = rd_lstr(&r);

	if (g->key.hardware) {
		g->flags = rd_u8(&r);
		g->counter = rd_u32(&r);
	}
	if (!rd_end(&r) || sig.n != SIG_ED25519_SIG)
		return err_set(err, ERR_SIGNATURE, "signature has the wrong length");
	if (!str_eqz(type, g->key.hardware ? TYPE_SK : TYPE_PLAIN))
		return err_set(err, ERR_SIGNATURE, "signature type \"%s\" is not that of the key",
		    quote(type).z);
	*ret_sig = sig;
	return 0;
}

int
sig_sshsig_verify(
    struct str armored, const char *ns, struct str msg, struct sig_sshsig *ret, struct err *err)
{
	AUTO_BUF struct buf raw = BUF(SIG_SSHSIG_MAX);
	AUTO_BUF struct buf data = BUF(1024);
	AUTO_BUF struct buf sk = BUF(128);
	struct sig_sshsig g = {0};
	struct blob b = {0};
	struct str sig = STR_NONE;
	int r;

	assert(ns != NULL && ns[0] != '\0');
	if ((r = unarmor(armored, &raw, err)) != 0 ||
	    (r = blob_parse(buf_str(&raw), ns, &b, err)) != 0 ||
	    (r = key_from_blob(b.key, &g.key, err)) != 0 ||
	    (r = sig_parse(b.sig, &g, &sig, err)) != 0)
		return r;
	signed_data(ns, msg, &data);
	if (g.key.hardware)
		sk_data(&g, buf_str(&data), &sk);
	assert(sig.p != NULL && !buf_over(&data) && !buf_over(&sk));
	if (!sig_ed25519_verify(
		g.key.pub, buf_str(g.key.hardware ? &sk : &data), (const uint8_t *)sig.p))
		return err_set(err, ERR_SIGNATURE, "signature does not match the text and the key");
	/* ssh-keygen -Y verify lets this pass; for us the touch is the person. */
	if (g.key.hardware && (g.flags & SK_TOUCHED) == 0)
		return err_set(err, ERR_SIGNATURE,
		    "hardware key was not touched (flags 0x%02x, must have 0x01)", g.flags);
	*ret = g;
	return 0;
}
