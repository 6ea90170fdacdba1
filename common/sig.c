/*
 * The keys of people and who may read them: core, writer, parser of policies, command line. A key
 * line comes from a policy that people reviewed, a key blob from whoever claims to be a person;
 * every byte must be where its form says, and nothing may be left over.
 */
#include "common/sig.h"

#include <assert.h>
#include <sodium.h>

#include "common/hash.h"
#include "common/log.h"
#include "common/sig_ecdsa.h"
#include "common/sig_int.h"

#include "common/banned.h"

static const struct type {
	const char *name;
	enum sig_form form;
	enum sig_alg alg;
} types[] = {
    {"ssh-ed25519", SIG_FORM_SSH, SIG_ED25519},
    {"sk-ssh-ed25519@openssh.com", SIG_FORM_SK, SIG_ED25519},
    {"ecdsa-sha2-nistp256", SIG_FORM_SSH, SIG_P256},
    {"ecdsa-sha2-nistp384", SIG_FORM_SSH, SIG_P384},
    {"ecdsa-sha2-nistp521", SIG_FORM_SSH, SIG_P521},
    {"sk-ecdsa-sha2-nistp256@openssh.com", SIG_FORM_SK, SIG_P256},
    {SIG_NATIVE_TYPE, SIG_FORM_NATIVE, SIG_ED25519},
};

bool
sig_ed25519_verify(
    const uint8_t pub[SIG_ED25519_PUB], struct str msg, const uint8_t sig[SIG_ED25519_SIG])
{
	/* libsodium refuses keys of small order and a scalar that is not reduced. */
	return crypto_sign_verify_detached(sig, (const unsigned char *)msg.p, msg.n, pub) == 0;
}

struct sig_quote
sig_quote(struct str s)
{
	AUTO_FREE char *vis = log_vis(str_mem(s.p, s.n < 64 ? s.n : 64));
	struct sig_quote q = {.z = ""};
	size_t n = strnlen(vis, sizeof(q.z) - 4);

	memcpy(q.z, vis, n);
	if (vis[n] != '\0' || s.n > 64)
		memcpy(q.z + n, "...", 4);
	return q;
}

/* --- keys ---------------------------------------------------------------------------- */

static const struct type *
type_of(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_eqz(name, types[i].name))
			return &types[i];
	return NULL;
}

const char *
sig_type_name(const struct sig_pubkey *k)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (types[i].form == k->form && types[i].alg == k->alg)
			return types[i].name;
	return "webauthn";
}

static int
type_unknown(struct str name, struct err *err)
{
	AUTO_BUF struct buf b = BUF(512);

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		buf_printf(&b, "%s%s", i != 0 ? ", " : "", types[i].name);
	return err_set(err, ERR_SIGNATURE, "key type must be one of %.*s, is \"%s\"",
	    STR_ARG(buf_str(&b)), sig_quote(name).z);
}

/* Behind the type: for ECDSA the curve, then the key. */
static int
read_pub(struct rd *r, struct sig_pubkey *k, struct err *err)
{
	const char *curve = sig_ecdsa_curve(k->alg);
	struct str name = curve != NULL ? rd_lstr(r) : STR(""), pub = rd_lstr(r);

	if (r->bad)
		return err_set(err, ERR_SIGNATURE, "key is cut short");
	if (curve != NULL && !str_eqz(name, curve))
		return err_set(
		    err, ERR_SIGNATURE, "curve must be %s, is \"%s\"", curve, sig_quote(name).z);
	if (pub.n != sig_pub_size(k->alg))
		return err_set(err, ERR_SIGNATURE, "key must be %zu bytes, is %zu",
		    sig_pub_size(k->alg), pub.n);
	if (curve != NULL && !sig_ecdsa_point(k->alg, pub))
		return err_set(err, ERR_SIGNATURE, "key is no point of %s", curve);
	memcpy(k->pub, pub.p, pub.n);
	return 0;
}

