/*
 * Finds the log that `cofferdam log` and `cofferdam replay` read. Runs as the person who asks;
 * opens for reading only. Which keys are trusted is the caller's choice: those of the state
 * directory prove nothing against whoever could write there, --vkey and --pin do.
 */
#include "cmd/cmd_place.h"
#include "cmd/cmd_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/handover.h"
#include "audit/segment.h"

#include "common/banned.h"

#define KEYS_FIRST "keys/log/first" /* there once a key has changed */
#define KEYS_NOW "keys/log/vkey"

static int
open_dir(const char *path, int *ret, struct err *err)
{
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_sys(err, ERR_CONFIG, errno, "%s", path) : 0;
}

int
cmd_place_open(const char *state, const char *dir, struct cmd_place *ret, struct err *err)
{
	AUTO_FD int top = -1, log = -1;
	int r;

	if (dir == NULL)
		dir = state != NULL ? state : CMD_STATE_DEFAULT;
	else if (state != NULL)
		return err_set(err, ERR_CONFIG, "give --state or a directory, not both");
	if ((r = open_dir(dir, &top, err)) != 0)
		return r;
	if (faccessat(top, LOG_SEG, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    faccessat(top, LOG_CP, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		*ret = (struct cmd_place){.statedir = -1, .logdir = TAKE_FD(top)};
		return 0;
	}
	if (log_open_dir(top, "log", &log, err) != 0) {
		(void)err_wrap(err, "%s", dir);
		return ERR_CONFIG;
	}
	*ret = (struct cmd_place){.statedir = TAKE_FD(top), .logdir = TAKE_FD(log)};
	return 0;
}

int
cmd_place_outside(
    const struct cmd_place *p, const char *file, int flags, int *ret_dir, struct err *err)
{
	const char *slash = strrchr(file, '/');
	AUTO_FREE char *path =
	    str_dup(slash == NULL ? STR(".") : str_mem(file, (size_t)(slash - file) + 1));
	AUTO_FD int dir = open(path, flags | O_DIRECTORY | O_CLOEXEC);
	struct stat log, at[2];

	if (dir < 0 || fstat(p->logdir, &log) != 0 || fstatat(dir, ".", &at[0], 0) != 0 ||
	    fstatat(dir, "..", &at[1], 0) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s: its directory", file);
	for (size_t i = 0; i < ARRAY_LEN(at); i++)
		if (at[i].st_dev == log.st_dev && at[i].st_ino == log.st_ino)
			return err_set(err, ERR_CONFIG,
			    "%s lies in the log directory, must lie elsewhere", file);
	*ret_dir = TAKE_FD(dir);
	return 0;
}

void
cmd_place_close(struct cmd_place *p)
{
	cleanup_close_fd(&p->statedir);
	cleanup_close_fd(&p->logdir);
}

static int
read_keys(const struct cmd_place *p, const char *file, struct vkeys *ret, struct err *err)
{
	static const char *const own[] = {KEYS_FIRST, KEYS_NOW};
	AUTO_BUF struct buf text = BUF(65536);

	if (file != NULL) {
		int r = file_read(AT_FDCWD, file, &text, err);

		return r != 0 ? r : vkeys_parse(buf_str(&text), file, ret, err);
	}
	if (p->statedir < 0)
		return err_set(err, ERR_CONFIG, "a log directory alone needs --vkey FILE");
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		int r = log_read_file(p->statedir, own[i], &text, err);

		if (r == 0)
			return vkeys_parse(buf_str(&text), own[i], ret, err);
		if (r != ERR_NOT_FOUND)
			break;
	}
	(void)err_wrap(err, "%s", KEYS_NOW);
	return ERR_CONFIG;
}

/* What a handover says that does not hold is for `log verify` to tell; nothing is believed of it.
 */
int
cmd_place_keys(const struct cmd_place *p, const char *file, struct vkeys *ret, struct err *err)
{
	int r = read_keys(p, file, ret, err);

	return r != 0 || p->logdir < 0 ? r : handovers_follow(p->logdir, ret, NULL, NULL, err);
}

/* --- heads ---------------------------------------------------------------------------------- */

/* One file of the log. ERR_NOT_FOUND: it is not there. */
static int
read_head(const struct cmd_place *p, const char *file, const char *name, struct vkeys *keys,
    struct checkpoint *ret, struct err *err)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	const struct vkey *key;
	int r = log_read_file(p->logdir, name, &note, err);

	if (r != 0)
		return r;
	r = checkpoint_open(buf_str(&note), keys, ret, &key, err);
	if (r == ERR_CONFIG && cmd_place_keys(p, file, keys, NULL) == 0) {
		err_clear(err);
		r = checkpoint_open(buf_str(&note), keys, ret, &key, err);
	}
	return r == 0 ? 0 : err_wrap(err, "%s", name);
}

/* The one with the largest number. */
static int
newest_in(const struct cmd_place *p, const char *sub, const char *file, struct vkeys *keys,
    struct checkpoint *ret, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	char number[LOG_NAME_SIZE], name[LOG_NAME_SIZE + 8];
	int r = log_files_list(p->logdir, sub, "", NULL, &files, err);
	uint64_t size;

	if (r != 0)
		return r;
	if (files.n[0] == 0)
		return err_set(err, ERR_NOT_FOUND, "%s is empty", sub);
	size = files.number[0][files.n[0] - 1];
	log_name(number, size, "");
	(void)snprintf(name, sizeof(name), "%s/%s", sub, number);
	r = read_head(p, file, name, keys, ret, err);
	if (r == 0 && ret->size != size)
		r = err_set(err, ERR_TAMPER, "%s: is for size %" PRIu64, name, ret->size);
	return r;
}

int
cmd_place_head(const struct cmd_place *p, const char *file, struct vkeys *keys,
    struct checkpoint *ret, struct err *err)
{
	return read_head(p, file, LOG_CHECKPOINT, keys, ret, err);
}

int
cmd_place_newest(const struct cmd_place *p, const char *file, struct vkeys *keys,
    struct checkpoint *ret, struct err *err)
{
	static const char *const subs[] = {LOG_CP, LOG_WIT, NULL};
	bool found = false;

	for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
		struct checkpoint cp;
		int r = subs[i] != NULL ? newest_in(p, subs[i], file, keys, &cp, err)
					: cmd_place_head(p, file, keys, &cp, err);

		if (r != 0 && r != ERR_NOT_FOUND)
			return r;
		if (r == 0 && (!found || cp.size > ret->size))
			*ret = cp;
		found |= r == 0;
		err_clear(err);
	}
	return found ? 0 : err_set(err, ERR_NOT_FOUND, "the log has no checkpoint");
}
