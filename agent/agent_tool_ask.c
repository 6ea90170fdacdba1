/*
 * What the model may wait for: people (process: cofferdam-agent). An answer is text for the model.
 * No answer, and nothing typed here, is an approval: those are signed elsewhere, and the broker
 * alone looks at them.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jcs.h"
#include "common/json.h"
#include "common/xalloc.h"
#include "agent/agent_steer.h"
#include "agent/agent_tools.h"

#include "common/banned.h"

#define LOOK_MS 200 /* between two questions to the broker */
#define ANSWER_MAX 4096

struct waiting {
	struct course *k;
	const struct model_call *call;
	uint64_t until_us;
	int tty; /* where a person may type; -1: nowhere */
	struct buf typed;
	struct buf reply; /* of the broker's, newest */
};

/* A moment, or until something is typed. ERR_STATE: the run was ended. */
static int
moment(struct waiting *w, struct err *err)
{
	struct broker *b = w->k->c->broker;
	struct pollfd p[] = {
	    {.fd = *broker_fd(b), .events = POLLIN}, {.fd = w->tty, .events = POLLIN}};
	char room[512];
	ssize_t n;

	if (poll(p, ARRAY_LEN(p), LOOK_MS) < 0 && errno != EINTR)
		return err_sys(err, ERR_SYSTEM, errno, "poll");
	if (p[0].revents != 0 && broker_watch(b))
		return err_set(
		    err, ERR_STATE, "%s", broker_killed(b) != NULL ? broker_killed(b) : "stopped");
	if (p[1].revents == 0)
		return 0;
	n = read(w->tty, room, sizeof(room));
	if (n <= 0)
		w->tty = -1; /* nobody there any more: the pending question stays */
	else
		buf_put(&w->typed, room, (size_t)n);
	return 0;
}

static bool
is_over(const struct waiting *w)
{
	return clock_boot_us() >= w->until_us;
}

static struct waiting
waiting_begin(struct course *k, const struct model_call *call, uint64_t usual)
{
	uint64_t s = call->args.given[1] ? (uint64_t)call->args.number[1] : usual;

	return (struct waiting){.k = k,
	    .call = call,
	    .tty = -1,
	    .until_us = clock_boot_us() + tools_wait_seconds(k, s) * 1000000,
	    .typed = BUF(ANSWER_MAX),
	    .reply = BUF(8192)};
}

static void
waiting_end(struct waiting *w)
{
	buf_free(&w->typed);
	buf_free(&w->reply);
}
#define AUTO_WAITING __attribute__((cleanup(waiting_end)))

static int
query(struct waiting *w, const char *verb, struct str args, struct json_doc **ret, struct err *err)
{
	int rc;

	buf_reset(&w->reply);
	rc = broker_query(w->k->c->broker, verb, args, &w->reply, err);
	return rc != 0 ? rc : json_parse(buf_str(&w->reply), "the broker's reply", ret, err);
}

/* --- an approval ----------------------------------------------------------------- */

static void
state_put(struct buf *out, const struct json *o, const char *key, const char *words)
{
	struct str v = json_str(json_get(o, key));

	if (v.n != 0)
		buf_printf(out, "%s %.*s", words, STR_ARG(v));
}

static void
approval_tell(const struct json *o, struct tool_done *ret)
{
	struct str state = json_str(json_get(o, "state"));
	struct buf *out = &ret->text;

	buf_printf(out, "request %.*s of target %.*s is %.*s", STR_ARG(json_str(json_get(o, "id"))),
	    STR_ARG(json_str(json_get(o, "target"))), STR_ARG(state));
	if (str_eqz(state, "armed")) {
		state_put(
		    out, o, "use_by", ": it is approved; repeat exactly that action once, by");
	} else if (str_eqz(state, "pending") || str_eqz(state, "recording")) {
		state_put(out, o, "needs", ": it waits for");
		state_put(out, o, "approve_by", ", who may sign until");
		buf_put_z(out, ". You can do other work, or wait again.");
	} else {
		state_put(out, o, "reason", ":");
		buf_put_z(out, ". That is final.");
	}
	buf_put_c(out, '\n');
	ret->words = str_dup(state);
}

