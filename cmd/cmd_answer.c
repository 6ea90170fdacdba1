/*
 * `cofferdam answer`: what a run's agent has asked (`cofferdam pending` shows it). Runs as the
 * person. An answer is words for a model; it signs nothing and approves nothing.
 */
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "common/jcs.h"

#include "common/banned.h"

struct answer_args {
	const char *state, *run, *text;
	uint64_t question; /* 0: whichever it asks */
};

#define AT(f) offsetof(struct answer_args, f)

static const struct option_row rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"TEXT", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(text), 0, 0, NULL,
	"the answer; it approves nothing"},
    {"--question", OPTION_NUMBER, AT(question), 1, (UINT64_C(1) << 53) - 1, "N",
	"only if it asks that still, as `cofferdam pending` numbers it"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

int
cmd_answer(int argc, char **argv)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(65536);
	struct answer_args a = {0};
	struct err err;
	struct jcs j;

	if (!ARGS_READ("answer", rows, argc, argv, &a))
		return CMD_USAGE;
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	if (a.question != 0)
		jcs_int(&j, "question", (int64_t)a.question);
	jcs_str_lossy(&j, "run", str_z(a.run));
	jcs_str_lossy(&j, "text", str_z(a.text));
	jcs_close(&j);
	if (control_call(a.state, "answer", buf_str(&args), &doc, &err) != 0)
		return cmd_fail(&err);
	(void)printf("run %s has the answer; it approves nothing\n", a.run);
	return CMD_OK;
}
