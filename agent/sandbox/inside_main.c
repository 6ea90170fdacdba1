/*
 * cofferdam-inside: the files of a sandbox, touched from within. Started by pid 1 inside with the
 * rights of the code that runs there, beside that code; so a link, a race or a strange file can
 * only show it what that code sees anyway. It must never hang on what a file is, never mix content
 * with its own words, and it holds nothing worth stealing.
 */
#include "agent/sandbox/inside_part.h"

#include <signal.h>
#include <sys/prctl.h>

#include "common/banned.h"

int
main(int argc, char **argv)
{
	/* Not attachable by its neighbours. Refused by a filter: then they are held by that filter.
	 */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)signal(SIGPIPE, SIG_IGN);
	return inside_part(argc, argv);
}
