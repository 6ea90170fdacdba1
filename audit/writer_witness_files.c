/*
 * Files of witnesses in the log's directory: wit/SIZE, a checkpoint with its cosignatures, and
 * evidence/NN, what was asked and refused. Runs in the writer. A cosignature counts once its file
 * is synced. Both are read again at a start: they may have been changed, and are believed as far as
 * they verify.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/writer_witness_int.h"
#include "common/clock.h"
#include "common/log.h"

#include "common/banned.h"

#define LOOK_BACK 4096 /* files of wit/ that a start looks at, newest first */
#define EVIDENCE_MAX (COSIGN_REQUEST_MAX + 2 * COSIGN_ANSWER_MAX + 2048)

static int
make_dir(struct witnesses *w, const char *name, int *ret_fd, struct err *err)
{
	if (mkdirat(w->logdir, name, 0700) != 0 && errno != EEXIST)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	return log_open_dir(w->logdir, name, ret_fd, err);
}

/* --- what they cosigned ------------------------------------------------------------------- */

/* The newest that each of them cosigned, by this file. True: nobody is left to be found. */
static bool
look_at(struct witnesses *w, struct str note)
{
	struct str text, sigs, line, all;
	struct checkpoint cp;
	uint64_t at_s;
	bool whole = true;

	if (!cosign_note_split(note, &text, &sigs) || checkpoint_parse_text(text, &cp, NULL) != 0)
		return false;
	for (size_t i = 0; i < w->n; i++) {
		struct one *o = &w->one[i];

		for (all = sigs; !o->cosigned && str_cut(&all, '\n', &line);) {
			if (cosign_line_check(line, &o->key, text, &at_s, NULL) != 1)
				continue;
			o->cosigned = true;
			o->size = cp.size;
			o->root = cp.root;
		}
		whole = whole && o->cosigned;
	}
	return whole;
}

static int
look_back(struct witnesses *w, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	int rc = log_files_list(w->logdir, LOG_WIT, "", NULL, &files, err);

	for (size_t k = 0; rc == 0 && k < files.n[0] && k < LOOK_BACK; k++) {
		AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
		char name[LOG_NAME_SIZE];

		log_name(name, files.number[0][files.n[0] - 1 - k], "");
		if (log_read_file(w->witdir, name, &note, NULL) == 0 && look_at(w, buf_str(&note)))
			break;
	}
	return rc;
}

int
wit_files_add(struct witnesses *w, const struct one *o, struct str line, struct err *err)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	char name[LOG_NAME_SIZE];

	log_name(name, o->asked_size, "");
	/* Beside those who cosigned this size before; what is there and is another is replaced. */
	if (log_read_file(w->witdir, name, &note, NULL) != 0 || note.n < o->note.n ||
	    memcmp(note.p, o->note.p, o->note.n) != 0) {
		buf_reset(&note);
		buf_put_str(&note, buf_str(&o->note));
	}
	buf_put_str(&note, line);
	buf_put_c(&note, '\n');
	if (buf_over(&note))
		return err_set(
		    err, ERR_TOO_LARGE, "wit/%s is over %zu bytes", name, CHECKPOINT_MAX);
	return files_replace(w->witdir, name, buf_str(&note), 0440, err);
}

bool
wit_files_proof(const struct witnesses *w, const struct one *o)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	char name[LOG_NAME_SIZE];
	const struct vkey *key;
	struct checkpoint cp;
	struct vkeys keys;

	key_trusted(w->store, &keys);
	log_name(name, o->size, "");
	return log_read_file(w->witdir, name, &note, NULL) == 0 &&
	       checkpoint_open(buf_str(&note), &keys, &cp, &key, NULL) == 0 && cp.size == o->size &&
	       hash_eq(&cp.root, &o->root);
}

/* --- what they refused -------------------------------------------------------------------- */

static void
evidence_name(char out[32], unsigned n)
{
	(void)snprintf(out, 32, "%02u", n);
}

/* A file that is there says that a witness refused; it stands until that one cosigns more. */
static void
take_evidence(struct witnesses *w, struct str text)
{
	struct str line, word, name = STR_NONE, kind = STR_NONE;
	bool proven = false;
	uint64_t size = 0;

	while (str_cut(&text, '\n', &line) && line.n != 0) {
		if (!str_cut(&line, ' ', &word))
			continue;
		if (str_eqz(word, "witness"))
			(void)str_cut(&line, '+', &name);
		else if (str_eqz(word, "kind"))
			kind = line;
		else if (str_eqz(word, "proven"))
			proven = true;
		else if (str_eqz(word, "size"))
			(void)str_to_u64(line, INT64_MAX, &size);
	}
	for (size_t i = 0; i < w->n; i++) {
		struct one *o = &w->one[i];

		if (!str_eqz(name, o->key.name) || size <= o->size)
			continue;
		o->conflict = str_eqz(kind, "rollback") ? CONFLICT_ROLLBACK : CONFLICT_FORK;
		o->proven = o->proven || proven;
		(void)snprintf(o->why, sizeof(o->why),
		    "it refused size %" PRIu64 " as a %s, before this start", size,
		    conflict_name(o->conflict));
	}
}

static void
read_evidence(struct witnesses *w)
{
	char name[32];

	for (unsigned n = 0; n < WITNESS_EVIDENCE_FILES; n++) {
		AUTO_BUF struct buf text = BUF(EVIDENCE_MAX);

		evidence_name(name, n);
		if (log_read_file(w->evdir, name, &text, NULL) == 0)
			take_evidence(w, buf_str(&text));
	}
}

static void
evidence_put(struct buf *b, const struct one *o, unsigned status, struct str answer)
{
	char now[CLOCK_TEXT_SIZE];

	clock_format(clock_wall_us(), now);
	buf_put_z(b, "cofferdam-log-evidence/1\nwitness ");
	cosigner_put(b, &o->key);
	buf_printf(b, "\nkind %s\nsize %" PRIu64 "\nstatus %u\ntime %s\nanswer ",
	    conflict_name(o->conflict), o->asked_size, status, now);
	enc_base64(b, answer);
	buf_put_z(b, o->proven ? "\nproven here\n\n" : "\n\n");
	buf_put_str(b, buf_str(&o->request));
}

int
wit_files_evidence(struct witnesses *w, const struct one *o, unsigned status, struct str answer,
    char ret_name[32], struct hash *ret_sha256, struct err *err)
{
	AUTO_BUF struct buf b = BUF(EVIDENCE_MAX);
	unsigned n = 0;

	evidence_put(&b, o, status, answer);
	*ret_sha256 = hash_sha256(buf_str(&b));
	for (; n < WITNESS_EVIDENCE_FILES; n++) {
		struct stat st;

		evidence_name(ret_name, n);
		if (fstatat(w->evdir, ret_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			break;
	}
	if (n == WITNESS_EVIDENCE_FILES) {
		ret_name[0] = '\0';
		return 0;
	}
	return files_replace(w->evdir, ret_name, buf_str(&b), 0400, err);
}

int
wit_files_open(struct witnesses *w, struct err *err)
{
	int rc = make_dir(w, LOG_WIT, &w->witdir, err);

	if (rc == 0)
		rc = make_dir(w, LOG_EVIDENCE, &w->evdir, err);
	if (rc == 0)
		rc = make_dir(w, LOG_SEG, &w->segdir, err);
	if (rc == 0)
		rc = files_sync(w->logdir, "the log directory", err);
	if (rc == 0)
		rc = look_back(w, err);
	if (rc == 0)
		read_evidence(w);
	return rc;
}
