/*
 * `cofferdam answer`: what a run's agent has asked (`cofferdam pending` shows it). Runs as the
 * person. An answer is words for a model; it signs nothing and approves nothing.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_via.h"
#include "common/jcs.h"

#include "common/banned.h"

struct answer_args {
	const char *state, *run, *text;
	int64_t question; /* 0: whichever it asks */
};

static bool
number(const char *z, int64_t *ret)
{
	char *end;

	*ret = strtoll(z, &end, 10);
	return *end == '\0' && *ret > 0 && *ret < INT64_C(1) << 53;
}

static bool
args_read(int argc, char **argv, struct answer_args *a)
{
	static const struct option options[] = {
	    {"question", required_argument, NULL, 'q'},
	    {"state", required_argument, NULL, 's'},
	    {"via", required_argument, NULL, 'v'},
	    {0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c == 'q' ? !number(optarg, &a->question)
			     : (c != 's' && c != 'v') || !via_place(&a->state, optarg, c == 'v'))
			return false;
	if (optind + 2 != argc)
		return false;
	a->run = argv[optind];
	a->text = argv[optind + 1];
	return true;
}

int
cmd_answer(int argc, char **argv)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(65536);
	struct answer_args a = {0};
	struct err err;
	struct jcs j;

	if (!args_read(argc, argv, &a)) {
		(void)fprintf(stderr,
		    "usage: cofferdam answer [--question N] [--state DIR | --via URL] RUN TEXT\n");
		return CMD_USAGE;
	}
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	if (a.question != 0)
		jcs_int(&j, "question", a.question);
	jcs_str_lossy(&j, "run", str_z(a.run));
	jcs_str_lossy(&j, "text", str_z(a.text));
	jcs_close(&j);
	if (control_call(a.state, "answer", buf_str(&args), &doc, &err) != 0)
		return cmd_fail(&err);
	(void)printf("run %s has the answer; it approves nothing\n", a.run);
	return CMD_OK;
}
