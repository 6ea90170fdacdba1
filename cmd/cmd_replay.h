/* Parts of `cofferdam replay`. */
#ifndef CMD_CMD_REPLAY_H
#define CMD_CMD_REPLAY_H

#include "cmd/cmd_place.h"

int replay_timeline(int argc, char **argv); /* cmd_replay_timeline.c */
int replay_whatif(int argc, char **argv);   /* cmd_replay_whatif.c */
int replay_report(int argc, char **argv);
int replay_rerun(int argc, char **argv); /* cmd_replay_report.c */
/* keys/blob of the place, or -1. */
int replay_keysdir(const struct cmd_place *p);
int replay_fail(const struct err *err);
#define REPLAY_OUT_MAX ((size_t)1 << 30)
/* A new file in the place of an old one, whole or not at all, and not in the log of that place; `-`
 * is standard output. */
int replay_write(const struct cmd_place *p, const char *path, const struct buf *b, struct err *err);

#endif
