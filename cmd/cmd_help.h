/* What `cofferdam COMMAND --help` prints. */
#ifndef CMD_CMD_HELP_H
#define CMD_CMD_HELP_H

#include <stdbool.h>

#include "cmd/cmd.h"

/*
 * The help of the command that argv names in one or two words ("log", "log verify"), or of
 * every command below the first word when the second is none; `run` is the first word's. False:
 * there is no such command.
 */
bool cmd_help(int argc, char **argv, int (*run)(int argc, char **argv));
/* The usage of one command, or of all below a first word, on standard error; CMD_USAGE. */
int cmd_usage(const char *words);
/* --help stands before any "--". */
bool cmd_help_asked(int argc, char **argv);

#endif
