/*
 * `cofferdam pause`, `resume`, `stop` and `message`: what a person tells a run while it lives. Runs
 * as that person, who is known to the broker by the socket and stands on the record.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_via.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct steer_args {
	const char *state, *reason, *run, *text;
};

static bool
args_read(int argc, char **argv, bool text, struct steer_args *a)
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
	if (optind + (text ? 2 : 1) != argc || (text && a->reason != NULL))
		return false;
	a->run = argv[optind];
	a->text = text ? argv[optind + 1] : NULL;
	return true;
}

int
cmd_steer(int argc, char **argv)
{
	bool text = strcmp(argv[0], "message") == 0;
	AUTO_FREE char *verb = xasprintf("run-%s", argv[0]), *state = NULL;
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(65536);
	struct steer_args a = {0};
	struct err err;
	struct jcs j;

	if (!args_read(argc, argv, text, &a)) {
		(void)fprintf(stderr, "usage: cofferdam %s [--state DIR | --via URL] %s\n", argv[0],
		    text ? "RUN TEXT" : "[--reason TEXT] RUN");
		return CMD_USAGE;
	}
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "reason", str_z(a.reason));
	jcs_str_lossy(&j, "run", str_z(a.run));
	jcs_str_lossy(&j, "text", str_z(a.text));
	jcs_close(&j);
	if (control_call(a.state, verb, buf_str(&args), &doc, &err) != 0)
		return cmd_fail(&err);
	state = control_text(json_root(doc), "state");
	(void)printf("run %s: %s\n", a.run, state);
	return CMD_OK;
}
