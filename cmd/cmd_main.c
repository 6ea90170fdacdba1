/*
 * cofferdam-cmd: what `cofferdam` becomes for all but `sandbox` and `doctor`, which that small
 * program (agent/sandbox/cli_main.c) does itself. Runs as the person who types it; holds no
 * credential and decides nothing: it signs with the person's own key, asks the broker, verifies,
 * replays.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_help.h"
#include "common/log.h"
#include "common/streams.h"

#include "common/banned.h"

#define COFFERDAM_VERSION "0.1.0"

static const struct cmd cmds[] = {
    {"init", cmd_init, NULL, "make a state directory"},
    {"credential", cmd_credential, NULL, "what the vault holds"},
    {"key", cmd_key, NULL, "a signing key for who has none of SSH"},
    {"policy", cmd_policy, NULL, "check, build and try a policy"},
    {"run", cmd_run, NULL, "run an agent or a command"},
    {"profile", cmd_profile, NULL, "what run tells agents that people already use"},
    {"sandboxd", cmd_sandboxd, NULL, "sandboxes for E2B's SDKs"},
    {"mcp", cmd_mcp, NULL, "the sandbox as tools for any agent that speaks MCP"},
    {"sandbox", NULL, NULL, "any command in a sandbox, without a broker"},
    {"doctor", NULL, NULL, "what this host has for a sandbox"},
    {"status", cmd_status, NULL, "the broker, its policy and its runs"},
    {"pending", cmd_pending, NULL, "requests that wait for people"},
    {"show", cmd_show, NULL, "one request, the action in full"},
    {"approve", cmd_approve, NULL, "sign for a request"},
    {"deny", cmd_approve, NULL, "end a request"},
    {"answer", cmd_answer, NULL, "what a run's agent asks"},
    {"revoke", cmd_revoke, NULL, "end a run at once, or a request"},
    {"attach", cmd_attach, NULL, "watch a run as it goes"},
    {"pause", cmd_steer, NULL, "hold a run: its code stands still, no turn begins"},
    {"resume", cmd_steer, NULL, "let a paused run go on"},
    {"message", cmd_steer, NULL, "tell a run's model something"},
    {"stop", cmd_steer, NULL, "end a run in order"},
    {"freeze", cmd_freeze, NULL, "stop changes now; two people lift it"},
    {"exception", cmd_exception, NULL, "let one rule's refusals pass, signed"},
    {"breakglass", cmd_breakglass, NULL, "in an emergency, reviewed afterwards"},
    {"invite", cmd_invite, NULL, "let a person enrol a passkey for the console"},
    {"control-pipe", cmd_control_pipe, NULL, "the broker's end of --via, for sshd"},
    {"run-end", cmd_run_end, NULL, "end a run now: nothing more of it passes"},
    {"log", cmd_log, NULL, "check and print the decision log"},
    {"witness", cmd_witness, NULL, "cosign the heads of other logs"},
    {"replay", cmd_replay, NULL, "the decision path, and what another policy says"},
};

static void
print_usage(FILE *f)
{
	(void)fprintf(f, "usage: cofferdam COMMAND [--state DIR] [ARGUMENTS]\n\n");
	for (size_t i = 0; i < ARRAY_LEN(cmds); i++)
		(void)fprintf(f, "  %-12s %s\n", cmds[i].name, cmds[i].summary);
	(void)fprintf(f, "  %-12s %s\n\nEach takes --help. See cofferdam(1).\n", "version",
	    "print the version");
}

static const struct cmd *
find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(cmds); i++)
		if (cmds[i].run != NULL && strcmp(cmds[i].name, name) == 0)
			return &cmds[i];
	return NULL;
}

/* argv[0] is the command. */
static int
command(int argc, char **argv, bool help)
{
	const struct cmd *c = find(argv[0]);

	if (c != NULL && !help)
		return c->run(argc, argv);
	if (c != NULL && cmd_help(argc, argv, c->run))
		return CMD_OK;
	(void)fprintf(
	    stderr, "cofferdam: there is no command \"%s\"; see `cofferdam help`\n", argv[0]);
	return CMD_USAGE;
}

/* What was said did not arrive: that is no success. Whoever closed a pipe has what they wanted. */
static int
said(int rc)
{
	struct stat st;
	bool failed = fflush(stdout) != 0;

	if ((!failed && ferror(stdout) == 0) || fstat(STDOUT_FILENO, &st) != 0 ||
	    S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
		return rc;
	log_error("standard output: cannot be written%s%s", failed ? ": " : "",
	    failed ? strerror(errno) : "");
	return rc == CMD_OK ? CMD_USAGE : rc;
}

int
main(int argc, char **argv)
{
	streams_open();
	(void)signal(SIGPIPE, SIG_IGN);
	log_init("cofferdam", LOG_WARN_);
	if (argc < 2) {
		print_usage(stderr);
		return CMD_USAGE;
	}
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
	    strcmp(argv[1], "-h") == 0) {
		if (argc > 2)
			return said(command(argc - 2, argv + 2, true));
		print_usage(stdout);
		return said(CMD_OK);
	}
	if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
		(void)printf("cofferdam %s\n", COFFERDAM_VERSION);
		return said(CMD_OK);
	}
	return said(command(argc - 1, argv + 1, cmd_help_asked(argc - 1, argv + 1)));
}