int
sig_key_from_blob(struct str blob, struct sig_pubkey *ret, struct err *err)
{
	struct rd r = rd_init(blob);
	struct sig_pubkey k = {0};
	struct str name = rd_lstr(&r), app;
	const struct type *type = type_of(name);
	int rc;

	if (r.bad)
		return err_set(err, ERR_SIGNATURE, "key is cut short");
	if (type == NULL)
		return type_unknown(name, err);
	k.form = type->form;
	k.alg = type->alg;
	k.hardware = k.form == SIG_FORM_SK;
	rc = read_pub(&r, &k, err);
	if (rc != 0)
		return rc;
	if (k.hardware) {
		app = rd_lstr(&r);
		if (r.bad || app.n == 0 || app.n >= sizeof(k.application) ||
		    !str_is_ascii_print(app))
			return err_set(err, ERR_SIGNATURE,
			    "application must be 1 to %zu printable characters, is \"%s\"",
			    sizeof(k.application) - 1, sig_quote(app).z);
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
	const char *curve = k->form != SIG_FORM_WEBAUTHN ? sig_ecdsa_curve(k->alg) : NULL;

	buf_lz(out, sig_type_name(k));
	if (curve != NULL)
		buf_lz(out, curve);
	buf_lstr(out, str_mem(k->pub, sig_pub_size(k->alg)));
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
	if (str_has_prefix(rest, "webauthn:"))
		return sig_webauthn_line(rest, ret, NULL, err);
	if (!str_cut(&rest, ' ', &type))
		return err_set(
		    err, ERR_SIGNATURE, "key must look like \"%s AAAA...\"", types[0].name);
	rest = str_trim(rest);
	if (!str_cut(&rest, ' ', &text))
		text = rest;
	if (!enc_unbase64(text, &blob))
		return err_set(err, ERR_SIGNATURE, "key is not base64");
	if ((r = sig_key_from_blob(buf_str(&blob), &k, err)) != 0)
		return r;
	/* Options before the type ("cert-authority", "restrict") end here as well. */
	if (!str_eqz(type, sig_type_name(&k)))
		return err_set(
		    err, ERR_SIGNATURE, "key says \"%s\" before another type", sig_quote(type).z);
	*ret = k;
	return 0;
}

void
sig_pubkey_put(struct buf *out, const struct sig_pubkey *k, struct str credential)
{
	AUTO_BUF struct buf blob = BUF(512);

	if (k->form == SIG_FORM_WEBAUTHN) {
		sig_webauthn_put(out, k, credential);
		return;
	}
	key_to_blob(k, &blob);
	buf_put_z(out, sig_type_name(k));
	buf_put_c(out, ' ');
	enc_base64(out, buf_str(&blob));
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
	return a->form == b->form && a->alg == b->alg && a->hardware == b->hardware &&
	       memcmp(a->pub, b->pub, sizeof(a->pub)) == 0 &&
	       strcmp(a->application, b->application) == 0;
}

/* --- texts of signatures --------------------------------------------------------------- */

int
sig_unarmor(struct str s, const char *begin, const char *end, struct buf *blob, struct err *err)
{
	AUTO_BUF struct buf text = BUF(SIG_SSHSIG_MAX);
	struct str line;

	if (s.n > SIG_SSHSIG_MAX)
		return err_set(err, ERR_SIGNATURE, "signature must be at most %d bytes, is %zu",
		    SIG_SSHSIG_MAX, s.n);
	if (!str_cut(&s, '\n', &line) || !str_eqz(line, begin))
		return err_set(err, ERR_SIGNATURE, "must begin with the line %s", begin);
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
	if (!str_eqz(line, end) || s.n != 0)
		return err_set(err, ERR_SIGNATURE, "must end with the line %s", end);
	if (!enc_unbase64(buf_str(&text), blob))
		return err_set(err, ERR_SIGNATURE, "signature is not base64");
	return 0;
}
