/*
 * `cofferdam sandboxd`: becomes cofferdam-sandboxd, which serves sandboxes in a process that links
 * no policy and no signing. Only replaces itself; the options are checked there.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "common/log.h"
#include "common/proc_paths.h"

#include "common/banned.h"

int
cmd_sandboxd(int argc UNUSED, char **argv)
{
	AUTO_FREE char *path = proc_program("cofferdam-sandboxd");

	(void)execv(path, argv);
	log_error("%s: %s", path, strerror(errno));
	return CMD_FAILED;
}
