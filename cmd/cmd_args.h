/*
 * The options and the words of a command: its rows (common/option.h), and what commands have in
 * common. Its help is made of the same rows.
 */
#ifndef CMD_CMD_ARGS_H
#define CMD_CMD_ARGS_H

#include "cmd/cmd_file.h"
#include "common/cleanup.h"
#include "common/option.h"

enum {
	ARG_STATE = OPTION_OWN, /* const char *: a state directory; the same member as ARG_VIA */
	ARG_VIA,		/* const char *: a broker elsewhere (cmd_via.h) */
	ARG_MANY,		/* struct arg_many: all that come */
	ARG_WORD_OF,		/* unsigned: which of arg, as "json|ocsf|lines" */
	ARG_SET,		/* unsigned: becomes min; with OPTION_BARE */
	ARG_TIME,		/* int64_t: an instant or a day, in us */
	ARG_SINCE,		/* the same, or how long ago (cmd_time.h) */
	ARG_UNTIL,		/* of a day its end */
};

/* What rows of many commands are, for help. */
#define ARG_STATE_IS "state directory (default: " CMD_STATE_DEFAULT ")"
#define ARG_VIA_IS "a broker elsewhere: ssh://[USER@]HOST[:PORT][/STATE-DIR]"
#define ARG_LOG_IS "a state directory or a log directory, instead of --state"
#define ARG_KEYS_IS "keys to trust (default: those of the state directory); also --vkey"
#define ARG_KEY_IS \
	"that person's key, of SSH or of `cofferdam key new` (default: ~/.ssh/id_ed25519)"
#define ARG_RUN_IS "the run, as `cofferdam status` prints it"
#define ARG_POLICY_IS "a policy"
#define ARG_POLICY_OR_BUNDLE_IS "a policy or a bundle"
#define ARG_CASES_IS "FILE holds \"policy\" and \"cases\" together"
#define ARG_AT_IS "as if it were then, 2026-12-24T12:00:00Z or 2026-12-24 (default: now)"
#define ARG_PROGRAMS_IS "for programs"
#define ARG_JSON_IS "as the broker says it"

#define ARG_MANY_MAX 64
struct arg_many {
	size_t n;
	const char *v[ARG_MANY_MAX];
};

/*
 * Reads argv[1] to argv[argc - 1] into *to, whose members stay as they are where nothing is given.
 * groups: whose rows count besides everybody's. Options may stand behind words, as `--name value`
 * or `--name=value`, and be cut short where that leaves one; behind "--" all are words. False, and
 * said on standard error with the usage of `command` ("log head"): what is wrong, with the option,
 * its value and what is wanted. Where --help is among them the rows are printed, and false.
 */
bool args_read(const char *command, const struct option_row *rows, size_t nrows, unsigned groups,
    int argc, char **argv, void *to);
#define ARGS_READ(command, rows, argc, argv, to) \
	args_read(command, rows, ARRAY_LEN(rows), 0, argc, argv, to)

/* Says what is wrong with them beyond that, made visible, and the usage; CMD_USAGE. */
int args_wrong(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
