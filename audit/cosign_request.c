/*
 * add-checkpoint of C2SP tlog-witness: its texts, and how a witness judges a request. Pure: runs in
 * the writer (which asks and reads answers) and in the witness (which answers). Both read what
 * anybody may have sent. A head that does not extend the one cosigned before is never COSIGN_OK.
 */
#include "audit/cosign.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/banned.h"

void
cosign_request_put(
    struct buf *out, uint64_t old, const struct hash *proof, size_t nproof, struct str note)
{
	buf_printf(out, "old %" PRIu64 "\n", old);
	for (size_t i = 0; i < nproof; i++) {
		enc_base64(out, str_mem(proof[i].b, HASH_LEN));
		buf_put_c(out, '\n');
	}
	buf_put_c(out, '\n');
	buf_put_str(out, note);
}

int
cosign_request_parse(struct str body, struct cosign_request *ret, struct err *err)
{
	struct cosign_request rq = {0};
	struct str line, word;

	if (!str_cut(&body, '\n', &line) || !str_cut(&line, ' ', &word) || !str_eqz(word, "old") ||
	    !str_to_u64(line, INT64_MAX, &rq.old))
		return err_set(err, ERR_SYNTAX, "the first line must read: old SIZE");
	for (;;) {
		AUTO_BUF struct buf hash = BUF(HASH_LEN + 2);

		if (!str_cut(&body, '\n', &line))
			return err_set(err, ERR_SYNTAX, "there is no empty line behind the proof");
		if (line.n == 0)
			break;
		if (rq.nproof == COSIGN_PROOF_MAX)
			return err_set(
			    err, ERR_SYNTAX, "a proof of more than %d hashes", COSIGN_PROOF_MAX);
		if (!enc_unbase64(line, &hash) || hash.n != HASH_LEN)
			return err_set(
			    err, ERR_SYNTAX, "line %zu of the proof is not a hash", rq.nproof + 1);
		memcpy(rq.proof[rq.nproof++].b, hash.p, HASH_LEN);
	}
	rq.note = body;
	*ret = rq;
	return 0;
}

bool
cosign_origin(struct str note, struct str *ret)
{
	return str_cut(&note, '\n', ret) && vkey_name_ok(*ret);
}

/* The three lines; a log may have more behind them, which are signed and say nothing to a witness.
 */
static int
head_of(struct str text, struct checkpoint *ret, struct err *err)
{
	struct str rest = text, line;

	for (int i = 0; i < 3; i++)
		if (!str_cut(&rest, '\n', &line))
			return err_set(err, ERR_TAMPER, "checkpoint must have three lines");
	return checkpoint_parse_text(str_mem(text.p, text.n - rest.n), ret, err);
}

/* The root of a tree without leaves. */
static bool
empty_ok(const struct hash *root)
{
	struct hash none = tree_root_of(NULL, 0);

	return hash_eq(root, &none);
}

enum cosign_status
cosign_judge(const struct cosign_log *log, const struct cosign_request *rq, struct checkpoint *ret,
    enum cosign_evidence *ret_evidence, struct err *err)
{
	const struct vkey *key = NULL;
	struct str text = STR_NONE, sigs;
	struct checkpoint cp;

	*ret_evidence = COSIGN_NOTHING;
	if (!cosign_note_split(rq->note, &text, &sigs) || head_of(text, &cp, err) != 0) {
		(void)err_set(err, ERR_SYNTAX, "not a checkpoint");
		return COSIGN_MALFORMED;
	}
	if (note_open(rq->note, &log->keys, &text, &key, err) != 0 || cp.size < key->first ||
	    cp.size > key->last) {
		(void)err_set(err, ERR_SIGNATURE, "no signature by a key that is trusted for %s",
		    log->origin);
		return COSIGN_UNSIGNED;
	}
	if (rq->old > cp.size) {
		(void)err_set(
		    err, ERR_SYNTAX, "old %" PRIu64 " is over the size %" PRIu64, rq->old, cp.size);
		return COSIGN_MALFORMED;
	}
	if (cp.size == log->size && log->size != 0 && !hash_eq(&cp.root, &log->root)) {
		*ret_evidence = COSIGN_PROVEN;
		(void)err_set(
		    err, ERR_TAMPER, "another root was cosigned for size %" PRIu64, log->size);
		return COSIGN_CONFLICT;
	}
	if (rq->old != log->size) {
		(void)err_set(err, ERR_STATE, "cosigned last is size %" PRIu64 ", not %" PRIu64,
		    log->size, rq->old);
		return COSIGN_CONFLICT;
	}
	if (rq->old == 0 ? rq->nproof != 0 || (cp.size == 0 && !empty_ok(&cp.root))
			 : !tree_consistency_ok(
			       rq->old, &log->root, cp.size, &cp.root, rq->proof, rq->nproof)) {
		if (rq->old != 0 && cp.size != rq->old) /* else it is the head that was cosigned */
			*ret_evidence = COSIGN_UNPROVEN;
		(void)err_set(err, ERR_TAMPER,
		    "size %" PRIu64 " is not shown to extend size %" PRIu64, cp.size, rq->old);
		return COSIGN_FORK;
	}
	*ret = cp;
	return COSIGN_OK;
}

bool
cosign_conflict_parse(struct str body, uint64_t *ret)
{
	struct str line;

	return str_cut(&body, '\n', &line) && body.n == 0 && str_to_u64(line, INT64_MAX, ret);
}

int
cosign_answer_parse(struct str body, const struct cosigner *c, struct str text,
    struct str *ret_line, uint64_t *ret_time_s, struct err *err)
{
	struct str line;

	for (unsigned n = 0; str_cut(&body, '\n', &line); n++) {
		int rc = n < NOTE_SIGS_MAX
			     ? cosign_line_check(line, c, text, ret_time_s, err)
			     : err_set(err, ERR_TAMPER, "more than %d lines", NOTE_SIGS_MAX);

		if (rc < 0)
			return rc;
		if (rc == 1) {
			*ret_line = line;
			return 0;
		}
	}
	return err_set(err, ERR_TAMPER, "no cosignature by %s", c->name);
}
