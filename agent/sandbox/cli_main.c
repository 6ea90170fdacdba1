/*
 * `cofferdam`, as people type it. A small static program: `sandbox` and `doctor` it does itself, so
 * that one command in a sandbox starts fast; for all else it becomes cofferdam-cmd, which links
 * what policy, signatures and the log need.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/proc_paths.h"
#include "common/streams.h"
#include "common/xalloc.h"
#include "agent/sandbox/cli.h"

#include "common/banned.h"

/* `help sandbox exec` is `sandbox exec --help`. */
static int
help(int argc, char **argv)
{
	char option[] = "--help", *own[] = {argv[2], option, NULL, NULL};
	bool sandbox = strcmp(argv[2], "sandbox") == 0;

	if (sandbox && argc > 3) {
		own[1] = argv[3];
		own[2] = option;
	}
	return sandbox ? cli_sandbox(own[2] != NULL ? 3 : 2, own) : cli_doctor(2, own);
}

int
main(int argc, char **argv)
{
	AUTO_FREE char *path = NULL;

	streams_open();
	log_init("cofferdam", LOG_WARN_);
	if (argc > 1 && strcmp(argv[1], "sandbox") == 0)
		return cli_sandbox(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "doctor") == 0)
		return cli_doctor(argc - 1, argv + 1);
	if (argc > 2 && strcmp(argv[1], "help") == 0 &&
	    (strcmp(argv[2], "sandbox") == 0 || strcmp(argv[2], "doctor") == 0))
		return help(argc, argv);
	path = proc_program("cofferdam-cmd");
	(void)execv(path, argv);
	log_error("%s: %s", path, strerror(errno));
	return CLI_FAILED;
}
