/*
 * `cofferdam sandbox`: the table of its subcommands and their help (the command line, as the person
 * who types it).
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "agent/sandbox/call.h"
#include "agent/sandbox/cli.h"
#include "agent/sandbox/inside.h"

#include "common/banned.h"

static const struct command {
	const char *name, *summary;
	cli_fn *run;
	unsigned groups;   /* of options */
	unsigned min, max; /* words */
	const char *args, *what;
	bool command; /* takes one behind "--" */
} commands[] = {
    {"exec", "one command, in a fresh sandbox or one that is there", cli_exec, CLI_SPEC | CLI_EXEC,
	0, CLI_WORDS_MAX, "[options] -- COMMAND...",
	"Run one command in a fresh sandbox, which needs no broker and has no network, or with "
	"--in\n"
	"in one that is there. Ends with the command's status; 124 time, 125 memory, output or "
	"disk,\n"
	"126 no sandbox or a program that cannot be executed, 127 no such command, 128 + N signal "
	"N.",
	true},
    {"create", "build one that stays", cli_create_named, CLI_SPEC | CLI_CREATE, 1, 1,
	"NAME [options]",
	"Build a sandbox that goes on by itself; it ends with its time (--limit wall), or when "
	"nobody\n"
	"was there for --limit linger seconds. NAME: up to 40 small letters, digits and -.",
	false},
    {"list", "those that there are", cli_list, CLI_JSON, 0, 0, "[--json]", "Your sandboxes.",
	false},
    {"inspect", "what holds in one, and what it uses", cli_inspect, CLI_JSON, 1, 1, "NAME [--json]",
	"What holds, limits, what is used of them, programs, refused system calls.", false},
    {"attach", "a shell in it", cli_shell, CLI_PROG, 1, 1, "NAME [options] [-- COMMAND...]",
	"A shell in it, with your terminal.", true},
    {"spawn", "start a program that goes on", cli_spawn, CLI_PROG | CLI_SPAWN, 1, 1,
	"NAME [options] -- COMMAND...",
	"Start a program that goes on; prints its number. The last MiB of its output is kept.",
	true},
    {"ps", "its programs", cli_ps, CLI_JSON, 1, 1, "NAME [--json]",
	"Its programs, also the last 64 that ended, and each that left something in the "
	"background.",
	false},
    {"logs", "what a program wrote", cli_logs, CLI_LOGS, 2, 2, "NAME PROC [--follow]",
	"What a program of `spawn` wrote.", false},
    {"wait", "wait for a program's end", cli_wait, CLI_WAIT, 2, 2, "NAME PROC [--timeout S]",
	"Wait for the end of a program; its status, as that of exec.", false},
    {"input", "give a program standard input", cli_input, CLI_INPUT, 2, 2, "NAME PROC [--close]",
	"Standard input to that of a program begun with --input or --tty.", false},
    {"signal", "send a program a signal", cli_signal, 0, 3, 3, "NAME PROC SIGNAL",
	"Send it a signal, by name (TERM) or number.", false},
    {"kill", "end a program, or the sandbox", cli_kill, 0, 1, 2, "NAME [PROC]",
	"End a program and all that came from it, also what one that has ended left in the "
	"background;\n"
	"or the sandbox.",
	false},
    {"pause", "stop everything in it", cli_pause, 0, 1, 1, "NAME",
	"Nothing in it runs until resume, and its time stands still, too; for a day at most: then "
	"its\n"
	"time goes on, though nothing runs.",
	false},
    {"resume", "go on after pause", cli_resume, 0, 1, 1, "NAME", "Go on after pause.", false},
    {"extend", "give it another time", cli_extend, 0, 2, 2, "NAME SECONDS",
	"It ends in so many seconds from now, 1 to 86400, whatever was said before. A paused one: "
	"from\n"
	"its resume, as its time stands still, for a day at most.",
	false},
    {"network", "targets that come and go", cli_network, CLI_NET, 1, 1,
	"NAME [--add T]... [--drop T]... [-- COMMAND...]",
	"Change its targets. COMMAND runs here and gets the listeners that --add makes as "
	"descriptors\n"
	"3, 4 ..., with LISTEN_FDS and LISTEN_PID as sd_listen_fds(3) reads them; without a "
	"command\n"
	"nobody answers there.",
	true},
    {"files", "read, write, list, watch its files", cli_files, CLI_FILES, 2, 4,
	"VERB NAME [PATH] [TO]",
	"read (to standard output), write (from standard input), list, stat, mkdir, rename, remove "
	"or\n"
	"watch. Paths are absolute inside, or of /work (only list needs none: /work itself); "
	"rename "
	"wants\n"
	"TO; list, stat and watch print JSON.",
	false},
    {"snapshot", "keep its /work", cli_snapshot, CLI_MAX, 2, 2, "NAME FILE",
	"/work into a new file, for restore; - is standard output.", false},
    {"restore", "bring its /work back", cli_restore, 0, 2, 2, "NAME FILE",
	"/work becomes what the snapshot holds, whole or not at all: there must be room for\n"
	"both meanwhile. A cut or damaged one changes nothing. - is standard input.",
	false},
    {"code", "cells in one interpreter", cli_code, CLI_CODE, 1, 1, "NAME [--language L]",
	"Run cells of code in one interpreter, which keeps its variables until the end: standard\n"
	"input, parted by lines of ---. Ends with 1 when the last cell failed.",
	false},
};

