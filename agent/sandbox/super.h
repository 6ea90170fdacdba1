/* The supervisor of one sandbox: serves its callers, keeps time, output and limits, ends all. */
#ifndef AGENT_SANDBOX_SUPER_H
#define AGENT_SANDBOX_SUPER_H

#include <stdbool.h>

/*
 * Serves the caller at `wire` until the sandbox has ended; owns wire. process: this is a process of
 * its own (cofferdam-sandbox), which may close other descriptors, change directory and leave its
 * session; else a thread of the command line, which must leave all that alone. Returns an exit
 * status.
 */
int super_main(int wire, bool process);

#endif
