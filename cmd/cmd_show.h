/* Text of others on a terminal: encoded, and never wider than its place. */
#ifndef CMD_CMD_SHOW_H
#define CMD_CMD_SHOW_H

#include "common/str.h"

/* Encoded, on one line, of at most so many columns; the caller frees. */
char *show_cut(struct str s, size_t columns);
/*
 * Line by line, each behind "    | " and broken where the terminal would break it, so that no part
 * of it can stand at the left and pass for what this program says.
 */
void show_block(struct str text);

#endif
