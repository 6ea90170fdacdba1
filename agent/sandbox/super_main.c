/*
 * cofferdam-sandbox: the supervisor of one sandbox. Started by the sandbox library with a socket
 * at descriptor 3; links no TLS, no broker and no policy.
 */
#include "agent/sandbox/super.h"

#include <stdio.h>
#include <sys/stat.h>

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
	return super_main(WIRE_FD, true);
}
