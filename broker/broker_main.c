/*
 * cofferdam-broker, the parent. Only the arguments are read here; all else is in
 * broker_serve.c, where a test can reach it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/broker_parent.h"

#include "common/log.h"
#include "common/streams.h"

#include "common/banned.h"

#define STATE_DEFAULT "/var/lib/cofferdam"

static void __attribute__((noreturn)) usage(int status)
{
	(void)fputs("usage: cofferdam-broker [--state DIR] [--foreground]\n"
		    "  --state DIR   state directory (default " STATE_DEFAULT
		    "); made by cofferdam init\n"
		    "  --foreground  stay in the foreground (always so)\n",
	    status == 0 ? stdout : stderr);
	exit(status);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"foreground", no_argument, NULL, 'f'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	const char *state = STATE_DEFAULT;
	int c;

	streams_open();
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			state = optarg;
		else if (c != 'f')
			usage(c == 'h' ? 0 : 2);
	}
	if (optind != argc)
		usage(2);
	log_init("broker", LOG_INFO_);
	return broker_serve(state);
}
