/*
 * `cofferdam log reconcile`: which actions were sent without anybody knowing what became of them,
 * and a person's word on one. Runs as the person; the broker records who it was. It must never
 * guess: what is not said stays in doubt.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_log.h"
#include "common/jcs.h"

#include "common/banned.h"

struct reconcile_args {
	const char *state, *action, *note;
	bool done, not_done;
};

#define AT(f) offsetof(struct reconcile_args, f)

static const struct option_row rows[] = {
    {"ACTION", OPTION_TEXT | OPTION_WORD, AT(action), 0, 0, NULL,
	"of which it is said (default: list them)"},
    {"--done", OPTION_FLAG, AT(done), 0, 0, NULL, "it was done"},
    {"--not-done", OPTION_FLAG, AT(not_done), 0, 0, NULL, "it was not"},
    {"--note", OPTION_TEXT, AT(note), 0, 0, "TEXT", "how you know, up to 256 bytes; recorded"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

/* NULL: nothing is. */
static const char *
args_wrong_together(const struct reconcile_args *a)
{
	if (a->done && a->not_done)
		return "--done and --not-done are both given: it was done, or it was not";
	if (a->action == NULL)
		return a->done || a->not_done || a->note != NULL
			   ? "ACTION is missing; without options all that is in doubt is listed"
			   : NULL;
	if (!a->done && !a->not_done)
		return "--done or --not-done is missing: which is it?";
	return a->note == NULL ? "--note TEXT is missing: how you know" : NULL;
}

void
log_print_doubts(const struct json *status)
{
	const struct json *list = json_get(status, "doubts");
	int64_t n = json_int(json_get(status, "doubt_count"));

	if (n != 0)
		(void)printf("in doubt %" PRId64 "%s: look, then cofferdam log reconcile\n", n,
		    n > (int64_t)json_count(list) ? ", the newest" : "");
	for (size_t i = 0; i < json_count(list); i++) {
		const struct json *d = json_at(list, i);
		AUTO_FREE char *action = control_text(d, "action"), *run = control_text(d, "run"),
			       *status_is = control_text(d, "status"),
			       *time = control_text(d, "time");

		(void)printf("  %s  %s, of %s, record %" PRId64 ", %s\n", action, status_is,
		    run[0] != '\0' ? run : "no run", json_int(json_get(d, "seq")), time);
	}
}

static int
show_all(const struct reconcile_args *a)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};

	if (control_call(a->state, "status", STR("{}"), &doc, &err) != 0)
		return cmd_fail(&err);
	if (json_int(json_get(json_root(doc), "doubt_count")) == 0)
		(void)printf("no outcome is in doubt\n");
	log_print_doubts(json_root(doc));
	return CMD_OK;
}

int
cmd_log_reconcile(int argc, char **argv)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(4096);
	struct reconcile_args a = {0};
	const char *wrong;
	struct err err = {0};
	struct jcs j;

	if (!ARGS_READ("log reconcile", rows, argc, argv, &a))
		return CMD_USAGE;
	if ((wrong = args_wrong_together(&a)) != NULL)
		return args_wrong("log reconcile", "%s", wrong);
	if (a.action == NULL)
		return show_all(&a);
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "action", str_z(a.action));
	jcs_str_lossy(&j, "note", str_z(a.note));
	jcs_z(&j, "status", a.done ? "done" : "not_done");
	jcs_close(&j);
	if (control_call(a.state, "log-reconcile", buf_str(&args), &doc, &err) != 0)
		return cmd_fail(&err);
	(void)printf("action %s was %s: record %" PRId64 "\n", a.action,
	    a.done ? "done" : "not done", json_int(json_get(json_root(doc), "seq")));
	return CMD_OK;
}
