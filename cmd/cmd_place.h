/* Where a log to be read lies: a state directory or a log directory, and the keys to trust. */
#ifndef CMD_CMD_PLACE_H
#define CMD_CMD_PLACE_H

#include "audit/checkpoint.h"
#include "cmd/cmd_file.h"

struct cmd_place {
	int statedir; /* -1: only a log directory was given */
	int logdir;
};
/* dir (may be NULL) is a state directory or a log directory; state (may be NULL) the former. */
int cmd_place_open(const char *state, const char *dir, struct cmd_place *ret, struct err *err);
void cmd_place_close(struct cmd_place *p);
#define AUTO_PLACE __attribute__((cleanup(cmd_place_close)))
/*
 * The directory of a file that is to be written, by open(2) with these flags. ERR_CONFIG: there is
 * none, or it is the log or a directory of the log, where the file would be foreign to every
 * verifier, or destroy what is there.
 */
int cmd_place_outside(
    const struct cmd_place *p, const char *file, int flags, int *ret_dir, struct err *err);
/* Keys of `file`, or of the state directory when NULL, and those that they handed over to. */
int cmd_place_keys(const struct cmd_place *p, const char *file, struct vkeys *ret, struct err *err);
/*
 * The newest head that one of these keys signed, of all that the log has; ERR_NOT_FOUND: it has
 * none. Where it is by no key of them, they are read anew: the key may have changed since.
 */
int cmd_place_newest(const struct cmd_place *p, const char *file, struct vkeys *keys,
    struct checkpoint *ret, struct err *err);
/* The one in the file `checkpoint` alone, which may lag by a second: for who asks often. */
int cmd_place_head(const struct cmd_place *p, const char *file, struct vkeys *keys,
    struct checkpoint *ret, struct err *err);

#endif
