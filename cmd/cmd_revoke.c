/*
 * `cofferdam revoke`: of a run, which ends at once, or of a request, which a signature ends. Runs
 * as the person. A run needs no signature: to stop must be the easiest of all.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_via.h"
#include "common/jcs.h"

#include "common/banned.h"

struct revoke_args {
	const char *state, *reason, *run;
};

static bool
args_read(int argc, char **argv, struct revoke_args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"via", required_argument, NULL, 'v'},
	    {"reason", required_argument, NULL, 'r'},
	    {0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
		case 'v':
			if (!via_place(&a->state, optarg, c == 'v'))
				return false;
			break;
		case 'r': a->reason = optarg; break;
		default: return false;
		}
	}
	if (optind + 1 != argc)
		return false;
	a->run = argv[optind];
	return true;
}

/* A run's id has a prefix; a request's has none. */
static bool
names_run(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "r-", 2) == 0)
			return true;
	return false;
}

int
cmd_revoke(int argc, char **argv)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(4096);
	struct revoke_args a = {0};
	struct err err;
	struct jcs j;

	if (!names_run(argc, argv))
		return cmd_approve(argc, argv);
	if (!args_read(argc, argv, &a)) {
		(void)fprintf(stderr,
		    "usage: cofferdam revoke [--state DIR | --via URL] [--reason TEXT] RUN\n");
		return CMD_USAGE;
	}
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "reason", str_z(a.reason));
	jcs_str_lossy(&j, "run", str_z(a.run));
	jcs_close(&j);
	if (control_call(a.state, "run-revoke", buf_str(&args), &doc, &err) != 0)
		return cmd_fail(&err);
	(void)printf("run %s is revoked: nothing more of it passes\n", a.run);
	return CMD_OK;
}
