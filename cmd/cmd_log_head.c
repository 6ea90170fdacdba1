/*
 * `cofferdam log head`, also called checkpoint: the newest checkpoint, as it is, to be kept
 * elsewhere and given to --pin one day. Runs as whoever may read the log. Prints none whose
 * signature does not hold.
 */
#include <stdio.h>

#include "audit/segment.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"

#include "common/banned.h"

struct head_args {
	const char *state, *dir, *vkey;
};

#define AT(f) offsetof(struct head_args, f)

static const struct option_row rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--keys", OPTION_TEXT, AT(vkey), 0, 0, "FILE", ARG_KEYS_IS},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE", NULL},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

int
log_newest(int logdir, const struct vkeys *keys, struct buf *note, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	AUTO_FD int dir = -1;
	const struct vkey *key;
	struct checkpoint cp;
	char name[LOG_NAME_SIZE];
	int r = log_files_list(logdir, LOG_CP, "", NULL, &files, err);

	if (r == 0)
		r = log_open_dir(logdir, LOG_CP, &dir, err);
	if (r != 0)
		return r;
	if (files.n[0] == 0)
		return err_set(err, ERR_NOT_FOUND, "the log has no checkpoint");
	log_name(name, files.number[0][files.n[0] - 1], "");
	r = log_read_file(dir, name, note, err);
	return r == 0 ? checkpoint_open(buf_str(note), keys, &cp, &key, err) : r;
}

int
cmd_log_head(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	struct head_args a = {0};
	struct vkeys keys;
	struct err err = {0};
	int r;

	if (!ARGS_READ("log head", rows, argc, argv, &a))
		return CMD_USAGE;
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0)
		return log_fail(&err);
	r = log_newest(place.logdir, &keys, &note, &err);
	if (r != 0)
		return r == ERR_NOT_FOUND ? ((void)log_fail(&err), LOG_OPEN_END) : log_fail(&err);
	(void)fwrite(note.p, 1, note.n, stdout);
	return CMD_OK;
}
