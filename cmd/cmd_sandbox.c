/*
 * `cofferdam sandbox exec`: one command in a sandbox without a broker, to see what code in a
 * run would see, and for tests. Becomes cofferdam-agent.
 */
#include <string.h>

#include "cmd/cmd_agent.h"
#include "common/log.h"

#include "common/banned.h"

int
cmd_sandbox(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "exec") != 0) {
		log_error(
		    "sandbox: the one subcommand is exec [--ro-bind HOST:INSIDE]... [--memory MiB] "
		    "[--timeout S] [--workspace DIR] -- COMMAND...");
		return CMD_USAGE;
	}
	return cmd_agent_exec("exec", argc - 1, argv + 1);
}
