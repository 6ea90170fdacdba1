/*
 * Questions to people (process: core). The question is the model's words; the answer is a message
 * of a person's, recorded as such, and like any other makes them nobody who could sign for the run.
 * Kept in memory; an agent whose core was restarted asks again.
 */
#include "broker/core_question.h"

#include <stdlib.h>

#include "broker/core_run.h"
#include "broker/core_steer.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct core_question {
	int64_t id, asked_us;
	uint64_t seq;		  /* of the answer's record */
	char *text, *answer, *by; /* answer NULL: it is open */
};

static void
drop(struct core_run *run)
{
	struct core_question *q = run->question;

	if (q == NULL)
		return;
	free(q->text);
	free(q->answer);
	free(q->by);
	free(q);
	run->question = NULL;
}

void
core_question_free(struct core_run *run)
{
	drop(run);
}

/* --- the agent ------------------------------------------------------------------- */

static int
size_check(struct str text, const char *what, struct err *err)
{
	if (text.n == 0 || text.n > CORE_QUESTION_MAX)
		return err_set(err, ERR_INVALID, "%s has from 1 to %d bytes, this one %zu", what,
		    CORE_QUESTION_MAX, text.n);
	return 0;
}

int
core_question_ask(struct core_run *run, const struct json *args, struct jcs *j, struct err *err)
{
	struct str text = json_str(json_get(args, "text"));
	struct core_question *q;
	int rc = size_check(text, "a question", err);

	if (rc != 0)
		return rc;
	drop(run);
	q = run->question = xcalloc(1, sizeof(*q));
	q->asked_us = clock_wall_us();
	/* By the clock: a core before this one has asked under no such id. */
	q->id = q->asked_us / 1000000;
	if (q->id <= run->last_question)
		q->id = run->last_question + 1;
	run->last_question = q->id;
	q->text = str_dup(text);
	jcs_int(j, "id", q->id);
	return 0;
}

static struct core_question *
find(struct core_run *run, const struct json *args, struct err *err)
{
	struct core_question *q = run->question;

	if (q != NULL && q->id == json_int(json_get(args, "id")))
		return q;
	(void)err_set(err, ERR_NOT_FOUND, "this run does not ask that");
	return NULL;
}

int
core_question_look(struct core_run *run, const struct json *args, struct jcs *j, struct err *err)
{
	const struct core_question *q = find(run, args, err);

	if (q == NULL)
		return err->code;
	if (q->answer == NULL) {
		jcs_z(j, "state", "open");
		return 0;
	}
	jcs_str_lossy(j, "by", str_z(q->by));
	jcs_int(j, "seq", (int64_t)q->seq);
	jcs_z(j, "state", "answered");
	jcs_str_lossy(j, "text", str_z(q->answer));
	return 0;
}

int
core_question_drop(
    struct core_run *run, const struct json *args, struct jcs *j UNUSED, struct err *err)
{
	if (find(run, args, err) == NULL)
		return err->code;
	drop(run);
	return 0;
}

/* --- people ---------------------------------------------------------------------- */

void
core_question_list(struct jcs *j, const struct core_run *run)
{
	const struct core_question *q = run->question;
	char at[CLOCK_TEXT_SIZE];

	if (q == NULL || q->answer != NULL)
		return;
	clock_format_s(q->asked_us, at);
	jcs_open(j, NULL);
	jcs_z(j, "asked", at);
	jcs_int(j, "id", q->id);
	jcs_z(j, "owner", run->owner);
	jcs_str_lossy(j, "question", str_z(q->text));
	jcs_z(j, "run", run->id);
	jcs_close(j);
}

int64_t
core_question_open(const struct core_run *run)
{
	const struct core_question *q = run->question;

	return q != NULL && q->answer == NULL ? q->id : 0;
}

bool
core_question_answer(
    struct core_run *run, int64_t id, uint64_t seq, const char *by, const char *text)
{
	struct core_question *q = run->question;

	/* Another by now: what a person said to the one before is no answer to it. */
	if (id == 0 || core_question_open(run) != id)
		return false;
	q->answer = xstrdup(text);
	q->by = xstrdup(by);
	q->seq = seq;
	return true;
}

int
core_question_verb(struct core_call *call, struct err *err)
{
	struct str id = json_str(json_get(call->args, "run"));
	const struct json *asked = json_get(call->args, "question");
	const struct core_run *run = core_run_find(call->core, id);

	if (run == NULL || core_question_open(run) == 0)
		return err_set(
		    err, ERR_NOT_FOUND, "no run \"%.*s\" waits for an answer", STR_ARG(id));
	if (asked != NULL && json_int(asked) != core_question_open(run))
		return err_set(err, ERR_STATE,
		    "run %s asks something else by now, question %lld: look at it first "
		    "(cofferdam pending)",
		    run->id, (long long)core_question_open(run));
	return core_steer_verb_message(call, err);
}
