/*
 * `cofferdam run`: becomes cofferdam-agent, which does the work in a process that links no
 * policy and no signing. Only replaces itself; the options are checked there.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "common/log.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"

#include "common/banned.h"

int
cmd_run(int argc, char **argv)
{
	AUTO_FREE char *path = proc_program("cofferdam-agent");
	AUTO_FREE char **args = xcalloc((size_t)argc + 2, sizeof(*args));
	char run[] = "run";
	size_t n = 0;

	args[n++] = path;
	args[n++] = run;
	for (int i = 1; i < argc; i++)
		args[n++] = argv[i];
	(void)execv(path, args);
	log_error("%s: %s", path, strerror(errno));
	return CMD_FAILED;
}
