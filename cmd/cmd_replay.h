/* Parts of `cofferdam replay`. */
#ifndef CMD_CMD_REPLAY_H
#define CMD_CMD_REPLAY_H

#include "cmd/cmd_place.h"

int replay_whatif(int argc, char **argv); /* cmd_replay_whatif.c */
/* keys/blob of the place, or -1. */
int replay_keysdir(const struct cmd_place *p);
int replay_fail(const struct err *err);

#endif
