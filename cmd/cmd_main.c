/*
 * The `cofferdam` command. Runs as the person who types it; holds no credential and
 * decides nothing: it signs with the person's own key, asks the broker, verifies, replays.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "common/log.h"

#include "common/banned.h"

#define COFFERDAM_VERSION "0.1.0"

static const struct cmd cmds[] = {
    {"init", cmd_init, "--state DIR --origin NAME [--policy FILE]", "make a state directory"},
    {"credential", cmd_credential, "add|list|remove [NAME] ...", "what the vault holds"},
    {"policy", cmd_policy, "check|build|test|explain|calendar ...",
	"check, build and try a policy"},
    {"run", cmd_run, "[--task TEXT --script FILE | -- COMMAND...]", "run an agent or a command"},
    {"sandbox", cmd_sandbox, "exec [OPTIONS] -- COMMAND...", "the sandbox alone"},
    {"status", cmd_status, "", "the broker, its policy and its runs"},
    {"pending", cmd_pending, "[--json]", "requests that wait for people"},
    {"show", cmd_show, "ID", "one request, the action in full"},
    {"approve", cmd_approve, "ID --as PERSON [--key FILE] [--role ROLE]", "sign for a request"},
    {"deny", cmd_approve, "ID --as PERSON [--key FILE]", "end a request"},
    {"revoke", cmd_approve, "ID --as PERSON [--key FILE]", "take a signature back"},
    {"run-end", cmd_run_end, "RUN", "end a run now: nothing more of it passes"},
    {"log", cmd_log, "verify|show|head ...", "check and print the decision log"},
    {"replay", cmd_replay, "timeline|whatif ...",
	"the decision path, and what another policy says"},
};

static void
print_usage(FILE *f)
{
	(void)fprintf(f, "usage: cofferdam COMMAND [--state DIR] [ARGUMENTS]\n\n");
	for (size_t i = 0; i < ARRAY_LEN(cmds); i++)
		(void)fprintf(f, "  %-11s %s\n", cmds[i].name, cmds[i].summary);
	(void)fprintf(f, "  %-11s %s\n\nSee cofferdam(1).\n", "version", "print the version");
}

static int
print_help(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(cmds); i++) {
		if (strcmp(cmds[i].name, name) != 0)
			continue;
		(void)printf(
		    "usage: cofferdam %s %s\n%s\n", cmds[i].name, cmds[i].usage, cmds[i].summary);
		return CMD_OK;
	}
	(void)fprintf(stderr, "cofferdam: there is no command \"%s\"\n", name);
	return CMD_USAGE;
}

int
main(int argc, char **argv)
{
	(void)signal(SIGPIPE, SIG_IGN);
	log_init("cofferdam", LOG_WARN_);
	if (argc < 2) {
		print_usage(stderr);
		return CMD_USAGE;
	}
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
	    strcmp(argv[1], "-h") == 0) {
		if (argc > 2)
			return print_help(argv[2]);
		print_usage(stdout);
		return CMD_OK;
	}
	if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
		(void)printf("cofferdam %s\n", COFFERDAM_VERSION);
		return CMD_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(cmds); i++) {
		if (strcmp(cmds[i].name, argv[1]) != 0)
			continue;
		if (argc == 3 && strcmp(argv[2], "--help") == 0)
			return print_help(argv[1]);
		return cmds[i].run(argc - 1, argv + 1);
	}
	(void)fprintf(
	    stderr, "cofferdam: there is no command \"%s\"; see `cofferdam help`\n", argv[1]);
	return CMD_USAGE;
}
