/*
 * `cofferdam replay rerun`: the code of a run once more, in a fresh sandbox, against what was
 * answered then. Runs as the reviewer; verifies the log first. Nothing of it is sent to any target,
 * and no recorded credential exists in it.
 */
#include <signal.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/replay_blobs.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_replay.h"
#include "cmd/cmd_rerun.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define POLICY_MAX ((size_t)8 << 20)

struct args {
	const char *state, *vkey, *workspace, *run;
};

#define AT(f) offsetof(struct args, f)

static const struct option_row rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE",
	"keys to trust (default: those of the state directory)"},
    {"--workspace", OPTION_TEXT, AT(workspace), 0, 0, "DIR",
	"becomes /work, as the run had one: a copy, since it is written to"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

static int
undecided(const struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(err->msg));

	(void)fprintf(stderr, "cofferdam: the run cannot be run again: %s\n", vis);
	return RERUN_UNDECIDED;
}

/* --- the policy that was in force ------------------------------------------------ */

struct bundle {
	const struct replay_case *c;
	struct str digest;
	struct buf *out;
	struct err why;
	bool found;
};

static void
bundle_take(void *arg, const struct record *r)
{
	struct bundle *b = arg;

	if (b->found || !str_eqz(r->type, "policy.load") ||
	    !str_eq(canon_plain(canon_get(r->data, "digest")), b->digest))
		return;
	b->found =
	    replay_blobs_read(b->c->blobs, canon_get(r->data, "bundle"), b->out, &b->why) == 0;
}

static int
bundle_find(
    const struct replay_case *c, const struct rerun_run *then, struct buf *out, struct err *err)
{
	struct bundle b = {.c = c, .digest = buf_str(&then->digest), .out = out};
	int rc = replay_case_walk(c, bundle_take, &b, err);

	if (rc != 0 || b.found)
		return rc;
	return err_set(err, ERR_UNAVAILABLE, "its policy: %s",
	    b.why.code != 0 ? b.why.msg : "the log does not hold it");
}

/* --- the second time ------------------------------------------------------------- */

struct only_run {
	char id[128];
};

static void
id_take(void *arg, const struct record *r)
{
	struct only_run *o = arg;

	if (o->id[0] == '\0' && str_eqz(r->type, "run.start"))
		(void)snprintf(o->id, sizeof(o->id), "%.*s", STR_ARG(r->run));
}

static int
read_second(const struct rerun_stage *s, const struct rerun_run *then, int *ret, struct err *err)
{
	AUTO_CASE struct replay_case c = CASE_EMPTY;
	struct only_run only = {""};
	struct rerun_run now;
	int rc = replay_case_open(s->state, NULL, NULL, false, &c, err);

	if (rc != 0 || (rc = replay_case_walk(&c, id_take, &only, err)) != 0)
		return rc;
	if (only.id[0] == '\0')
		return err_set(err, ERR_UNAVAILABLE, "no run began the second time");
	rerun_read_init(&now, only.id, c.blobs, false);
	rc = replay_case_walk(&c, rerun_read, &now, err);
	rerun_read_end(&now);
	if (rc == 0 && now.why.code != 0)
		rc = err_set(err, now.why.code, "%s", now.why.msg);
	if (rc == 0)
		*ret = rerun_compare(then, &now);
	rerun_read_free(&now);
	return rc;
}

static int
stage(const struct args *a, const struct rerun_run *then, struct str bundle)
{
	struct rerun_stage s;
	struct err err = {0};
	int status = RERUN_UNDECIDED, rc = rerun_stage_open(&s, &err);

	if (rc == 0)
		rc = rerun_stage_run(&s, then, bundle, a->workspace, &err);
	if (rc == 0)
		rc = read_second(&s, then, &status, &err);
	rerun_stage_close(&s);
	return rc != 0 ? undecided(&err) : status;
}

static int
rerun(const struct args *a, const struct replay_case *c, struct rerun_run *then)
{
	AUTO_BUF struct buf bundle = BUF(POLICY_MAX);
	struct err err = {0};

	if (replay_case_walk(c, rerun_read, then, &err) != 0)
		return replay_fail(&err);
	rerun_read_end(then);
	if (then->why.code != 0)
		return undecided(&then->why);
	if (then->n == 0) {
		(void)err_set(&err, ERR_UNAVAILABLE, "no code of it is on the record");
		return undecided(&err);
	}
	if (bundle_find(c, then, &bundle, &err) != 0)
		return undecided(&err);
	return stage(a, then, buf_str(&bundle));
}

int
replay_rerun(int argc, char **argv)
{
	AUTO_CASE struct replay_case c = CASE_EMPTY;
	struct args a = {0};
	struct rerun_run then;
	struct err err = {0};
	int status;

	if (!ARGS_READ("replay rerun", rows, argc, argv, &a))
		return CMD_USAGE;
	if (replay_case_open(a.state, a.vkey, a.run, false, &c, &err) != 0)
		return replay_fail(&err);
	/* What is told of a log that does not hold is told as that. */
	if (replay_case_status(&c) != CMD_OK) {
		AUTO_FREE char *verdict = buf_dup_z(&c.verdict);

		(void)printf("%s", verdict);
		(void)err_set(&err, ERR_TAMPER, "the log does not hold");
		return undecided(&err);
	}
	if (!replay_case_found(&c))
		return CMD_USAGE;
	rerun_read_init(&then, a.run, c.blobs, true);
	status = rerun(&a, &c, &then);
	rerun_read_free(&then);
	return status;
}
