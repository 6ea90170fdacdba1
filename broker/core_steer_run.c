/*
 * What people's words do to a run (process: core): who gave it some, what its agent is told now and
 * when it comes back, what of it a core that is started again has from the log. Who gives a run
 * words is from then on no one who could sign for what it, its parent or a child of it does, as
 * long as the run at the top lives; so they are kept there.
 */
#include "broker/core_steer.h"

#include <stdlib.h>

#include "broker/core_child.h"
#include "broker/core_peer.h"
#include "broker/core_question.h"
#include "broker/core_run.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct core_say {
	TAILQ_ENTRY(core_say) link;
	uint64_t seq;
	char *by, *text;
};

/* --- words ----------------------------------------------------------------------------- */

bool
core_steer_gave_words(const struct core_run *run, struct str person)
{
	const struct core_run *root = core_child_root((struct core_run *)(uintptr_t)run);

	for (size_t i = 0; i < root->nspoke; i++)
		if (str_eq(person, root->spoke[i]))
			return true;
	return false;
}

void
core_steer_words(const struct core_run *run, struct policy_input *in)
{
	const struct core_run *root = core_child_root((struct core_run *)(uintptr_t)run);

	in->kin = str_z(root->id);
	in->words = root->spoke;
	in->nwords = root->nspoke;
}

bool
core_steer_words_room(const struct core_run *run, struct str person)
{
	const struct core_run *root = core_child_root((struct core_run *)(uintptr_t)run);

	return root->nspoke < CORE_SPOKE_MAX || core_steer_gave_words(run, person) ||
	       str_eqz(person, run->owner);
}

void
core_steer_words_add(struct core_run *run, struct str person)
{
	struct core_run *root = core_child_root(run);

	if (str_eqz(person, run->owner) || core_steer_gave_words(run, person) ||
	    root->nspoke == CORE_SPOKE_MAX)
		return;
	root->spoke[root->nspoke++] = str_mem(str_dup(person), person.n);
}

/* --- to the agent ---------------------------------------------------------------------- */

static void
send(const struct core_run *run, enum core_how how, uint64_t seq, const char *by, const char *text)
{
	AUTO_BUF struct buf b = BUF(16384);

	if (run->peer == NULL || run->peer->state != CORE_S_RUN)
		return;
	buf_u8(&b, (uint8_t)how);
	buf_u64(&b, seq);
	buf_lz(&b, by);
	buf_lz(&b, text);
	core_send(run->peer, MSG_A_STEER, &b);
}

/* Of the run's own kin below it. */
static bool
is_below(const struct core_run *r, const struct core_run *run)
{
	while ((r = core_child_parent(r)) != NULL)
		if (r == run)
			return true;
	return false;
}

/* Children stand still and go on with their parent. */
static void
hold(struct core_run *run, bool on, const char *by)
{
	struct core_run *r;

	run->paused = on;
	send(run, on ? HOW_PAUSE : HOW_RESUME, 0, by, "");
	TAILQ_FOREACH (r, &run->core->runs, link)
		if (is_below(r, run) && r->paused != on) {
			r->paused = on;
			send(r, on ? HOW_PAUSE : HOW_RESUME, 0, by, "");
		}
}

static void
not_stopped(void *arg)
{
	struct core_run *run = arg;

	run->until = NULL;
	log_warn("run %s: its agent did not stop it in time", run->id);
	core_run_end(
	    run, "stopped", STR("stopped by a person; its agent did not end it in time"), false);
}

/* From the first time on that it was said: to say it again gives no more time. */
static void
stopping(struct core_run *run, const char *text)
{
	if (run->stopping != NULL)
		return;
	run->stopping = xstrdup(text);
	loop_timer_del(run->until);
	run->until = loop_timer_add(run->core->loop, CORE_STOP_MS, not_stopped, run);
}

static char *
stop_words(const char *by, struct str reason)
{
	return xasprintf("stopped by %s%s%.*s", by, reason.n != 0 ? ": " : "", STR_ARG(reason));
}

static void
stop(struct core_run *run, const char *by, const char *reason)
{
	AUTO_FREE char *text = stop_words(by, str_z(reason));
	const struct core_run *r;

	if (run->peer == NULL) { /* nobody who could do it in order */
		core_run_end(run, "stopped", str_z(text), false);
		return;
	}
	stopping(run, text);
	send(run, HOW_STOP, 0, by, text);
	/* Its agent may wait for one of them. */
	TAILQ_FOREACH (r, &run->core->runs, link)
		if (is_below(r, run))
			send(r, HOW_STOP, 0, by, text);
}

