/*
 * A witness' verifier key in broker.json. Runs in the parent and in the courier, neither of which
 * has anything to verify: only that it is one is looked at, so that a typing error stops the start.
 */
#include <string.h>

#include "common/hash.h"
#include "common/webhook.h"

#include "common/banned.h"

#define NAME_MAX_ 200
#define TYPE_COSIGNER 4

/* Is the ID that of name and key? */
static bool
id_fits(struct str name, const struct buf *id, const struct buf *key)
{
	struct str parts[] = {name, STR("\n"), buf_str(key)};
	struct hash h = hash_sha256_parts(parts, 3);

	return memcmp(h.b, id->p, id->n) == 0;
}

const char *
webhook_witness_key(struct str s, struct str *ret_name)
{
	AUTO_BUF struct buf id = BUF(4), key = BUF(64);
	struct str rest = s, name, hex;

	if (!str_cut(&rest, '+', &name) || !str_cut(&rest, '+', &hex) || name.n == 0 ||
	    name.n > NAME_MAX_ || !str_is_ascii_print(name) ||
	    memchr(name.p, ' ', name.n) != NULL || hex.n != 8 || !enc_unhex(hex, &id) ||
	    !enc_unbase64(rest, &key))
		return "key must be a witness' verifier key, NAME+ID+BASE64";
	if (key.n != 33 || key.p[0] != TYPE_COSIGNER)
		return "key must be an Ed25519 cosigner's (type 4)";
	if (!id_fits(name, &id, &key))
		return "key: its ID is not that of its name and key";
	*ret_name = name;
	return NULL;
}
