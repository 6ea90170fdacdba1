/*
 * cofferdam-sandbox: the launcher of one sandbox, and (executed again by its own child, as
 * "init") pid 1 inside it. Started by cofferdam-agent with a socket at descriptor 3; links
 * no TLS, no broker and no policy.
 */
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/sandbox/native.h"
#include "agent/sandbox/wire.h"

#include "common/banned.h"

int
main(int argc, char **argv)
{
	struct stat st;

	if (argc < 1 || fstat(WIRE_FD, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		(void)fprintf(
		    stderr, "cofferdam-sandbox: started by cofferdam-agent, not by hand\n");
		return 2;
	}
	if (argc == 1 && strcmp(argv[0], "init") == 0)
		return native_init_main();
	return native_launcher_main();
}
