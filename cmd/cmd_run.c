/*
 * `cofferdam run`, `profile` and `mcp`: become the program that does the work and links no policy
 * and no signing. Only replaces itself; the options are checked there.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "common/log.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* word: what the program calls the command; NULL: nothing else is its. */
static int
become(const char *program, char *word, int argc, char **argv)
{
	AUTO_FREE char *path = proc_program(program);
	AUTO_FREE char **args = xcalloc((size_t)argc + 2, sizeof(*args));
	size_t n = 0;

	args[n++] = path;
	if (word != NULL)
		args[n++] = word;
	for (int i = 1; i < argc; i++)
		args[n++] = argv[i];
	(void)execv(path, args);
	log_error("%s: %s", path, strerror(errno));
	return CMD_FAILED;
}

int
cmd_run(int argc, char **argv)
{
	char run[] = "run";

	return become("cofferdam-agent", run, argc, argv);
}

int
cmd_profile(int argc, char **argv)
{
	char profile[] = "profile";

	return become("cofferdam-agent", profile, argc, argv);
}

int
cmd_mcp(int argc, char **argv)
{
	return become("cofferdam-mcp", NULL, argc, argv);
}
