/*
 * The built-in loop. Runs in cofferdam-agent with the user's rights and holds nothing. It
 * believes neither the model nor the output. The calls are agent_tools', the limits
 * agent_budget's, what goes back to the model agent_context's.
 */
#include "agent/agent_loop.h"

#include "common/clock.h"
#include "common/jcs.h"
#include "common/xalloc.h"
#include "agent/agent_budget.h"
#include "agent/agent_context.h"
#include "agent/agent_prompt.h"
#include "agent/agent_steer.h"
#include "agent/agent_tools.h"

#include "common/banned.h"

static void
course_end(struct course *k)
{
	context_answers_drop(k);
	tools_end(k);
	free(k->words);
}
#define NOTE_MAX ((size_t)1 << 21)
#define AUTO_COURSE __attribute__((cleanup(course_end)))

static int
record_model(struct course *k, const struct model_turn *t, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1024);
	struct jcs j;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	jcs_bool(&j, "done", t->done);
	if (t->left_out != 0)
		jcs_int(&j, "left_out", (int64_t)t->left_out);
	jcs_z(&j, "model", k->c->model->name);
	jcs_int(&j, "tokens_in", (int64_t)t->tokens_in);
	jcs_int(&j, "tokens_out", (int64_t)t->tokens_out);
	jcs_int(&j, "turn", (int64_t)k->turn);
	jcs_close(&j);
	/* Before its first call begins it is durable: that call is told behind it. */
	if (t->ncalls != 0)
		return broker_event_later(k->c->broker, "model", buf_str(&fields), t->words, err);
	/* What the model did not write itself is not told as if it had. */
	return broker_event(k->c->broker, t->left_out != 0 && !t->by_model ? "note" : "model",
	    buf_str(&fields), t->words, err);
}

static int
finish(struct course *k, const char *status, char *text, struct loop_end *ret, struct err *err)
{
	AUTO_BUF struct buf spent = BUF(512);
	AUTO_FREE char *json = NULL;
	int rc;

	budget_json(k, &spent);
	json = buf_dup_z(&spent);
	rc = broker_end_spent(k->c->broker, status, text, json, err);
	*ret = (struct loop_end){.status = status,
	    .text = text,
	    .used = budget_words(k),
	    .tokens_in = k->spent.tokens_in,
	    .tokens_out = k->spent.tokens_out,
	    .cost = k->spent.cost};
	for (size_t i = 0; k->c->steer != NULL && i < k->c->steer->nlimits; i++)
		ret->seen[i] = k->c->steer->limits[i].seen;
	return rc;
}

/* The model's next turn; room that is made in the conversation before it is on the record first. */
static int
answer_get(struct course *k, struct model_ask *ask, struct model_turn *t, struct err *err)
{
	for (;;) {
		int rc = k->c->model->next(k->c->model, ask, t, err);

		if (rc != 0)
			return rc;
		context_answers_drop(k);
		if (t->left_out == 0)
			return 0;
		budget_turn(k, t);
		transcript_line(&k->c->out,
		    "-- room is made: %zu answers of the model are left out", t->left_out);
		transcript_text(&k->c->out, "| ", t->words);
		if ((rc = record_model(k, t, err)) != 0)
			return rc;
		*ask = (struct model_ask){.until_us = ask->until_us};
	}
}

/* Words of the model's end the run, when it says that they do; or finish did. */
static int
one_turn(struct course *k, struct err *err)
{
	AUTO_BUF struct buf said = BUF(NOTE_MAX);
	AUTO_FREE char *note = NULL;
	struct model_ask ask = {.answers = k->answers,
	    .nanswers = k->nanswers,
	    .until_us = k->begin_us + k->may.time_s * 1000000};
	struct agent_steer *steer = k->c->steer;
	struct model_turn t = {0};
	int rc = broker_hold(k->c->broker, err);

	if (rc != 0)
		return rc;
	note = prompt_note(k);
	transcript_text(&k->c->out, "# ", str_z(note));
	buf_put_str(&said, str_z(note));
	steer_words(steer, &said);
	ask.note = buf_str(&said);
	if ((rc = answer_get(k, &ask, &t, err)) != 0)
		return rc;
	if (steer != NULL)
		steer_given(steer);
	k->spent.turns++;
	budget_turn(k, &t);
	transcript_turn(&k->c->out, (unsigned)k->turn);
	transcript_text(&k->c->out, "| ", t.words);
	if ((rc = record_model(k, &t, err)) != 0)
		return rc;
	if (t.done) {
		k->finished = str_dup(t.words);
		k->outcome = "done";
	}
	return t.done ? 0 : tools_run(k, &t, err);
}

int
agent_loop(const struct loop_config *c, struct loop_end *ret, struct err *err)
{
	AUTO_COURSE struct course k = {.c = c,
	    .begin_us = clock_boot_us(),
	    .words = xstrdup(broker_plan(c->broker)->words),
	    .may = budget_of(c)};
	struct err e = {0};
	const char *status = NULL;
	char *over = NULL;
	int rc;

	for (k.turn = 1;; k.turn++) {
		if ((over = budget_spent(&k, &status)) != NULL)
			return finish(&k, status, over, ret, err);
		rc = one_turn(&k, &e);
		if (rc != 0 && (over = budget_calls_over(&k, &status)) != NULL)
			return finish(&k, status, over, ret, err);
		if (rc == ERR_TIMEOUT && budget_left_seconds(&k) == 0)
			continue; /* says which budget */
		if (rc != 0 && c->steer != NULL && c->steer->stop != NULL)
			return finish(&k, "stopped", xstrdup(c->steer->stop), ret, err);
		if (rc != 0)
			return finish(&k, "error", xstrdup(e.msg), ret, err);
		if (k.finished != NULL)
			return finish(&k, k.outcome, xstrdup(k.finished), ret, err);
	}
}
