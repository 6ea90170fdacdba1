/*
 * The built-in loop. Runs in cofferdam-agent with the user's rights and holds nothing. It
 * believes neither the model nor the output: code goes nowhere but into the sandbox, and
 * is on the record before it runs. What cannot be recorded is not run.
 */
#include "agent/agent_loop.h"

#include <string.h>

#include "common/clock.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct talk {
	struct model_message *m;
	size_t n;
};

static void
talk_add(struct talk *t, enum model_role role, struct str text)
{
	t->m = xreallocarray(t->m, t->n + 1, sizeof(*t->m));
	t->m[t->n++] =
	    (struct model_message){.role = role, .text = {.p = str_dup(text), .n = text.n}};
}

static void
talk_free(struct talk *t)
{
	for (size_t i = 0; i < t->n; i++)
		free((void *)(uintptr_t)t->m[i].text.p);
	free(t->m);
}
#define AUTO_TALK __attribute__((cleanup(talk_free)))

void
loop_result_fields(const struct sandbox_result *r, uint64_t turn, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "cause", sandbox_cause_name(r->cause));
	jcs_int(&j, "duration_us", (int64_t)r->duration_us);
	jcs_int(&j, "kept_bytes", (int64_t)(r->head.n + r->tail.n));
	jcs_int(&j, "total_bytes", (int64_t)r->total);
	jcs_int(&j, "turn", (int64_t)turn);
	jcs_int(&j, "value", r->value);
	jcs_close(&j);
}

static int
record_model(
    const struct loop_config *c, const struct model_turn *t, uint64_t turn, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1024);
	struct jcs j;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	jcs_bool(&j, "done", t->done);
	jcs_z(&j, "model", c->model->name);
	jcs_int(&j, "turn", (int64_t)turn);
	jcs_close(&j);
	return broker_event(c->broker, "model", buf_str(&fields), t->words, err);
}

static int
record_exec(const struct loop_config *c, const struct model_turn *t, uint64_t turn, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1024);
	struct jcs j;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	jcs_str(&j, "language", t->language);
	jcs_int(&j, "turn", (int64_t)turn);
	jcs_close(&j);
	return broker_event(c->broker, "exec", buf_str(&fields), t->code, err);
}

/* The output as the model and the record get it; bytes that are no text are for nobody's eyes. */
static int
record_result(const struct loop_config *c, const struct sandbox_result *r, uint64_t turn,
    struct talk *talk, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(1024), text = BUF((size_t)1 << 20);
	AUTO_FREE char *words = sandbox_result_words(r);
	int rc;

	loop_result_fields(r, turn, &fields);
	sandbox_result_text(r, &text);
	transcript_text(&c->out, "> ", buf_str(&text));
	transcript_line(&c->out, "= %s, %llu bytes, %llu.%03llu s", words,
	    (unsigned long long)r->total, (unsigned long long)(r->duration_us / 1000000),
	    (unsigned long long)(r->duration_us / 1000 % 1000));
	rc = broker_event(c->broker, "result", buf_str(&fields), buf_str(&text), err);
	if (rc != 0)
		return rc;
	buf_printf(&text, "\n[%s]\n", words);
	talk_add(talk, MODEL_RESULT, buf_str(&text));
	return 0;
}

/* A language that the sandbox does not have is an answer to the model, not the end of the run. */
static int
refused(
    const struct loop_config *c, const char *why, uint64_t turn, struct talk *talk, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(256);
	struct jcs j;
	int rc;

	jcs_init(&j, &fields);
	jcs_open(&j, NULL);
	jcs_z(&j, "cause", "not_started");
	jcs_int(&j, "turn", (int64_t)turn);
	jcs_close(&j);
	transcript_text(&c->out, "> ", str_z(why));
	if ((rc = broker_event(c->broker, "result", buf_str(&fields), str_z(why), err)) != 0)
		return rc;
	talk_add(talk, MODEL_RESULT, str_z(why));
	return 0;
}

