/*
 * Cosignatures of a log that was verified. Runs in the command line; links nothing that signs.
 * Whoever can write to the directory could have put anything there: a line counts when it holds
 * under its witness' key, of a head that the log holds, and one that does not hold is a finding.
 */
#include "audit/verify_witness.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/handover.h"
#include "audit/segment.h"

#include "common/banned.h"

static void
found(struct verdict *v, uint64_t number, const char *why)
{
	struct log_fault f = {.kind = LOG_KIND_CHECKPOINT, .seq = number, .last = number};

	(void)snprintf(f.text, sizeof(f.text), "wit/%020" PRIu64 ": %.100s", number, why);
	verdict_fault(v, &f);
}

static void
look_at(struct verdict *v, const struct cosigners *who, struct str note, uint64_t size)
{
	struct str text, sigs, line;

	if (!cosign_note_split(note, &text, &sigs))
		return;
	while (str_cut(&sigs, '\n', &line))
		for (size_t i = 0; i < who->n; i++) {
			struct witnessed *w = &v->witnessed[i];
			struct err why = {0};
			uint64_t at_s = 0;
			int rc = cosign_line_check(line, &who->key[i], text, &at_s, &why);

			if (rc < 0)
				found(v, size, why.msg);
			if (rc != 1 || size > v->verified || size < w->size)
				continue;
			w->size = size;
			w->time_s = at_s;
		}
}

static int
look_at_all(int logdir, const struct vkeys *keys, const struct cosigners *who, struct verdict *v,
    struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	AUTO_FD int dir = -1;
	int r = log_open_dir(logdir, LOG_WIT, &dir, err);

	if (r == 0)
		r = log_files_list(logdir, LOG_WIT, "", NULL, &files, err);
	for (size_t i = 0; r == 0 && i < files.n[0]; i++) {
		AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
		char name[LOG_NAME_SIZE];
		const struct vkey *key;
		struct checkpoint cp;

		/* What is no head was found by verify_log(). */
		log_name(name, files.number[0][i], "");
		if (log_read_file(dir, name, &note, NULL) == 0 &&
		    checkpoint_open(buf_str(&note), keys, &cp, &key, NULL) == 0 &&
		    cp.size == files.number[0][i])
			look_at(v, who, buf_str(&note), cp.size);
	}
	return r;
}

int
verify_witnesses(int logdir, const struct vkeys *keys, const struct cosigners *who,
    struct verdict *v, struct err *err)
{
	const struct cosigners *of = who->n != 0 ? who : &v->own;
	struct vkeys all = *keys;
	int r;

	v->own_word = who->n == 0;
	v->nwitnessed = of->n;
	for (size_t i = 0; i < of->n; i++)
		(void)snprintf(
		    v->witnessed[i].name, sizeof(v->witnessed[i].name), "%s", of->key[i].name);
	if (of->n == 0)
		return 0;
	r = handovers_follow(logdir, &all, NULL, NULL, err);
	return r != 0 ? r : log_or_none(look_at_all(logdir, &all, of, v, err), err);
}
