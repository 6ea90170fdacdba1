/*
 * cofferdam-agent: the loop, or one command, in a sandbox whose way out is the broker. It holds no
 * credential and judges nothing; it talks to the broker over the agent socket and hands it
 * the sandbox's listeners. Started by the `cofferdam` command.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/streams.h"
#include "agent/agent_options.h"
#include "agent/agent_run.h"
#include "agent/keeper_run.h"
#include "agent/profile_command.h"

#include "common/banned.h"

int
main(int argc, char **argv)
{
	struct agent_options o;
	struct err e = {0};
	int rc = 2;

	streams_open();
	log_init("cofferdam", LOG_INFO_);
	(void)signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "keep") == 0)
		return keeper_main();
	if (argc >= 2 && strcmp(argv[1], "profile") == 0)
		return profile_command(argc - 1, argv + 1);
	if (argc < 2 || strcmp(argv[1], "run") != 0) {
		(void)fprintf(stderr, "usage: cofferdam-agent run [options] [-- command...]\n");
		return 2;
	}
	if (argc == 3 && strcmp(argv[2], "--help") == 0) {
		agent_options_help();
		return 0;
	}
	if (agent_options_parse(argc - 1, argv + 1, &o, &e) != 0)
		log_error("%s", e.msg);
	else
		rc = agent_run(&o);
	agent_options_free(&o);
	return rc;
}