static int
run_code(const struct loop_config *c, const struct model_turn *t, uint64_t turn, uint64_t left_s,
    struct talk *talk, struct err *err)
{
	AUTO_FREE char *language = str_dup(t->language);
	uint64_t limit = c->exec_s != 0 ? c->exec_s : LOOP_EXEC_DEFAULT;
	struct sandbox_exec x = {.language = language,
	    .code = t->code,
	    .stdin_fd = -1,
	    .timeout_s = (uint32_t)(limit < left_s ? limit : left_s),
	    .merge = true,
	    .head = LOOP_HEAD,
	    .tail = LOOP_TAIL,
	    .watch = broker_watch,
	    .watch_arg = c->broker,
	    .watch_fd = broker_fd(c->broker)};
	struct sandbox_result r;
	struct err e = {0};
	int rc = record_exec(c, t, turn, err);

	if (rc != 0)
		return rc;
	rc = sandbox_exec(c->sandbox, &x, &r, &e);
	if (rc == ERR_NOT_FOUND || rc == ERR_TOO_LARGE)
		return refused(c, e.msg, turn, talk, err);
	if (rc != 0)
		return err_set(err, rc, "%s", e.msg);
	if (broker_killed(c->broker) != NULL)
		rc = err_set(err, ERR_STATE, "%s", broker_killed(c->broker));
	else
		rc = record_result(c, &r, turn, talk, err);
	if (rc == 0 && r.cause == SANDBOX_UNAVAILABLE)
		rc = err_set(err, ERR_UNAVAILABLE, "the sandbox went away");
	sandbox_result_free(&r);
	return rc;
}

static void
show(const struct loop_config *c, const struct model_turn *t, uint64_t turn)
{
	transcript_turn(&c->out, (unsigned)turn);
	transcript_text(&c->out, "| ", t->words);
	if (t->language.n != 0) {
		transcript_line(&c->out, "$ %.*s", STR_ARG(t->language));
		transcript_text(&c->out, "  ", t->code);
	}
}

static int
finish(const struct loop_config *c, const char *status, char *text, struct loop_end *ret,
    struct err *err)
{
	int rc = broker_end(c->broker, status, text, err);

	*ret = (struct loop_end){.status = status, .text = text};
	return rc;
}

static uint64_t
left_seconds(uint64_t begin_us, uint64_t max_s)
{
	uint64_t gone = (clock_boot_us() - begin_us) / 1000000;

	return gone < max_s ? max_s - gone : 0;
}

/* Sets *over when the conversation has come to its end. */
static int
one_turn(const struct loop_config *c, uint64_t turn, uint64_t left, struct talk *talk, char **over,
    struct err *err)
{
	struct model_turn t = {0};
	int rc;

	if ((rc = c->model->next(c->model, talk->m, talk->n, &t, err)) != 0)
		return rc;
	show(c, &t, turn);
	if ((rc = record_model(c, &t, turn, err)) != 0)
		return rc;
	talk_add(talk, MODEL_SAID, t.words);
	if (t.done) {
		*over = str_dup(t.words);
		return 0;
	}
	return t.language.n != 0 ? run_code(c, &t, turn, left, talk, err) : 0;
}

int
agent_loop(const struct loop_config *c, struct loop_end *ret, struct err *err)
{
	uint64_t turns = c->max_turns != 0 ? c->max_turns : LOOP_TURNS_DEFAULT;
	uint64_t time_s = c->max_time_s != 0 ? c->max_time_s : LOOP_TIME_DEFAULT;
	uint64_t begin = clock_boot_us();
	AUTO_TALK struct talk talk = {0};
	struct err e = {0};
	char *over = NULL;

	talk_add(&talk, MODEL_TASK, str_z(c->task));
	for (uint64_t turn = 1;; turn++) {
		uint64_t left = left_seconds(begin, time_s);

		if (turn > turns)
			return finish(c, "budget",
			    xasprintf(
				"the budget of %llu turns is spent", (unsigned long long)turns),
			    ret, err);
		if (left == 0)
			return finish(c, "budget",
			    xasprintf(
				"the budget of %llu seconds is spent", (unsigned long long)time_s),
			    ret, err);
		if (one_turn(c, turn, left, &talk, &over, &e) != 0)
			return finish(c, "error", xstrdup(e.msg), ret, err);
		if (over != NULL)
			return finish(c, "done", over, ret, err);
	}
}
