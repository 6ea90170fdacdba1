/*
 * `cofferdam log prove` makes the proof of one record as a file that stands alone;
 * `cofferdam log verify-proof` checks one, by public keys and without the log. Run as whoever may
 * read the log, and as anybody. What a record says never reaches the terminal unescaped.
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/proof.h"
#include "cmd/cmd.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"
#include "common/log.h"

#include "common/banned.h"

struct prove_args {
	const char *state, *vkey, *checkpoint, *line, *word, *dir;
};

/* WORD [DIR]: the record's number or the file. */
static bool
prove_args_read(int argc, char **argv, struct prove_args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"keys", required_argument, NULL, 'k'},
	    {"vkey", required_argument, NULL, 'k'},
	    {"checkpoint", required_argument, NULL, 'c'},
	    {"line", required_argument, NULL, 'l'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': a->state = optarg; break;
		case 'k': a->vkey = optarg; break;
		case 'c': a->checkpoint = optarg; break;
		case 'l': a->line = optarg; break;
		default: return false;
		}
	}
	if (optind < argc)
		a->word = argv[optind++];
	if (optind < argc)
		a->dir = argv[optind++];
	return a->word != NULL && optind == argc;
}

int
cmd_log_prove(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX), out = BUF(PROOF_MAX);
	AUTO_BUF struct buf line = BUF(RECORD_LINE_MAX);
	struct prove_args a = {0};
	struct err err = {0};
	struct vkeys keys;
	uint64_t seq;
	int r;

	if (!prove_args_read(argc, argv, &a) || !str_to_u64(str_z(a.word), INT64_MAX, &seq))
		return log_usage("prove");
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0)
		return log_fail(&err);
	r = a.checkpoint != NULL ? file_read(AT_FDCWD, a.checkpoint, &note, &err)
				 : log_newest(place.logdir, &keys, &note, &err);
	if (r == 0 && a.line != NULL)
		r = file_read(AT_FDCWD, a.line, &line, &err);
	if (r == 0)
		r = proof_make(
		    place.logdir, &keys, buf_str(&note), seq, buf_str(&line), &out, &err);
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

	if (!prove_args_read(argc, argv, &a) || a.checkpoint != NULL || a.line != NULL ||
	    a.dir != NULL || (a.vkey == NULL) == (a.state == NULL))
		return log_usage("verify-proof");
	if ((a.state != NULL && cmd_place_open(a.state, NULL, &place, &err) != 0) ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0 ||
	    file_read(AT_FDCWD, a.word, &file, &err) != 0)
		return log_fail(&err);
	if (proof_open(buf_str(&file), &keys, &body, &p, &err) != 0) {
		(void)err_wrap(&err, "%s", a.word);
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
