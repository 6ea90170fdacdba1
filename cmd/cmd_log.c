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

#include "common/banned.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
} verbs[] = {
    {"verify", cmd_log_verify,
	"[--state DIR | DIR] [--keys FILE] [--pin CHECKPOINT]...\n"
	"                            [--deep] [--progress]"},
    {"show", cmd_log_show, "[--state DIR | DIR] [--run RUN] [--type TYPE] [--json]"},
    {"query", cmd_log_query,
	"[--state DIR | DIR] [--run RUN] [--agent AGENT] [--person PERSON]\n"
	"                           [--target TARGET] [--effect EFFECT] [--verdict VERDICT] "
	"[--rule RULE]\n"
	"                           [--type TYPE] [--status STATUS] [--action ID] [--id ID] [--src "
	"SRC]\n"
	"                           [--text WORDS] [--from TIME] [--to TIME] [--first SEQ] [--last "
	"SEQ]\n"
	"                           [--limit N] [--oldest] [--json] [--index FILE | --scan]"},
    {"index", cmd_log_index, "[--state DIR | DIR] [--index FILE] [--rebuild]"},
    {"export", cmd_log_export,
	"[--state DIR | DIR] [--format json|ocsf|otlp|lines] [--text]\n"
	"                           [--type TYPE]... [--from SEQ] [--output FILE] [--cursor "
	"NAME|PATH]\n"
	"                           [--follow] [--keys FILE]"},
    {"head", cmd_log_head, "[--state DIR | DIR] [--keys FILE]"},
    {"checkpoint", cmd_log_head, "[--state DIR | DIR] [--keys FILE]"},
    {"prove", cmd_log_prove,
	"SEQ [--state DIR | DIR] [--keys FILE] [--checkpoint FILE] [--line FILE]"},
    {"verify-proof", cmd_log_verify_proof, "FILE --keys FILE | --state DIR"},
    {"verify-receipt", cmd_log_verify_receipt, "RECEIPT [--state DIR | DIR] [--keys FILE]"},
    {"keys", cmd_log_keys, "[--state DIR | DIR] [--keys FILE]"},
    {"rotate-key", cmd_log_rotate_key, "[--state DIR] [--revoke REASON [--last SIZE]]"},
    {"prune", cmd_log_prune,
	"[--state DIR] --before TIME | --keep-days N | --before-seq SEQ\n"
	"                           [--yes --reason TEXT]   or   --cancel"},
    {"erase", cmd_log_erase,
	"[--state DIR] --subject run:ID | owner:PERSON | target:NAME\n"
	"                           --reason TEXT [--yes]"},
    {"reconcile", cmd_log_reconcile, "[--state DIR] [ACTION (--done | --not-done) --note TEXT]"},
};

int
log_usage(const char *verb)
{
	const char *lead = "usage:";

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (verb != NULL && strcmp(verb, verbs[i].name) != 0)
			continue;
		(void)fprintf(
		    stderr, "%-6s cofferdam log %s %s\n", lead, verbs[i].name, verbs[i].usage);
		lead = "";
	}
	return CMD_USAGE;
}

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
	return log_usage(NULL);
}
