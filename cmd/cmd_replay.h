/* Parts of `cofferdam replay`. */
#ifndef CMD_CMD_REPLAY_H
#define CMD_CMD_REPLAY_H

#include "cmd/cmd_place.h"

struct replay_args {
	const char *state, *vkey, *policy, *run;
	bool full, all;
};
int replay_whatif(const struct replay_args *a); /* cmd_replay_whatif.c */
/* keys/blob of the place, or -1. */
int replay_keysdir(const struct cmd_place *p);
int replay_fail(const struct err *err);

#endif
