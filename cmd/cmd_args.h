/*
 * The options and the words of a command: its rows (common/option.h), and what commands have in
 * common. A row's `what` says what it is, where it must not be missing.
 */
#ifndef CMD_CMD_ARGS_H
#define CMD_CMD_ARGS_H

#include "common/cleanup.h"
#include "common/option.h"

enum {
	ARG_STATE = OPTION_OWN, /* const char *: a state directory; the same member as ARG_VIA */
	ARG_VIA,		/* const char *: a broker elsewhere (cmd_via.h) */
	ARG_MANY,		/* struct arg_many: all that come */
};

struct arg_many {
	size_t n;
	const char *v[64];
};

/*
 * Reads argv[1] to argv[argc - 1] into *to, whose members stay as they are where nothing is given.
 * groups: whose rows count besides everybody's. Options may stand behind words, as `--name value`
 * or `--name=value`, and be cut short where that leaves one; behind "--" all are words. False, and
 * said on standard error with the usage of `command` ("log head"): what is wrong, with the option,
 * its value and what is wanted.
 */
bool args_read(const char *command, const struct option_row *rows, size_t nrows, unsigned groups,
    int argc, char **argv, void *to);
#define ARGS_READ(command, rows, argc, argv, to) \
	args_read(command, rows, ARRAY_LEN(rows), 0, argc, argv, to)

/* Says what is wrong with them beyond that, made visible, and the usage; CMD_USAGE. */
int args_wrong(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
