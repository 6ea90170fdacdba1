/*
 * One run's account, record by record. Runs in the command line. The records of the broker are
 * taken as they are, and those of the agent as what it says: only what cannot both be so is named.
 */
#include <inttypes.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/replay_doubt_int.h"
#include "audit/replay_text.h"

#include "common/banned.h"

static bool
content(struct doubts *d, struct str ref, struct buf *out)
{
	return ref.n != 0 && *ref.p == '{' && replay_blobs_read(d->blobs, ref, out, NULL) == 0;
}

/* What the agent said, if it can be read here; else it is said once that it was not compared. */
static bool
claimed(struct doubts *d, struct doubt_run *run, const struct record *r, struct buf *out)
{
	if (content(d, canon_get(r->data, "content"), out))
		return true;
	if (run->sealed == DOUBT_NONE)
		run->sealed = r->seq;
	return false;
}

/* --- claims about a model's answer --------------------------------------------------------------
 */

static void
check(struct doubts *d, struct doubt_run *run, const struct doubt_claim *c)
{
	struct str text = str_mem(c->text, c->n);

	if (!c->code)
		run->untold = DOUBT_NONE;
	if (c->text == NULL || !run->heard)
		return;
	if (c->code && !said_code(&run->said, text))
		doubt_add(d, run, DOUBT_UNSEEN_CODE, c->seq, run->answer,
		    "the code that the agent says it ran is not in what the model answered at "
		    "record %" PRIu64,
		    run->answer);
	if (!c->code && !said_words(&run->said, text))
		doubt_add(d, run, DOUBT_UNSEEN_WORDS, c->seq, run->answer,
		    "these words are not in what the model answered at record %" PRIu64,
		    run->answer);
}

/*
 * An answer is let go once its outcome is on its way to the log, not when it is there: what the
 * agent tells meanwhile is held until the outcome of the exchange that is open has come.
 */
static void
claim(struct doubts *d, struct doubt_run *run, uint64_t seq, bool code, const struct buf *text)
{
	struct doubt_claim c = {.seq = seq, .code = code};

	if (text != NULL) {
		c.text = str_dup(buf_str(text));
		c.n = text->n;
	}
	if (run->nloop != 0 && run->nheld < HELD_MAX) {
		run->held[run->nheld++] = c;
		return;
	}
	check(d, run, &c);
	free(c.text);
}

static void
check_held(struct doubts *d, struct doubt_run *run)
{
	for (size_t i = 0; i < run->nheld; i++)
		check(d, run, &run->held[i]);
	doubt_run_drop(run);
}

void
doubt_run_drop(struct doubt_run *run)
{
	while (run->nheld != 0)
		free(run->held[--run->nheld].text);
}

/* --- executions ------------------------------------------------------------------------------- */

/* Given by a person. Versions before recorded its arguments themselves. */
static bool
is_command(const struct record *r)
{
	return canon_get(r->data, "argc").n != 0 || canon_get(r->data, "argv").n != 0;
}

static void
on_exec(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	AUTO_BUF struct buf code = BUF(REPLAY_TEXT_MAX);

	run->alone = run->open == 0;
	run->open++;
	run->exec = r->seq;
	run->exec_mono = r->mono;
	run->acts = 0;
	if ((run->heard || run->nloop != 0) && !is_command(r) && claimed(d, run, r, &code))
		claim(d, run, r->seq, true, &code);
}

static void
check_result(struct doubts *d, const struct doubt_run *run, const struct record *r)
{
	uint64_t us, n;

	if (canon_u64(canon_get(r->data, "duration_us"), &us) && r->mono >= run->exec_mono &&
	    us > r->mono - run->exec_mono)
		doubt_add(d, run, DOUBT_DURATION, r->seq, run->exec,
		    "the agent says that it took %" PRIu64 ".%06" PRIu64 " s, but record %" PRIu64
		    " was made only %" PRIu64 ".%06" PRIu64 " s before",
		    us / 1000000, us % 1000000, run->exec, (r->mono - run->exec_mono) / 1000000,
		    (r->mono - run->exec_mono) % 1000000);
	if (run->alone && canon_u64(canon_get(r->data, "actions"), &n) && n != run->acts)
		doubt_add(d, run, DOUBT_COUNT, r->seq, run->exec,
		    "the agent counts %" PRIu64 " actions in this execution, the broker recorded "
		    "%" PRIu64,
		    n, run->acts);
}

static void
on_result(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	AUTO_BUF struct buf text = BUF(REPLAY_TEXT_MAX);
	struct str cause = canon_plain(canon_get(r->data, "cause"));

	if (run->open != 0) {
		check_result(d, run, r);
		run->open--;
	} else if (!str_eqz(cause, "not_started")) {
		doubt_add(d, run, DOUBT_UNTOLD_EXEC, r->seq, run->result,
		    "the agent reports the result of an execution that it never told of");
	}
	run->result = r->seq;
	run->result_mono = r->mono;
	(void)snprintf(run->cause, sizeof(run->cause), "%.*s", STR_ARG(cause));
	if (claimed(d, run, r, &text))
		doubt_named(d, run, r->seq, buf_str(&text));
}

/* --- the model -------------------------------------------------------------------------------- */

