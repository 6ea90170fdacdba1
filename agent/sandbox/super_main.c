/*
 * cofferdam-sandbox: the supervisor of one sandbox. Started by the sandbox library with a socket
 * at descriptor 3; links no TLS, no broker and no policy.
 */
#include "agent/sandbox/super.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/sandbox/wire.h"

#include "common/banned.h"

int
main(void)
{
	struct stat st;

	if (fstat(WIRE_FD, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		(void)fprintf(stderr,
		    "cofferdam-sandbox: started by cofferdam, not by hand: see cofferdam "
		    "sandbox --help\n");
		return 2;
	}
	/* One that outlives its caller is not its child, so that nobody has to wait for it. */
	if (getenv(SUPER_STAYS) != NULL) {
		pid_t pid = fork();

		if (pid != 0)
			_exit(pid > 0 ? 0 : errno);
	}
	return super_main(WIRE_FD, true);
}
