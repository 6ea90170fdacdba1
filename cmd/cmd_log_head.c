/*
 * `cofferdam log head`, also called checkpoint: the newest checkpoint, as it is, to be kept
 * elsewhere and given to --pin one day. Runs as whoever may read the log. Prints none whose
 * signature does not hold.
 */
#include <getopt.h>
#include <stdio.h>

#include "audit/segment.h"
#include "cmd/cmd.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"

#include "common/banned.h"

struct head_args {
	const char *state, *dir, *vkey;
};

static bool
head_args_read(int argc, char **argv, struct head_args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"keys", required_argument, NULL, 'k'},
	    {"vkey", required_argument, NULL, 'k'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': a->state = optarg; break;
		case 'k': a->vkey = optarg; break;
		default: return false;
		}
	}
	if (optind < argc)
		a->dir = argv[optind++];
	return optind == argc;
}

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

	if (!head_args_read(argc, argv, &a))
		return log_usage(argv[0]);
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0)
		return log_fail(&err);
	r = log_newest(place.logdir, &keys, &note, &err);
	if (r != 0)
		return r == ERR_NOT_FOUND ? ((void)log_fail(&err), LOG_OPEN_END) : log_fail(&err);
	(void)fwrite(note.p, 1, note.n, stdout);
	return CMD_OK;
}
