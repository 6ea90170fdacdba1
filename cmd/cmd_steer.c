/*
 * `cofferdam pause`, `resume`, `stop` and `message`: what a person tells a run while it lives. Runs
 * as that person, who is known to the broker by the socket and stands on the record.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct steer_args {
	const char *state, *reason, *run, *text;
};

#define AT(f) offsetof(struct steer_args, f)

static const struct option_row rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"--reason", OPTION_TEXT, AT(reason), 0, 0, "TEXT", "why; recorded"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

static const struct option_row message_rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"TEXT", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(text), 0, 0, NULL, "up to 4096 bytes"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

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

	if (text ? !ARGS_READ(argv[0], message_rows, argc, argv, &a)
		 : !ARGS_READ(argv[0], rows, argc, argv, &a))
		return CMD_USAGE;
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
