/*
 * Signs heads of the log. Runs in the writer alone; no other program links it. Trusts neither the
 * store's size nor its root: it works out its own from the leaves, and never signs a head that
 * is shorter than, or other than a continuation of, the last one it signed.
 */
#include "audit/writer_sign.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct signer {
	struct vkey vkey;
	struct secret *sk;
	struct tree_range tree; /* as signed last */
	bool resumed;
};

int
signer_new(const struct secret *seed, const struct vkey *vkey, struct signer **ret, struct err *err)
{
	AUTO(secret) struct secret *sk = secret_new(crypto_sign_SECRETKEYBYTES);
	uint8_t pub[crypto_sign_PUBLICKEYBYTES];
	struct signer *s;

	if (secret_str(seed).n != crypto_sign_SEEDBYTES)
		return err_set(err, ERR_CONFIG, "log key must be %u bytes, is %zu",
		    crypto_sign_SEEDBYTES, secret_str(seed).n);
	if (crypto_sign_seed_keypair(
		pub, secret_bytes(sk), (const unsigned char *)secret_str(seed).p) != 0)
		fatal("libsodium: no key from the seed");
	if (memcmp(pub, vkey->pub, sizeof(pub)) != 0)
		return err_set(
		    err, ERR_CONFIG, "log key is not the one of verifier key %s", vkey->name);
	s = xcalloc(1, sizeof(*s));
	s->vkey = *vkey;
	s->sk = TAKE_PTR(sk);
	*ret = s;
	return 0;
}

void
signer_free(struct signer *s)
{
	if (s == NULL)
		return;
	secret_free(s->sk);
	free(s);
}

const struct vkey *
signer_vkey(const struct signer *s)
{
	return &s->vkey;
}

void
signer_resume(struct signer *s, const struct tree_range *signed_tree)
{
	if (s->resumed)
		fatal("signer resumed twice");
	s->resumed = true;
	s->tree = *signed_tree;
}

int
signer_sign(struct signer *s, const struct hash *leaves, size_t n, uint64_t size,
    const struct hash *root, struct buf *note, struct err *err)
{
	AUTO_BUF struct buf text = BUF(1024);
	struct tree_range tree = s->tree;
	struct checkpoint cp = {.size = size, .root = *root};
	uint8_t sig[crypto_sign_BYTES];
	struct hash own;

	for (size_t i = 0; i < n; i++)
		tree_push(&tree, &leaves[i]);
	own = tree_root(&tree);
	if (tree.size != size || !hash_eq(&own, root))
		return err_set(err, ERR_TAMPER,
		    "head of size %" PRIu64 " does not extend the signed head of size %" PRIu64,
		    size, s->tree.size);
	(void)snprintf(cp.origin, sizeof(cp.origin), "%s", s->vkey.name);
	checkpoint_text(&text, &cp);
	if (crypto_sign_detached(sig, NULL, text.p, text.n, secret_bytes(s->sk)) != 0)
		fatal("libsodium: cannot sign");
	buf_put_str(note, buf_str(&text));
	buf_put_c(note, '\n');
	note_put_sig(note, &s->vkey, sig);
	s->tree = tree;
	return 0;
}
