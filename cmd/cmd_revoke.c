/*
 * `cofferdam revoke`: of a run, which ends at once, or of a request, which a signature ends. Runs
 * as the person. A run needs no signature: to stop must be the easiest of all.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "common/jcs.h"

#include "common/banned.h"

struct revoke_args {
	const char *state, *reason, *run;
};

#define AT(f) offsetof(struct revoke_args, f)

static const struct option_row rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"--reason", OPTION_TEXT, AT(reason), 0, 0, "TEXT", "why; recorded"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

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
	if (!ARGS_READ("revoke", rows, argc, argv, &a))
		return CMD_USAGE;
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
