/*
 * Cosignatures of witnesses: keys, lines, what is signed. Runs in the writer, in witnesses and in
 * verifiers. Lines come from anybody: one spelling of each byte is accepted, another key's line is
 * passed over and never counted. Cannot sign.
 */
#include "audit/cosign.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/sig.h"

#include "common/banned.h"

#define DASH "\xe2\x80\x94 " /* U+2014 and a space */
#define DASH_LEN 4
#define ALG_COSIGN 0x04
#define SIG_LEN (4 + 8 + 64)

/* --- keys ---------------------------------------------------------------------------- */

int
cosigner_make(struct str name, const uint8_t pub[32], struct cosigner *ret, struct err *err)
{
	struct cosigner c = {0};

	if (!vkey_name_ok(name))
		return err_set(err, ERR_INVALID,
		    "witness name must be 1 to %d bytes without spaces and plus signs", ORIGIN_MAX);
	memcpy(c.name, name.p, name.n);
	memcpy(c.pub, pub, 32);
	note_key_id(c.id, name, ALG_COSIGN, pub);
	*ret = c;
	return 0;
}

void
cosigner_put(struct buf *out, const struct cosigner *c)
{
	note_key_put(out, c->name, c->id, ALG_COSIGN, c->pub);
}

int
cosigner_parse(struct str line, struct cosigner *ret, struct err *err)
{
	AUTO_BUF struct buf id = BUF(4), key = BUF(64);
	struct cosigner c;
	struct str name;

	if (!note_key_cut(line, &name, &id, &key))
		return err_set(err, ERR_CONFIG, "witness key must read NAME+ID+BASE64");
	if (key.p[0] != ALG_COSIGN || key.n != 33)
		return err_set(err, ERR_CONFIG,
		    "witness key must be an Ed25519 cosigner's (type 4), is type %u", key.p[0]);
	if (cosigner_make(name, key.p + 1, &c, err) != 0)
		return ERR_CONFIG;
	if (memcmp(c.id, id.p, 4) != 0)
		return err_set(
		    err, ERR_CONFIG, "witness key of %s: its ID is not that of its key", c.name);
	*ret = c;
	return 0;
}

bool
cosigner_is(struct str line)
{
	AUTO_BUF struct buf id = BUF(4), key = BUF(64);
	struct str name, first = line;

	(void)str_cut(&line, ' ', &first);
	return note_key_cut(first, &name, &id, &key) && key.p[0] == ALG_COSIGN;
}

int
cosigners_parse(struct str text, const char *file, struct cosigners *ret, struct err *err)
{
	struct cosigners all = {0};
	unsigned n = 0;

	while (text.n != 0) {
		struct str line = text;

		if (!str_cut(&text, '\n', &line))
			text = STR_NONE;
		n++;
		if (line.n == 0 || line.p[0] == '#' || !cosigner_is(line))
			continue;
		if (all.n == COSIGNERS_MAX)
			return err_set(err, ERR_CONFIG, "%s:%u: at most %d witnesses' keys", file,
			    n, COSIGNERS_MAX);
		if (cosigner_parse(line, &all.key[all.n], err) != 0) {
			(void)err_wrap(err, "%s:%u", file, n);
			return ERR_CONFIG;
		}
		all.n++;
	}
	*ret = all;
	return 0;
}

/* --- lines --------------------------------------------------------------------------- */

void
cosign_message(struct buf *out, uint64_t time_s, struct str text)
{
	buf_printf(out, "cosignature/v1\ntime %" PRIu64 "\n", time_s);
	buf_put_str(out, text);
}

void
cosign_put_line(struct buf *out, const struct cosigner *c, uint64_t time_s, const uint8_t sig[64])
{
	AUTO_BUF struct buf blob = BUF(SIG_LEN);

	buf_put(&blob, c->id, 4);
	buf_u64(&blob, time_s);
	buf_put(&blob, sig, 64);
	buf_printf(out, DASH "%s ", c->name);
	enc_base64(out, buf_str(&blob));
	buf_put_c(out, '\n');
}

int
cosign_line_check(struct str line, const struct cosigner *c, struct str text, uint64_t *ret_time_s,
    struct err *err)
{
	AUTO_BUF struct buf blob = BUF(8192), message = BUF(CHECKPOINT_MAX + 64);
	struct str name;
	struct rd r;
	uint64_t t;

	if (line.n < DASH_LEN || memcmp(line.p, DASH, DASH_LEN) != 0)
		return err_set(err, ERR_TAMPER, "signature line does not begin with a dash");
	line = str_mem(line.p + DASH_LEN, line.n - DASH_LEN);
	if (!str_cut(&line, ' ', &name) || !vkey_name_ok(name) || !enc_unbase64(line, &blob) ||
	    blob.n < 5)
		return err_set(err, ERR_TAMPER, "signature line is not of the form");
	if (!str_eqz(name, c->name) || memcmp(blob.p, c->id, 4) != 0)
		return 0;
	r = rd_init(str_mem(blob.p + 4, blob.n - 4));
	t = rd_u64(&r);
	cosign_message(&message, t, text);
	if (blob.n != SIG_LEN || t > INT64_MAX || buf_over(&message) ||
	    !sig_ed25519_verify(c->pub, buf_str(&message), blob.p + 12))
		return err_set(err, ERR_TAMPER, "cosignature by %s does not hold", c->name);
	*ret_time_s = t;
	return 1;
}

bool
cosign_note_split(struct str note, struct str *ret_text, struct str *ret_sigs)
{
	if (note.n < 3 || note.n > CHECKPOINT_MAX || note.p[note.n - 1] != '\n' ||
	    !str_is_utf8(note))
		return false;
	for (size_t i = 0; i < note.n; i++)
		if ((uint8_t)note.p[i] < ' ' && note.p[i] != '\n')
			return false;
	for (size_t i = note.n - 1; i >= 2; i--) {
		if (note.p[i - 1] != '\n' || note.p[i - 2] != '\n')
			continue;
		*ret_text = str_mem(note.p, i - 1);
		*ret_sigs = str_mem(note.p + i, note.n - i);
		return true;
	}
	return false;
}
