/*
 * Witnesses of a log: cosignatures (C2SP tlog-cosignature, Ed25519, type 0x04) and the texts of
 * C2SP tlog-witness add-checkpoint. Read by whoever verifies, by the writer that asks, and by the
 * witness that answers. Nothing here can sign.
 */
#ifndef AUDIT_COSIGN_H
#define AUDIT_COSIGN_H

#include "audit/checkpoint.h"
#include "audit/tree.h"

#define COSIGNERS_MAX 8
#define COSIGN_PROOF_MAX 63 /* hashes; C2SP tlog-witness */
#define COSIGN_REQUEST_MAX (CHECKPOINT_MAX + 64 * 48)
#define COSIGN_ANSWER_MAX ((size_t)8192)

/* A witness' key `NAME+ID+base64(0x04 || public key)`. */
struct cosigner {
	char name[ORIGIN_MAX + 1];
	uint8_t id[4];
	uint8_t pub[32];
};
struct cosigners {
	size_t n;
	struct cosigner key[COSIGNERS_MAX];
};
int cosigner_make(struct str name, const uint8_t pub[32], struct cosigner *ret, struct err *err);
void cosigner_put(struct buf *out, const struct cosigner *c); /* the key line, without LF */
int cosigner_parse(struct str line, struct cosigner *ret, struct err *err);
/* Does this line, with or without sizes behind it, look like a witness' key? */
bool cosigner_is(struct str line);
/* The lines of a key file that are witnesses' keys; the others are vkeys_parse()'s. May be none. */
int cosigners_parse(struct str text, const char *file, struct cosigners *ret, struct err *err);

/* What is signed: "cosignature/v1", "time N", the checkpoint's text. */
void cosign_message(struct buf *out, uint64_t time_s, struct str text);
void cosign_put_line(
    struct buf *out, const struct cosigner *c, uint64_t time_s, const uint8_t sig[64]);
/*
 * One signature line, without its LF, beneath `text`. 1: by this key, and it holds; 0: somebody
 * else's; ERR_TAMPER: not a signature line, or by this key and it does not hold.
 */
int cosign_line_check(struct str line, const struct cosigner *c, struct str text,
    uint64_t *ret_time_s, struct err *err);
/* Splits a note: text with its last LF, signature lines. False: not of the form. */
bool cosign_note_split(struct str note, struct str *ret_text, struct str *ret_sigs);

/* --- add-checkpoint ---------------------------------------------------------------------- */

struct cosign_request {
	uint64_t old;
	size_t nproof;
	struct hash proof[COSIGN_PROOF_MAX];
	struct str note; /* borrowed */
};
void cosign_request_put(
    struct buf *out, uint64_t old, const struct hash *proof, size_t nproof, struct str note);
int cosign_request_parse(struct str body, struct cosign_request *ret, struct err *err); /* 400 */

/* What a witness knows of one log. */
struct cosign_log {
	char origin[ORIGIN_MAX + 1];
	struct vkeys keys; /* all of that name */
	uint64_t size;	   /* of the latest that was cosigned; 0: none */
	struct hash root;
};
enum cosign_status {
	COSIGN_OK = 200,
	COSIGN_MALFORMED = 400,
	COSIGN_UNSIGNED = 403,
	COSIGN_UNKNOWN = 404,
	COSIGN_CONFLICT = 409,
	COSIGN_FORK = 422,
};
/* The note's first line; false: there is none that is a name. */
bool cosign_origin(struct str note, struct str *ret);
/* What a refused request says against the log, and not against who sent it. */
enum cosign_evidence {
	COSIGN_NOTHING,
	/* A head that the log signed, with a proof that does not hold: the log forked, or somebody
	 * sent junk with an honest head, since nobody signs proofs. */
	COSIGN_UNPROVEN,
	COSIGN_PROVEN, /* it signed another root for the size that was cosigned */
};
/*
 * Judges a request for a log that is known. On COSIGN_OK *ret is the new latest.
 */
enum cosign_status cosign_judge(const struct cosign_log *log, const struct cosign_request *rq,
    struct checkpoint *ret, enum cosign_evidence *ret_evidence, struct err *err);

/* The answer of a 409: a size and LF. */
bool cosign_conflict_parse(struct str body, uint64_t *ret);
/* The answer of a 200: the line of that key, without LF, and its time. ERR_TAMPER: none holds. */
int cosign_answer_parse(struct str body, const struct cosigner *c, struct str text,
    struct str *ret_line, uint64_t *ret_time_s, struct err *err);

#endif