int
tool_wait_approval(
    struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err)
{
	AUTO_WAITING struct waiting w = waiting_begin(k, call, 60);
	AUTO_BUF struct buf args = BUF(1024);
	struct err e = {0};
	struct jcs j;
	int rc;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "id",
	    str_mem(call->args.text[0].p, call->args.text[0].n < 100 ? call->args.text[0].n : 100));
	jcs_close(&j);
	for (;;) {
		AUTO(json) struct json_doc *d = NULL;
		struct str state;

		rc = query(&w, "approval", buf_str(&args), &d, &e);
		if (rc == ERR_NOT_FOUND || rc == ERR_INVALID)
			return tools_refuse(ret, e.msg);
		if (rc != 0)
			return err_set(err, rc, "%s", e.msg);
		state = json_str(json_get(json_root(d), "state"));
		if ((!str_eqz(state, "pending") && !str_eqz(state, "recording")) || is_over(&w)) {
			approval_tell(json_root(d), ret);
			return 0;
		}
		if ((rc = moment(&w, err)) != 0)
			return rc;
	}
}

/* --- a question ------------------------------------------------------------------ */

static int
question_put(struct waiting *w, int64_t *ret_id, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_BUF struct buf args = BUF(65536);
	struct jcs j;
	int rc;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "text", w->call->args.text[0]);
	jcs_close(&j);
	rc = query(w, "question", buf_str(&args), &d, err);
	*ret_id = json_int(json_get(json_root(d), "id"));
	return rc;
}

static int
question_verb(
    struct waiting *w, const char *verb, int64_t id, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf args = BUF(64);

	buf_printf(&args, "{\"id\":%lld}", (long long)id);
	return query(w, verb, buf_str(&args), ret, err);
}

static void
answered(struct tool_done *ret, struct str by, struct str text)
{
	buf_printf(&ret->text, "%.*s answers (this is no approval):\n%.*s\n", STR_ARG(by),
	    STR_ARG(str_trim(text)));
	ret->words = xstrdup("answered");
}

/* A line that was typed; it is kept short by the terminal itself. */
static bool
line_typed(const struct waiting *w)
{
	return buf_over(&w->typed) ||
	       (w->typed.n != 0 && memchr(w->typed.p, '\n', w->typed.n) != NULL);
}

/* 0 and *done: it is answered, or the time is over. */
static int
question_look(struct waiting *w, int64_t *id, struct tool_done *ret, bool *done, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *o;
	int rc = question_verb(w, "answer", *id, &d, err);

	if (rc == ERR_NOT_FOUND) /* a core that was restarted knows nothing of it */
		return question_put(w, id, err);
	if (rc != 0)
		return rc;
	o = json_root(d);
	*done = str_eqz(json_str(json_get(o, "state")), "answered");
	if (*done && w->k->c->steer != NULL) /* not to be told it as a message again */
		w->k->c->steer->heard = (uint64_t)json_int(json_get(o, "seq"));
	if (*done)
		answered(ret, json_str(json_get(o, "by")), json_str(json_get(o, "text")));
	return 0;
}

static int
question_wait(struct waiting *w, int64_t *id, struct tool_done *ret, struct err *err)
{
	bool done = false;
	int rc = 0;

	while (rc == 0 && !done) {
		rc = question_look(w, id, ret, &done, err);
		if (rc == 0 && !done && line_typed(w)) {
			answered(ret, STR("The person at the terminal"), buf_str(&w->typed));
			return 0;
		}
		if (rc == 0 && !done && is_over(w)) {
			ret->cause = "timeout";
			ret->words = xstrdup("nobody has answered in time");
			return 0;
		}
		if (rc == 0 && !done)
			rc = moment(w, err);
	}
	return rc;
}

int
tool_ask(struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err)
{
	AUTO_WAITING struct waiting w = waiting_begin(k, call, 600);
	AUTO(json) struct json_doc *d = NULL;
	struct err e = {0};
	int64_t id = 0;
	int rc = question_put(&w, &id, &e);

	if (rc == ERR_INVALID)
		return tools_refuse(ret, e.msg);
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		w.tty = STDIN_FILENO;
	transcript_line(&k->c->out, "? %sor: cofferdam answer %s TEXT",
	    w.tty >= 0 ? "type an answer, " : "waits for an answer, ",
	    broker_plan(k->c->broker)->run);
	if (rc == 0)
		rc = question_wait(&w, &id, ret, &e);
	if (rc == 0)
		(void)question_verb(&w, "question_end", id, &d, &(struct err){0});
	return rc == 0 ? 0 : err_set(err, rc, "%s", e.msg);
}
