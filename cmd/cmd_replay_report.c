/*
 * `cofferdam replay report`: a post-incident document on one run, Markdown or HTML. Runs as the
 * reviewer; reads the log, and content as far as its keys can be read. Verifies first.
 */
#include "audit/replay_report.h"

#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_replay.h"
#include "cmd/cmd_replay_case.h"
#include "cmd/cmd_replay_stop.h"

#include "common/banned.h"

struct args {
	const char *state, *vkey, *policy, *out, *run;
	bool html;
};

#define AT(f) offsetof(struct args, f)

static const struct option_row rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE",
	"keys to trust (default: those of the state directory)"},
    {"--policy", OPTION_TEXT, AT(policy), 0, 0, "FILE",
	"ask this policy as well what it would have stopped"},
    {"--html", OPTION_FLAG, AT(html), 0, 0, NULL, "HTML (default: Markdown)"},
    {"--out", OPTION_TEXT, AT(out), 0, 0, "FILE", "where to (default: standard output)"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

static void
one(void *arg, const struct record *r)
{
	report_record(arg, r);
}

static int
write_report(const struct args *a, const struct replay_case *c, struct report_opts *o)
{
	AUTO_BUF struct buf out = BUF(REPLAY_OUT_MAX);
	struct report *p = report_new(o, c->blobs);
	struct err err = {0};
	int n = replay_case_walk(c, one, p, &err);

	if (n == 0) {
		report_end(p, &out);
		n = replay_write(&c->place, a->out != NULL ? a->out : "-", &out, &err);
	}
	report_free(p);
	return n != 0 ? replay_fail(&err) : replay_case_status(c);
}

static int
report(const struct args *a, const struct replay_case *c, struct stop *s)
{
	AUTO_FREE char *why = NULL;
	struct report_opts o = {.html = a->html,
	    .stop = stop_record,
	    .arg = s,
	    .page = {.scan = &c->scan,
		.verdict = buf_str(&c->verdict),
		.holds = replay_case_status(c) == CMD_OK,
		.checkpoint = buf_str(&c->checkpoint),
		.origin = c->origin,
		.verified = c->verified}};
	struct replay_band *bands = replay_case_bands(c, &o.page.nbands, &why);
	int n;

	o.page.bands = bands;
	o.page.bands_why = why;
	n = write_report(a, c, &o);
	replay_case_bands_free(bands, o.page.nbands);
	return n;
}

int
replay_report(int argc, char **argv)
{
	AUTO_CASE struct replay_case c = CASE_EMPTY;
	struct args a = {0};
	struct stop *s = NULL;
	struct err err = {0};
	int n;

	if (!ARGS_READ("replay report", rows, argc, argv, &a))
		return CMD_USAGE;
	if (replay_case_open(a.state, a.vkey, a.run, true, &c, &err) != 0)
		return replay_fail(&err);
	if (!replay_case_found(&c))
		return CMD_FAILED;
	if (stop_new(&c, a.policy, &s, &err) != 0)
		return replay_fail(&err);
	n = report(&a, &c, s);
	stop_free(s);
	return n;
}