static struct core_say *
say_add(struct core_run *run, uint64_t seq, const char *by, const char *text)
{
	struct core_say *s = xcalloc(1, sizeof(*s));

	s->seq = seq;
	s->by = xstrdup(by);
	s->text = xstrdup(text);
	TAILQ_INSERT_TAIL(&run->says, s, link);
	run->nsays++;
	return s;
}

void
core_steer_do(struct core_run *run, enum core_how how, int64_t question, uint64_t seq,
    const char *by, const char *text)
{
	switch (how) {
	case HOW_PAUSE:
	case HOW_RESUME: hold(run, how == HOW_PAUSE, by); break;
	case HOW_STOP: stop(run, by, text); break;
	case HOW_SAY: {
		const struct core_say *say = say_add(run, seq, by, text);

		if (!core_question_answer(run, question, seq, say->by, say->text))
			send(run, HOW_SAY, seq, say->by, say->text);
		break;
	}
	}
}

void
core_steer_resend(struct core_run *run, uint64_t heard)
{
	struct core_say *s;

	TAILQ_FOREACH (s, &run->says, link)
		if (s->seq > heard)
			send(run, HOW_SAY, s->seq, s->by, s->text);
	if (run->paused)
		send(run, HOW_PAUSE, 0, run->owner, "");
	for (const struct core_run *r = run; r != NULL; r = core_child_parent(r))
		if (r->stopping != NULL)
			send(run, HOW_STOP, 0, run->owner, r->stopping);
}

void
core_steer_free(struct core_run *run)
{
	struct core_say *s;

	while ((s = TAILQ_FIRST(&run->says)) != NULL) {
		TAILQ_REMOVE(&run->says, s, link);
		free(s->by);
		free(s->text);
		free(s);
	}
	for (size_t i = 0; i < run->nspoke; i++)
		free((void *)(uintptr_t)run->spoke[i].p);
	run->nspoke = 0;
	free(run->stopping);
}

/* --- after a restart ------------------------------------------------------------------- */

static const char *
message_kept(struct core_run *run, uint64_t seq, const struct json *data)
{
	AUTO_BUF struct buf frame = BUF(4 * CORE_SAY_MAX), plain = BUF(BLOB_PLAIN_MAX);
	struct str by = json_str(json_get(data, "by")), to = json_str(json_get(data, "to"));
	struct core_run *hears = to.n != 0 ? core_run_find(run->core, to) : run;
	AUTO_FREE char *who = str_dup(by), *text = NULL;
	struct blob_ref ref;
	struct err why;

	if (by.n == 0)
		return "by";
	core_steer_words_add(run, by);
	if (hears == NULL || !hears->rebuilt) /* that has ended; memory has it */
		return NULL;
	if (!enc_unbase64(json_str(json_get(data, "frame")), &frame) ||
	    blob_ref_parse(json_get(data, "content"), &ref, &why) != 0 ||
	    blob_open(run->key, buf_str(&frame), &ref, &plain, &why) != 0)
		return "frame";
	text = buf_dup_z(&plain);
	(void)say_add(hears, seq, who, text);
	hears->nsteers++;
	return NULL;
}

/* As hold() did it then; the agents are told when they come back. */
static void
hold_kept(struct core_run *run, bool on)
{
	struct core_run *r;

	run->paused = on;
	TAILQ_FOREACH (r, &run->core->runs, link)
		if (r->rebuilt && is_below(r, run))
			r->paused = on;
}

/* A stop that was on the record when core died holds all the same. */
static void
stop_kept(struct core_run *run, const struct json *data)
{
	AUTO_FREE char *by = str_dup(json_str(json_get(data, "by"))), *text = NULL;

	text = stop_words(by, json_str(json_get(data, "reason")));
	stopping(run, text);
}

const char *
core_steer_kept(
    struct core *c, struct str id, const char *type, uint64_t seq, const struct json *data)
{
	struct core_run *run = core_run_find(c, id);

	if (run == NULL)
		return NULL;
	if (strcmp(type, "run.message") == 0)
		return message_kept(run, seq, data);
	if (!run->rebuilt)
		return NULL;
	if (strcmp(type, "run.stop") == 0)
		stop_kept(run, data);
	else
		hold_kept(run, strcmp(type, "run.pause") == 0);
	return NULL;
}
