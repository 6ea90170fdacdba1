/*
 * `cofferdam log prove` makes the proof of one record as a file that stands alone;
 * `cofferdam log verify-proof` checks one, by public keys and without the log. Run as whoever may
 * read the log, and as anybody. What a record says never reaches the terminal unescaped.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/proof.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"
#include "common/log.h"

#include "common/banned.h"

struct prove_args {
	const char *state, *vkey, *checkpoint, *line, *file, *dir;
	uint64_t seq;
};

#define AT(f) offsetof(struct prove_args, f)

static const struct option_row prove_rows[] = {
    {"SEQ", OPTION_NUMBER | OPTION_WORD | OPTION_NEEDED, AT(seq), 0, INT64_MAX, NULL,
	"the record's number"},
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--checkpoint", OPTION_TEXT, AT(checkpoint), 0, 0, "FILE",
	"prove it against this one (default: the newest)"},
    {"--line", OPTION_TEXT, AT(line), 0, 0, "FILE",
	"the record's line as you have it, for one that was pruned"},
    {"--keys", OPTION_TEXT, AT(vkey), 0, 0, "FILE", ARG_KEYS_IS},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE", NULL},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

static const struct option_row verify_rows[] = {
    {"FILE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(file), 0, 0, NULL, "the proof"},
    {"--keys", OPTION_TEXT, AT(vkey), 0, 0, "FILE", "the log's keys; also --vkey"},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE", NULL},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

int
cmd_log_prove(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX), out = BUF(PROOF_MAX);
	AUTO_BUF struct buf line = BUF(RECORD_LINE_MAX);
	struct prove_args a = {0};
	struct err err = {0};
	struct vkeys keys;
	int r;

	if (!ARGS_READ("log prove", prove_rows, argc, argv, &a))
		return CMD_USAGE;
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0)
		return log_fail(&err);
	r = a.checkpoint != NULL ? file_read(AT_FDCWD, a.checkpoint, &note, &err)
				 : log_newest(place.logdir, &keys, &note, &err);
	if (r == 0 && a.line != NULL)
		r = file_read(AT_FDCWD, a.line, &line, &err);
	if (r == 0)
		r = proof_make(
		    place.logdir, &keys, buf_str(&note), a.seq, buf_str(&line), &out, &err);
	if (r != 0) {
		(void)log_fail(&err);
		return r == ERR_CONFIG || r == ERR_SYSTEM ? CMD_USAGE : CMD_FAILED;
	}
	(void)fwrite(out.p, 1, out.n, stdout);
	return CMD_OK;
}

int
cmd_log_verify_proof(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf file = BUF(PROOF_MAX), body = BUF(RECORD_BODY_MAX + 2);
	AUTO_FREE char *text = NULL;
	struct prove_args a = {0};
	struct err err = {0};
	struct vkeys keys;
	struct proof p;

	if (!ARGS_READ("log verify-proof", verify_rows, argc, argv, &a))
		return CMD_USAGE;
	if ((a.vkey == NULL) == (a.state == NULL))
		return args_wrong("log verify-proof", "give either --keys FILE or --state DIR");
	if ((a.state != NULL && cmd_place_open(a.state, NULL, &place, &err) != 0) ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0 ||
	    file_read(AT_FDCWD, a.file, &file, &err) != 0)
		return log_fail(&err);
	if (proof_open(buf_str(&file), &keys, &body, &p, &err) != 0) {
		(void)err_wrap(&err, "%s", a.file);
		if (err.code == ERR_TAMPER)
			(void)printf("TAMPER: %s\n", err.msg);
		return log_fail(&err);
	}
	text = log_vis(p.record.body);
	(void)printf("VERIFIED record %" PRIu64 " of %s, in its log of size %" PRIu64
		     " that this key signed\n%s\n",
	    p.record.seq, p.cp.origin, p.cp.size, text);
	return CMD_OK;
}
