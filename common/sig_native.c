/*
 * Signatures by keys of `cofferdam key new`, for machines of people without SSH keys: Ed25519 over
 * a domain, the namespace and the message, each with its length. Checked by core and the command
 * line; nothing here can sign. And the one place that tells the three forms apart.
 */
#include <assert.h>

#include "common/hash.h"
#include "common/sig_int.h"
#include "common/sig_webauthn.h"

#include "common/banned.h"

#define DOMAIN "cofferdam-signature"
#define VERSION 1
#define DATA_MAX ((size_t)1 << 20)

void
sig_native_data(const char *ns, struct str msg, struct buf *out)
{
	buf_put_z(out, DOMAIN);
	buf_u8(out, 0);
	buf_u8(out, VERSION);
	buf_lz(out, ns);
	buf_lstr(out, msg);
}

int
sig_native_verify(
    struct str armored, const char *ns, struct str msg, struct sig_sshsig *ret, struct err *err)
{
	AUTO_BUF struct buf raw = BUF(SIG_SSHSIG_MAX);
	AUTO_BUF struct buf data = BUF(DATA_MAX);
	struct sig_sshsig g = {0};
	struct str name, key, by, sig;
	struct rd r;
	int rc = sig_unarmor(armored, SIG_NATIVE_BEGIN, SIG_NATIVE_END, &raw, err);

	if (rc != 0)
		return rc;
	r = rd_init(buf_str(&raw));
	name = rd_lstr(&r);
	key = rd_lstr(&r);
	by = rd_lstr(&r);
	sig = rd_lstr(&r);
	if (!rd_end(&r) || sig.n != SIG_ED25519_SIG)
		return err_set(err, ERR_SIGNATURE, "signature has the wrong length");
	if (!str_eqz(name, DOMAIN))
		return err_set(err, ERR_SIGNATURE, "not a cofferdam signature");
	if (!str_eqz(by, ns))
		return err_set(
		    err, ERR_SIGNATURE, "namespace is \"%s\", must be \"%s\"", sig_quote(by).z, ns);
	rc = sig_key_from_blob(key, &g.key, err);
	if (rc != 0)
		return rc;
	if (g.key.form != SIG_FORM_NATIVE)
		return err_set(err, ERR_SIGNATURE, "key must be of type %s, is %s", SIG_NATIVE_TYPE,
		    sig_type_name(&g.key));
	sig_native_data(ns, msg, &data);
	assert(sig.p != NULL);
	if (buf_over(&data) ||
	    !sig_ed25519_verify(g.key.pub, buf_str(&data), (const uint8_t *)sig.p))
		return err_set(err, ERR_SIGNATURE, "signature does not match the text and the key");
	*ret = g;
	return 0;
}

int
sig_verify(struct str text, const char *ns, struct str msg, const struct sig_pubkey *keys,
    size_t nkeys, struct sig_sshsig *ret, struct err *err)
{
	if (str_has_prefix(text, "{"))
		return sig_webauthn_verify(text, msg, keys, nkeys, ret, err);
	if (str_has_prefix(text, SIG_NATIVE_BEGIN))
		return sig_native_verify(text, ns, msg, ret, err);
	return sig_sshsig_verify(text, ns, msg, ret, err);
}
