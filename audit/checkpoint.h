/*
 * Signed heads of the log: C2SP signed-note with the text of C2SP tlog-checkpoint, Ed25519
 * (signature type 0x01), key name = origin. Nothing here can sign: audit/writer_sign.c does.
 */
#ifndef AUDIT_CHECKPOINT_H
#define AUDIT_CHECKPOINT_H

#include "common/hash.h"

#define CHECKPOINT_MAX ((size_t)16384) /* bytes of a signed checkpoint, with witnesses' lines */
#define NOTE_SIGS_MAX 64
#define ORIGIN_MAX 200 /* bytes */
#define VKEYS_MAX 48

/* A verifier key `NAME+ID+base64(0x01 || public key)`, and the sizes of checkpoints it may sign. */
struct vkey {
	char name[ORIGIN_MAX + 1];
	uint8_t id[4];
	uint8_t pub[32];
	uint64_t first, last; /* both inclusive */
	bool revoked;	      /* why there is an end at `last`: for the message alone */
};
struct vkeys {
	size_t n;
	struct vkey key[VKEYS_MAX];
};
/* Not empty, at most ORIGIN_MAX, UTF-8, no space, plus or control character. */
bool vkey_name_ok(struct str name);
/* Keys of signed notes, of any type: the ID, NAME+ID+BASE64, and that cut into its parts. */
void note_key_id(uint8_t ret[4], struct str name, uint8_t type, const uint8_t pub[32]);
void note_key_put(
    struct buf *out, const char *name, const uint8_t id[4], uint8_t type, const uint8_t pub[32]);
bool note_key_cut(struct str line, struct str *ret_name, struct buf *id, struct buf *key);
int vkey_make(struct str name, const uint8_t pub[32], struct vkey *ret, struct err *err);
void vkey_put(struct buf *out, const struct vkey *k); /* the key line, without LF */
int vkey_parse(struct str line, struct vkey *ret, struct err *err);
/*
 * The file that a verifier trusts: lines `VKEY` or `VKEY FIRST LAST` (LAST may be `-`: no end;
 * behind it may stand `revoked`), empty lines and lines that begin with '#'. No two keys of the
 * same name and ID: which of them signed could not be told. ERR_CONFIG names file, line and what is
 * wrong.
 */
int vkeys_parse(struct str text, const char *file, struct vkeys *ret, struct err *err);

struct checkpoint {
	char origin[ORIGIN_MAX + 1];
	uint64_t size;
	struct hash root;
};
/* The three lines that are signed. */
void checkpoint_text(struct buf *out, const struct checkpoint *cp);
int checkpoint_parse_text(struct str text, struct checkpoint *ret, struct err *err);
/* `EM DASH name base64(id || signature)` and LF. */
void note_put_sig(struct buf *out, const struct vkey *k, const uint8_t sig[64]);

/* Text and signature lines of a note; false: it is not of that form. */
bool note_split(struct str note, struct str *text, struct str *sigs);
/*
 * Check a signed note: every signature by a key of `keys` must hold, and one must be there
 * (*ret_key is the first). ERR_TAMPER: not of the form, or a signature is wrong;
 * ERR_CONFIG: no signature by any of these keys. *ret_text is borrowed from the note.
 */
int note_open(struct str note, const struct vkeys *keys, struct str *ret_text,
    const struct vkey **ret_key, struct err *err);
/* The same and the text is a checkpoint of a log with the key's name, of a size within its range.
 */
int checkpoint_open(struct str note, const struct vkeys *keys, struct checkpoint *ret,
    const struct vkey **ret_key, struct err *err);

#endif
