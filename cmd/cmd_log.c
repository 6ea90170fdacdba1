/*
 * `cofferdam log`: a table of verbs. Runs as whoever wants to know; reads a log and public keys,
 * what a verb needs beyond that its own file says. Everything printed may have been written by an
 * agent: control characters never reach the terminal.
 */
#include "cmd/cmd_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/segment.h"
#include "cmd/cmd.h"
#include "cmd/cmd_help.h"

#include "common/banned.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} verbs[] = {
    {"verify", cmd_log_verify},
    {"show", cmd_log_show},
    {"query", cmd_log_query},
    {"index", cmd_log_index},
    {"export", cmd_log_export},
    {"head", cmd_log_head},
    {"checkpoint", cmd_log_head},
    {"prove", cmd_log_prove},
    {"verify-proof", cmd_log_verify_proof},
    {"verify-receipt", cmd_log_verify_receipt},
    {"keys", cmd_log_keys},
    {"rotate-key", cmd_log_rotate_key},
    {"prune", cmd_log_prune},
    {"erase", cmd_log_erase},
    {"reconcile", cmd_log_reconcile},
};

int
log_fail(const struct err *err)
{
	(void)fprintf(stderr, "cofferdam: %s\n", err->msg);
	return err->code == ERR_TAMPER ? CMD_FAILED : CMD_USAGE;
}

void
log_say_pruned(int logdir)
{
	AUTO_LOG_FILES struct log_files seg = {0};

	if (log_files_list(logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &seg, NULL) == 0 &&
	    seg.n[0] != 0 && seg.number[0][0] != 0)
		(void)fprintf(stderr,
		    "cofferdam: records before %" PRIu64
		    " were pruned: all but a few of them are not here\n",
		    seg.number[0][0]);
}

int
cmd_log(int argc, char **argv)
{
	for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(verbs); i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	return cmd_usage("log");
}
