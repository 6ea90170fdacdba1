/*
 * SSHSIG, for whoever checks what people signed: core, the command line. Armor and blob come from
 * whoever claims to be a person; every byte must be where PROTOCOL.sshsig says and nothing may be
 * left over. Nothing here can sign, and nothing here says whether the key is enrolled: the caller
 * compares.
 */
#include <assert.h>

#include "common/hash.h"
#include "common/sig_ecdsa.h"
#include "common/sig_int.h"

#include "common/banned.h"

#define SSHSIG_MAGIC "SSHSIG"
#define SSHSIG_VERSION 1
#define SSHSIG_BEGIN "-----BEGIN SSH SIGNATURE-----"
#define SSHSIG_END "-----END SSH SIGNATURE-----"

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
		return err_set(err, ERR_SIGNATURE, "namespace is \"%s\", must be \"%s\"",
		    sig_quote(b.ns).z, ns);
	if (b.reserved.n != 0)
		return err_set(err, ERR_SIGNATURE, "reserved field must be empty, has %zu bytes",
		    b.reserved.n);
	if (!str_eqz(b.hash, "sha512"))
		return err_set(
		    err, ERR_SIGNATURE, "hash must be sha512, is \"%s\"", sig_quote(b.hash).z);
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
	if (!rd_end(&r) || (g->key.alg == SIG_ED25519 && sig.n != SIG_ED25519_SIG))
		return err_set(err, ERR_SIGNATURE, "signature has the wrong length");
	if (!str_eqz(type, sig_type_name(&g->key)))
		return err_set(err, ERR_SIGNATURE, "signature type \"%s\" is not that of the key",
		    sig_quote(type).z);
	*ret_sig = sig;
	return 0;
}

static bool
matches(const struct sig_pubkey *k, struct str text, struct str sig)
{
	if (k->alg == SIG_ED25519)
		return sig_ed25519_verify(k->pub, text, (const uint8_t *)sig.p);
	return sig_ecdsa_verify_ssh(k->alg, k->pub, text, sig);
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
	if ((r = sig_unarmor(armored, SSHSIG_BEGIN, SSHSIG_END, &raw, err)) != 0 ||
	    (r = blob_parse(buf_str(&raw), ns, &b, err)) != 0 ||
	    (r = sig_key_from_blob(b.key, &g.key, err)) != 0 ||
	    (r = sig_parse(b.sig, &g, &sig, err)) != 0)
		return r;
	if (g.key.form == SIG_FORM_NATIVE)
		return err_set(err, ERR_SIGNATURE, "key type %s makes no SSHSIG", SIG_NATIVE_TYPE);
	signed_data(ns, msg, &data);
	if (g.key.hardware)
		sk_data(&g, buf_str(&data), &sk);
	assert(sig.p != NULL && !buf_over(&data) && !buf_over(&sk));
	if (!matches(&g.key, buf_str(g.key.hardware ? &sk : &data), sig))
		return err_set(err, ERR_SIGNATURE, "signature does not match the text and the key");
	/* ssh-keygen -Y verify lets this pass; for us the touch is the person. */
	if (g.key.hardware && (g.flags & SIG_TOUCHED) == 0)
		return err_set(err, ERR_SIGNATURE,
		    "hardware key was not touched (flags 0x%02x, must have 0x01)", g.flags);
	*ret = g;
	return 0;
}
