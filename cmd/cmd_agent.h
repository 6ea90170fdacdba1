/* Subcommands that are cofferdam-agent under another name. */
#ifndef CMD_CMD_AGENT_H
#define CMD_CMD_AGENT_H

#include "cmd/cmd.h"

/* Replaces the process by cofferdam-agent MODE with argv[1..]; returns only on failure. */
int cmd_agent_exec(const char *mode, int argc, char **argv);

#endif