static void
print_usage(FILE *f)
{
	(void)fprintf(f, "usage: cofferdam sandbox COMMAND [ARGUMENTS]\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		(void)fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].summary);
	(void)fprintf(f, "\nEach takes --help. See cofferdam(1).\n");
}

static void
print_help(const struct command *c)
{
	(void)printf("usage: cofferdam sandbox %s %s\n%s\n", c->name, c->args, c->what);
	cli_options_help(c->groups);
}

static bool
is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool
help_asked(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (is_help(argv[i]))
			return true;
	return false;
}

static int
words_check(const struct command *k, const struct cli *c, struct err *err)
{
	if (c->nwords > k->max)
		return err_set(err, ERR_INVALID,
		    "\"%s\" is a word too many: cofferdam sandbox %s %s", c->words[k->max], k->name,
		    k->args);
	if (c->nwords < k->min) {
		struct str rest = str_z(k->args), word = rest;

		for (size_t i = 0; i <= c->nwords; i++)
			if (!str_cut(&rest, ' ', &word))
				word = rest;
		return err_set(err, ERR_INVALID, "%.*s is missing: cofferdam sandbox %s %s",
		    STR_ARG(word), k->name, k->args);
	}
	if (c->command != NULL && !k->command)
		return err_set(err, ERR_INVALID, "sandbox %s takes no command", k->name);
	return 0;
}

static int
command_run(const struct command *k, int argc, char **argv)
{
	static struct cli c; /* large and mostly empty: costs nothing where it is not touched */
	struct err e = {0};
	int status;

	if (cli_parse(argc, argv, k->groups, &c, &e) != 0 || words_check(k, &c, &e) != 0)
		status = cli_fail(&e);
	else
		status = k->run(&c);
	cli_free(&c);
	return status;
}

int
cli_sandbox(int argc, char **argv)
{
	bool help = argc >= 2 && strcmp(argv[1], "help") == 0;

	(void)signal(SIGPIPE, SIG_IGN);
	if (argc >= 2 && (is_help(argv[1]) || (help && argc == 2))) {
		print_usage(stdout);
		return CLI_OK;
	}
	if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
		(void)printf("cofferdam sandbox: calls of version %d, pid 1 of version %d\n",
		    CALL_VERSION, INSIDE_VERSION);
		return CLI_OK;
	}
	if (help) { /* `help exec` */
		argc--;
		argv++;
	}
	for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].name, argv[1]) != 0)
			continue;
		if (help || help_asked(argc - 1, argv + 1)) {
			print_help(&commands[i]);
			return CLI_OK;
		}
		return command_run(&commands[i], argc - 1, argv + 1);
	}
	if (argc >= 2)
		log_error("sandbox: there is no subcommand \"%s\"", argv[1]);
	print_usage(stderr);
	return CLI_USAGE;
}
