/* A broker on another machine, reached by ssh: `--via ssh://[USER@]HOST[:PORT][/STATE-DIR]`. */
#ifndef CMD_CMD_VIA_H
#define CMD_CMD_VIA_H

#include <stdbool.h>

#include "common/err.h"

bool via_is(const char *state); /* such a URL, in place of a state directory */
/*
 * Takes the argument of --state (via false) or --via into *state. ERR_INVALID: no URL of ssh, or
 * the other of the two was given before.
 */
int via_place(const char **state, const char *arg, bool via, struct err *err);
/* The control socket over there; one ssh for the life of this process. The descriptor stays ours.
 */
int via_connect(const char *url, int *ret_fd, struct err *err);

#endif
