/*
 * C2SP signed notes and checkpoints: parse, verify, put together. Runs in the writer, in
 * verifiers and replay. A note comes from anybody: one spelling of each byte is accepted, so
 * that a checkpoint cannot be changed and still be called the same. Cannot sign.
 */
#include "audit/checkpoint.h"

#include <assert.h>
#include <inttypes.h>

#include "audit/cosign.h"
#include "common/log.h"
#include "common/sig.h"

#include "common/banned.h"

#define DASH "\xe2\x80\x94 " /* U+2014 and a space */
#define DASH_LEN 4
#define ALG_ED25519 0x01

/* --- verifier keys ------------------------------------------------------------------- */

/* Spaces of Unicode beyond ASCII, as UTF-8. */
static const char *const unicode_spaces[] = {"\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80", "\xe2\x80\xa8",
    "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

static bool
has_unicode_space(struct str s)
{
	for (size_t i = 0; i < ARRAY_LEN(unicode_spaces); i++)
		if (memmem(s.p, s.n, unicode_spaces[i], strlen(unicode_spaces[i])) != NULL)
			return true;
	for (size_t i = 0; i + 2 < s.n; i++) /* U+2000 to U+200A */
		if (memcmp(s.p + i, "\xe2\x80", 2) == 0 && (uint8_t)s.p[i + 2] >= 0x80 &&
		    (uint8_t)s.p[i + 2] <= 0x8a)
			return true;
	return false;
}

bool
vkey_name_ok(struct str name)
{
	if (name.n == 0 || name.n > ORIGIN_MAX || !str_is_utf8(name) || has_unicode_space(name))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if ((uint8_t)name.p[i] <= ' ' || name.p[i] == '+' || name.p[i] == 0x7f)
			return false;
	return true;
}

static void
put_name(char out[ORIGIN_MAX + 1], struct str name)
{
	assert(name.n <= ORIGIN_MAX);
	memcpy(out, name.p, name.n);
	out[name.n] = '\0';
}

void
note_key_id(uint8_t ret[4], struct str name, uint8_t type, const uint8_t pub[32])
{
	const uint8_t head[2] = {'\n', type};
	struct str parts[] = {name, str_mem(head, 2), str_mem(pub, 32)};
	struct hash h = hash_sha256_parts(parts, 3);

	memcpy(ret, h.b, 4);
}

void
note_key_put(
    struct buf *out, const char *name, const uint8_t id[4], uint8_t type, const uint8_t pub[32])
{
	uint8_t key[33] = {type};

	memcpy(key + 1, pub, 32);
	buf_put_z(out, name);
	buf_put_c(out, '+');
	enc_hex(out, str_mem(id, 4));
	buf_put_c(out, '+');
	enc_base64(out, str_mem(key, sizeof(key)));
}

bool
note_key_cut(struct str line, struct str *ret_name, struct buf *id, struct buf *key)
{
	struct str hex;

	/* Base64 may hold a plus sign itself: the first two cut. */
	return str_cut(&line, '+', ret_name) && str_cut(&line, '+', &hex) && hex.n == 8 &&
	       enc_unhex(hex, id) && enc_unbase64(line, key) && key->n >= 1;
}

int
vkey_make(struct str name, const uint8_t pub[32], struct vkey *ret, struct err *err)
{
	struct vkey k = {.first = 0, .last = UINT64_MAX};

	if (!vkey_name_ok(name))
		return err_set(err, ERR_INVALID,
		    "key name must be 1 to %d bytes without spaces and plus signs", ORIGIN_MAX);
	put_name(k.name, name);
	memcpy(k.pub, pub, 32);
	note_key_id(k.id, name, ALG_ED25519, pub);
	*ret = k;
	return 0;
}

void
vkey_put(struct buf *out, const struct vkey *k)
{
	note_key_put(out, k->name, k->id, ALG_ED25519, k->pub);
}

int
vkey_parse(struct str line, struct vkey *ret, struct err *err)
{
	AUTO_BUF struct buf id = BUF(4), key = BUF(64);
	struct str name;
	struct vkey k;

	if (!note_key_cut(line, &name, &id, &key))
		return err_set(err, ERR_CONFIG, "verifier key must read NAME+ID+BASE64");
	if (key.p[0] != ALG_ED25519 || key.n != 33)
		return err_set(
		    err, ERR_CONFIG, "verifier key must be Ed25519 (type 1), is type %u", key.p[0]);
	if (vkey_make(name, key.p + 1, &k, err) != 0)
		return ERR_CONFIG;
	if (memcmp(k.id, id.p, 4) != 0)
		return err_set(
		    err, ERR_CONFIG, "verifier key of %s: its ID is not that of its key", k.name);
	*ret = k;
	return 0;
}

static bool
parse_range(struct str range, struct vkey *k)
{
	struct str first, last;

	if (!str_cut(&range, ' ', &first) || !str_to_u64(first, UINT64_MAX, &k->first))
		return false;
	if (str_eqz(range, "-"))
		return true;
	if (str_cut(&range, ' ', &last)) {
		k->revoked = str_eqz(range, "revoked");
		if (!k->revoked)
			return false;
		range = last;
	}
	return str_to_u64(range, UINT64_MAX, &k->last) && k->first <= k->last;
}

static int
parse_key_line(struct str line, struct vkey *k, struct err *err)
{
	struct str key = line;
	int r;

	if (!str_cut(&line, ' ', &key))
		return vkey_parse(key, k, err);
	if ((r = vkey_parse(key, k, err)) != 0)
		return r;
	if (!parse_range(line, k))
		return err_set(err, ERR_CONFIG,
		    "sizes must read FIRST LAST (or -), FIRST <= LAST, and `revoked` may follow");
	return 0;
}

int
vkeys_parse(struct str text, const char *file, struct vkeys *ret, struct err *err)
{
	struct vkeys keys = {0};
	unsigned n = 0;

	while (text.n != 0) {
		struct str line;

		if (!str_cut(&text, '\n', &line)) {
			line = text;
			text = STR_NONE;
		}
		n++;
		if (line.n == 0 || line.p[0] == '#' || cosigner_is(line))
			continue;
		if (keys.n == VKEYS_MAX)
			return err_set(
			    err, ERR_CONFIG, "%s:%u: at most %d keys", file, n, VKEYS_MAX);
		if (parse_key_line(line, &keys.key[keys.n], err) != 0) {
			(void)err_wrap(err, "%s:%u", file, n);
			return ERR_CONFIG;
		}
		for (size_t i = 0; i < keys.n; i++)
			if (strcmp(keys.key[i].name, keys.key[keys.n].name) == 0 &&
			    memcmp(keys.key[i].id, keys.key[keys.n].id, 4) == 0)
				return err_set(err, ERR_CONFIG,
				    "%s:%u: a key of the same name and ID stands above", file, n);
		keys.n++;
	}
	if (keys.n == 0)
		return err_set(err, ERR_CONFIG, "%s: holds no verifier key", file);
	*ret = keys;
	return 0;
}

/* --- the text ------------------------------------------------------------------------ */

void
checkpoint_text(struct buf *out, const struct checkpoint *cp)
{
	buf_printf(out, "%s\n%" PRIu64 "\n", cp->origin, cp->size);
	enc_base64(out, str_mem(cp->root.b, HASH_LEN));
	buf_put_c(out, '\n');
}

int
checkpoint_parse_text(struct str text, struct checkpoint *ret, struct err *err)
{
	AUTO_BUF struct buf root = BUF(HASH_LEN + 2);
	struct str origin, size, hash;
	struct checkpoint cp = {0};

	if (!str_cut(&text, '\n', &origin) || !str_cut(&text, '\n', &size) ||
	    !str_cut(&text, '\n', &hash))
		return err_set(err, ERR_TAMPER, "checkpoint must have three lines");
	if (text.n != 0) /* allowed by the format, but our logs emit none */
		return err_set(err, ERR_TAMPER, "checkpoint has extension lines");
	if (!vkey_name_ok(origin))
		return err_set(err, ERR_TAMPER, "checkpoint's origin is not a name");
	if (!str_to_u64(size, INT64_MAX, &cp.size))
		return err_set(err, ERR_TAMPER, "checkpoint's size is not a number");
	if (!enc_unbase64(hash, &root) || root.n != HASH_LEN)
		return err_set(err, ERR_TAMPER, "checkpoint's root is not base64 of 32 bytes");
	put_name(cp.origin, origin);
	memcpy(cp.root.b, root.p, HASH_LEN);
	*ret = cp;
	return 0;
}

void
note_put_sig(struct buf *out, const struct vkey *k, const uint8_t sig[64])
{
	uint8_t blob[68];

	memcpy(blob, k->id, 4);
	memcpy(blob + 4, sig, 64);
	buf_printf(out, DASH "%s ", k->name);
	enc_base64(out, str_mem(blob, sizeof(blob)));
	buf_put_c(out, '\n');
}

/* --- notes --------------------------------------------------------------------------- */

static const struct vkey *
find_key(const struct vkeys *keys, struct str name, const uint8_t id[4])
{
	for (size_t i = 0; i < keys->n; i++)
		if (str_eqz(name, keys->key[i].name) && memcmp(keys->key[i].id, id, 4) == 0)
			return &keys->key[i];
	return NULL;
}

/* One line without its LF. *ret_key is set when a known key signed the text. */
static int
open_sig(struct str line, struct str text, const struct vkeys *keys, const struct vkey **ret_key,
    struct err *err)
{
	AUTO_BUF struct buf blob = BUF(8192);
	const struct vkey *k;
	struct str name;

	if (line.n < DASH_LEN || memcmp(line.p, DASH, DASH_LEN) != 0)
		return err_set(err, ERR_TAMPER, "signature line does not begin with a dash");
	line = str_mem(line.p + DASH_LEN, line.n - DASH_LEN);
	if (!str_cut(&line, ' ', &name) || !vkey_name_ok(name))
		return err_set(err, ERR_TAMPER, "signature line has no key name");
	if (!enc_unbase64(line, &blob) || blob.n < 5)
		return err_set(err, ERR_TAMPER, "signature is not base64 of key ID and signature");
	k = find_key(keys, name, blob.p);
	if (k == NULL)
		return 0; /* somebody else's: C2SP says ignore */
	if (blob.n != 4 + 64 || !sig_ed25519_verify(k->pub, text, blob.p + 4))
		return err_set(err, ERR_TAMPER, "signature by %s does not hold", k->name);
	*ret_key = k;
	return 0;
}

/* Cut at the last empty line. */
bool
note_split(struct str note, struct str *text, struct str *sigs)
{
	if (note.n < 3 || note.p[note.n - 1] != '\n' || !str_is_utf8(note))
		return false;
	for (size_t i = 0; i < note.n; i++)
		if ((uint8_t)note.p[i] < ' ' && note.p[i] != '\n')
			return false;
	for (size_t i = note.n - 1; i >= 2; i--) {
		if (note.p[i - 1] == '\n' && note.p[i - 2] == '\n') {
			*text = str_mem(note.p, i - 1);
			*sigs = str_mem(note.p + i, note.n - i);
			return true;
		}
	}
	return false;
}

int
note_open(struct str note, const struct vkeys *keys, struct str *ret_text,
    const struct vkey **ret_key, struct err *err)
{
	const struct vkey *first = NULL;
	struct str text, sigs, line;
	unsigned n = 0;

	if (note.n > CHECKPOINT_MAX || !note_split(note, &text, &sigs))
		return err_set(err, ERR_TAMPER, "not a signed note");
	while (str_cut(&sigs, '\n', &line)) {
		const struct vkey *k = NULL;
		int r;

		if (++n > NOTE_SIGS_MAX)
			return err_set(err, ERR_TAMPER, "more than %d signatures", NOTE_SIGS_MAX);
		if ((r = open_sig(line, text, keys, &k, err)) != 0)
			return r;
		if (first == NULL)
			first = k;
	}
	if (n == 0)
		return err_set(err, ERR_TAMPER, "note has no signature");
	if (first == NULL)
		return err_set(err, ERR_CONFIG, "no signature by a key that is trusted here");
	*ret_text = text;
	*ret_key = first;
	return 0;
}

int
checkpoint_open(struct str note, const struct vkeys *keys, struct checkpoint *ret,
    const struct vkey **ret_key, struct err *err)
{
	const struct vkey *key = NULL;
	struct checkpoint cp = {0};
	struct str text = STR_NONE;
	int r;

	if ((r = note_open(note, keys, &text, &key, err)) != 0)
		return r;
	if ((r = checkpoint_parse_text(text, &cp, err)) != 0)
		return r;
	assert(key != NULL);
	if (strcmp(cp.origin, key->name) != 0)
		return err_set(err, ERR_TAMPER, "checkpoint of %s is signed by the key of %s",
		    cp.origin, key->name);
	/* CVE-2023-31439: a key that was valid at another time must not do. */
	if (cp.size > key->last && key->revoked)
		return err_set(err, ERR_TAMPER,
		    "size %" PRIu64 " is by a key that was revoked from size %" PRIu64 " on",
		    cp.size, key->last);
	if (cp.size < key->first || cp.size > key->last)
		return err_set(err, ERR_TAMPER,
		    "size %" PRIu64 " is outside the sizes of its key, %" PRIu64 " to %" PRIu64,
		    cp.size, key->first, key->last);
	*ret = cp;
	*ret_key = key;
	return 0;
}