static void
untold(struct doubts *d, struct doubt_run *run)
{
	if (run->untold != DOUBT_NONE && run->model)
		doubt_add(d, run, DOUBT_UNTOLD_ANSWER, run->untold, DOUBT_NONE,
		    "the agent never told what the model answered here");
	run->untold = DOUBT_NONE;
}

static void
on_model(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	AUTO_BUF struct buf words = BUF(REPLAY_TEXT_MAX);

	if (!run->model)
		run->first_model = r->seq;
	run->model = true;
	if (!claimed(d, run, r, &words)) {
		claim(d, run, r->seq, false, NULL);
		return;
	}
	doubt_named(d, run, r->seq, buf_str(&words));
	claim(d, run, r->seq, false, &words);
}

static void
on_note(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	AUTO_BUF struct buf text = BUF(REPLAY_TEXT_MAX);

	if (claimed(d, run, r, &text))
		doubt_named(d, run, r->seq, buf_str(&text));
}

/* --- what the broker saw ---------------------------------------------------------------------- */

static void
alone(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	if (run->result == DOUBT_NONE) {
		doubt_add(d, run, DOUBT_UNTOLD_ACTION, r->seq, DOUBT_NONE,
		    "no execution that the agent told of was running: it had told of none yet");
		return;
	}
	doubt_add(d, run, DOUBT_UNTOLD_ACTION, r->seq, run->result,
	    "no execution that the agent told of was running: it had reported the last one over "
	    "(%s) at record %" PRIu64 ", %" PRIu64 " ms before",
	    run->cause[0] != '\0' ? run->cause : "-", run->result,
	    r->mono >= run->result_mono ? (r->mono - run->result_mono) / 1000 : 0);
}

static void
on_action(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	struct str http = canon_get(canon_get(r->data, "request"), "http");

	if (str_eqz(canon_plain(canon_get(http, "via")), "loop")) {
		if (run->nloop < LOOP_OPEN_MAX)
			run->loop[run->nloop++] = r->seq;
		run->traffic = true;
		return;
	}
	if (run->nacts++ == 0)
		run->first_act = r->seq;
	run->acts++;
	run->early += !run->told;
	if (run->told && run->open == 0)
		alone(d, run, r);
}

/* Whether this is the end of an exchange with a model. */
static bool
loop_end(struct doubt_run *run, uint64_t seq)
{
	for (size_t i = 0; i < run->nloop; i++) {
		if (run->loop[i] != seq)
			continue;
		run->loop[i] = run->loop[--run->nloop];
		return true;
	}
	return false;
}

static void
on_outcome(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	AUTO_BUF struct buf body = BUF(REPLAY_TEXT_MAX);
	struct str ref = canon_get(r->data, "answer");
	uint64_t seq;

	if (!canon_u64(canon_get(r->data, "action_seq"), &seq) || !loop_end(run, seq))
		return;
	if (str_eqz(canon_plain(canon_get(r->data, "status")), "ok")) {
		untold(d, run);
		run->answer = run->untold = r->seq;
		run->heard = content(d, ref, &body) && said_read(&run->said, buf_str(&body));
		check_held(d, run);
	} else if (run->nloop == 0) {
		check_held(d, run); /* against the answer before */
	}
}

/* --- all -------------------------------------------------------------------------------------- */

static void
on_end(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	check_held(d, run);
	untold(d, run);
	run->ended = true;
	run->end = r->seq;
}

static const struct {
	const char *type;
	void (*on)(struct doubts *d, struct doubt_run *run, const struct record *r);
} handlers[] = {
    {"agent.model", on_model},
    {"agent.exec", on_exec},
    {"agent.result", on_result},
    {"agent.note", on_note},
    {"action", on_action},
    {"outcome", on_outcome},
    {"run.end", on_end},
};

void
doubt_run_record(struct doubts *d, struct doubt_run *run, const struct record *r)
{
	if (str_eqz(r->src, "agent")) {
		run->told = true;
		if (run->ended)
			doubt_add(d, run, DOUBT_AFTER_END, r->seq, run->end,
			    "the agent goes on telling after the run had ended at record %" PRIu64,
			    run->end);
	}
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++)
		if (str_eqz(r->type, handlers[i].type))
			handlers[i].on(d, run, r);
}

void
doubt_run_end(struct doubts *d, struct doubt_run *run)
{
	check_held(d, run);
	if (!run->told && run->nacts != 0)
		doubt_add(d, run, DOUBT_NO_CLAIMS, run->first_act, DOUBT_NONE,
		    "the agent told nothing of this run: of its %" PRIu64
		    " actions there is the broker's account alone",
		    run->nacts);
	if (run->told && run->early != 0)
		doubt_add(d, run, DOUBT_UNTOLD_ACTION, run->first_act, DOUBT_NONE,
		    "%" PRIu64 " actions from this one on came before the agent told of anything",
		    run->early);
	if (run->model && !run->traffic)
		doubt_add(d, run, DOUBT_NO_TRAFFIC, run->first_model, DOUBT_NONE,
		    "no model traffic went through the broker: what the model said is the agent's "
		    "account alone");
	if (run->sealed != DOUBT_NONE)
		doubt_add(d, run, DOUBT_SEALED, run->sealed, DOUBT_NONE,
		    "what the agent said from here on cannot be read here, and was not held "
		    "against the broker's records");
}
