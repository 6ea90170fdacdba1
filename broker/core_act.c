/*
 * One exchange of a client, from PG_ACT to PG_DONE (process: core). Order is the promise: facts,
 * verdict, records durable, lease, answer, outcome. A step that cannot be recorded refuses
 * what it was for; nothing waits longer than CORE_RECORD_MS for the log.
 */
#include "broker/core_act.h"

#include <stdlib.h>

#include "broker/core_approve.h"
#include "broker/core_attempt.h"
#include "broker/core_cancel.h"
#include "broker/core_data.h"
#include "broker/core_lease.h"
#include "broker/core_preview.h"
#include "broker/core_receipt.h"
#include "broker/core_run.h"
#include "broker/core_witness.h"
#include "common/log.h"
#include "common/pgwire.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- end ------------------------------------------------------------------------- */

/* What was judged of it is forgotten; a request that nobody has seen, too. */
static void
unjudge(struct core_act *act)
{
	const struct core_action *last =
	    act->nactions != 0 ? act->actions[act->nactions - 1] : NULL;

	if (act->phase == CORE_PHASE_PREVIEW && last != NULL && last->request_new &&
	    core_request_open(last->request))
		core_approve_state(last->request, CORE_RQ_VOID, "not_recorded");
	for (size_t i = 0; i < act->nactions; i++) {
		core_record_forget(act->tickets[i]);
		core_action_free(act->actions[i]);
		act->tickets[i] = NULL;
	}
	for (size_t i = 0; i < act->nkept; i++)
		free(act->kept[i]);
	free(act->kept);
	act->kept = NULL;
	act->nactions = act->nkept = act->send = 0;
	act->effects = 0;
	act->refused = act->nothing_sent = act->wrap = act->copy_in = false;
	act->poison[0] = '\0';
}

void
core_act_free(struct core_act *act)
{
	if (act == NULL)
		return;
	for (size_t i = 0; i < act->nfacts; i++) {
		core_facts_forget(act->asks[i]);
		core_facts_unref(act->facts[i]);
	}
	unjudge(act);
	if (act->request != NULL)
		core_approve_forget(act->request);
	core_preview_free(act->preview);
	free(act->unwitnessed);
	free(act->sealed);
	core_txn_reset(&act->txn);
	buf_free(&act->msgs);
	free(act);
}

static void
act_end(struct core_act *act)
{
	act->conn->act = NULL;
	core_act_free(act);
}

/* The log did not take it: idle and whole, the client reads an error and may go on; else its
 * session ends. */
static void
unrecorded(struct core_act *act)
{
	const char *message = act->unwitnessed != NULL
				  ? act->unwitnessed
				  : "the decision log is not available: nothing passes unrecorded";
	struct core_conn *conn = act->conn;
	bool whole = act->kind == CORE_ACT_QUERY || act->kind == CORE_ACT_SYNC;

	/* Those whose own record is whole are not sent either. */
	for (size_t i = 0; i < act->nactions; i++)
		if (act->actions[i]->durable && act->actions[i]->d.verdict == VERDICT_ALLOW)
			core_record_not_sent(conn->from.run->core, conn->from.run->id,
			    act->actions[i]->id, act->actions[i]->seq);
	if (conn->txn.state == 'I' && !conn->pipeline && whole) {
		core_stmts_rollback(&conn->stmts);
		core_pg_send_refused(conn, &(struct core_pg_refusal){.act = act->id,
					       .sqlstate = "57P03",
					       .message = message,
					       .a = act->nactions != 0 ? act->actions[0] : NULL});
		act_end(act);
		return;
	}
	core_pg_kill(conn, "57P03", message);
}

static void
refused(struct core_act *act)
{
	const struct core_action *a = act->actions[0];

	core_pg_send_refused(act->conn, &(struct core_pg_refusal){.act = act->id,
					    .sqlstate = a->sqlstate,
					    .message = a->message,
					    .detail = a->detail,
					    .hint = a->hint,
					    .a = a});
	act_end(act);
}

/* --- records --------------------------------------------------------------------- */

static void
remember(struct core_act *act)
{
	const struct core_action *last = act->actions[act->nactions - 1];

	if (act->refused)
		core_decide_remember(act->conn->from.run, str_z(act->conn->from.target->id), last);
}

static bool
outdated(const struct core_act *act)
{
	return core_action_outdated(act->conn->from.run->core, act->actions[0]);
}

/* What waited for witnesses is looked at once more: that may have taken a while. */
static bool
overtaken(const struct core_act *act)
{
	const struct core *c = act->conn->from.run->core;

	for (size_t i = 0; i < act->nactions; i++) {
		const struct core_action *a = act->actions[i];

		if (a->d.verdict == VERDICT_ALLOW && core_witness_needed(c, a->effects) != 0 &&
		    !core_decide_holds(&act->conn->from, a))
			return true;
	}
	return outdated(act);
}

static void record(struct core_act *act);

/*
 * A policy came into force between verdict and record: what was leased by the one before is not
 * sent, and says so in the log; the exchange is judged anew, and its session goes on.
 */
static void
again(struct core_act *act)
{
	struct core_run *run = act->conn->from.run;

	for (size_t i = 0; i < act->nactions; i++)
		if (act->actions[i]->d.verdict == VERDICT_ALLOW)
			core_record_not_sent(
			    run->core, run->id, act->actions[i]->id, act->actions[i]->seq);
	unjudge(act);
	core_stmts_rollback(&act->conn->stmts);
	core_txn_copy(&act->txn, &act->conn->txn);
	core_act_judge(act);
	record(act);
}

static void
recorded(struct core_act *act)
{
	struct err err;

	if (act->failed) {
		unrecorded(act);
		return;
	}
	if (!act->nothing_sent && overtaken(act)) {
		again(act);
		return;
	}
	remember(act);
	if (act->nothing_sent) {
		refused(act);
		return;
	}
	act->phase = CORE_PHASE_SENT;
	act->sent_us = clock_boot_us();
	if (core_lease_send(act, &err) != 0)
		core_pg_kill(act->conn, err_sqlstate(err.code), err.msg);
	else
		core_cancel_due(act->conn);
}

static void
one_ack(struct core_act *act, int code)
{
	act->waiting--;
	if (code != 0)
		act->failed = true;
	if (act->waiting == 0)
		core_act_proceed(act);
}

void
core_act_acked(void *arg, const struct core_ack *ack)
{
	struct core_action *a = arg;
	struct core_act *act = a->act;

	for (size_t i = 0; i < act->nactions; i++)
		if (act->actions[i] == a)
			act->tickets[i] = NULL;
	a->seq = ack->seq;
	if (act->phase == CORE_PHASE_RECORD)
		a->receipt = core_receipt_of(ack);
	a->durable = ack->code == 0;
	if (ack->why != NULL && act->unwitnessed == NULL)
		act->unwitnessed = xstrdup(ack->why);
	one_ack(act, ack->code);
}

static void
request_acked(void *arg, const struct core_ack *ack)
{
	struct core_act *act = arg;

	act->request = NULL;
	one_ack(act, ack->code);
}

static void
record_action(struct core_act *act, size_t i)
{
	struct core_action *a = act->actions[i];
	struct core_run *run = act->conn->from.run;
	bool allowed = a->d.verdict == VERDICT_ALLOW;
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf frame = BUF(CORE_RECORD_FRAMES_MAX);
	struct core_append append = {.type = "action",
	    .run = run->id,
	    .data = &data,
	    .frame = &frame,
	    .show = str_z(a->show),
	    .dispatched = allowed ? a->id : NULL,
	    .fn = core_act_acked,
	    .arg = a};
	struct blob_ref head;
	struct err err;

	if (allowed)
		core_witness_ask(run->core, a->effects, &append);
	if (core_act_head(run, a, &frame, &head, &err) != 0) {
		log_error("action %s: %s", a->id, err.msg);
		act->failed = true;
		return;
	}
	core_data_action(
	    &data, &(struct core_data_action){.a = a,
		       .from = &act->conn->from,
		       .kind = core_act_kind_name(act->kind),
		       .head = &head,
		       .sent = allowed ? &act->sent : NULL,
		       .wrap = allowed && act->wrap,
		       .witnesses = append.witnesses,
		       .poison = !allowed && act->poison[0] != '\0' ? act->poison : NULL});
	act->tickets[i] = core_record(run->core, &append);
	if (act->tickets[i] == NULL)
		act->failed = true;
	else
		act->waiting++;
}

static void
record(struct core_act *act)
{
	struct core_action *last = act->actions[act->nactions - 1];

	act->phase = CORE_PHASE_RECORD;
	act->sent = hash_sha256(str_mem(act->msgs.p, act->send));
	for (size_t i = 0; i < act->nactions && !act->failed; i++)
		record_action(act, i);
	if (last->request_new && !act->failed) {
		if (core_approve_record(last->request, request_acked, act)) {
			act->request = last->request;
			act->waiting++;
		} else {
			act->failed = true;
		}
	} else if (last->request_new) {
		core_approve_state(last->request, CORE_RQ_VOID, "not_recorded");
	}
	/* Nothing of the act goes out: its names were never made. */
	if (act->refused && act->nactions == 1)
		core_stmts_rollback(&act->conn->stmts);
	if (act->failed)
		unrecorded(act); /* what was appended is not_sent when its ack comes */
}

void
core_act_proceed(struct core_act *act)
{
	if (act->phase == CORE_PHASE_RECORD) {
		recorded(act);
	} else if (act->failed) {
		core_pg_kill(act->conn, "57P03", "the outcome could not be recorded");
	} else {
		core_pg_send_done(act, act->answer_bytes);
		act_end(act);
	}
}

/* --- facts ----------------------------------------------------------------------- */

static void
judged(struct core_act *act)
{
	core_act_judge(act);
	if (core_preview_begin(act))
		return;
	core_decide_shown(&act->conn->from, act->actions[act->nactions - 1]);
	record(act);
}

void
core_act_previewed(struct core_act *act)
{
	if (!outdated(act)) {
		core_decide_shown(&act->conn->from, act->actions[act->nactions - 1]);
		record(act);
		return;
	}
	unjudge(act);
	core_stmts_rollback(&act->conn->stmts);
	core_txn_copy(&act->txn, &act->conn->txn);
	judged(act);
}

static void
facts_settled(void *arg)
{
	struct core_act *act = arg;

	/* Which ask it was does not matter: those that are settled are gone. */
	for (size_t i = 0; i < act->nfacts; i++)
		if (act->facts[i]->status != CORE_FACTS_PENDING)
			act->asks[i] = NULL;
	if (--act->waiting == 0)
		judged(act);
}

/* --- PG_ACT ---------------------------------------------------------------------- */

/* After an error the server ignores everything up to Sync; so nothing else is judged or sent. */
static bool
skipped(struct core_act *act)
{
	struct core_conn *conn = act->conn;

	if (!conn->skipping)
		return false;
	if (act->kind != CORE_ACT_SYNC) {
		core_pg_send_done(act, 0);
		act_end(act);
		return true;
	}
	buf_reset(&act->msgs);
	pgwire_put_sync(&act->msgs);
	act->nexec = 0;
	return false;
}

static void
begin(struct core_act *act)
{
	struct core_conn *conn = act->conn;
	struct err err = {0};

	if (act->kind < CORE_ACT_QUERY || act->kind > CORE_ACT_CUT)
		(void)err_set(&err, ERR_PROTOCOL, "exchange of kind %u", (unsigned)act->kind);
	else if (core_act_shape(act, &err) == 0 && skipped(act))
		return;
	if (err.code != 0) {
		core_pg_kill(conn, "08P01", err.msg);
		return;
	}
	core_txn_copy(&act->txn, &conn->txn);
	core_act_ask(act, facts_settled);
	if (act->waiting == 0)
		judged(act);
}

int
core_act_on_act(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body), n = rd_u64(body);
	uint8_t kind = rd_u8(body);
	struct str msgs = rd_lstr(body);
	struct core_conn *conn = core_pg_find(p->core, id);
	struct core_act *act;

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "PG_ACT is malformed");
	if (conn == NULL || conn->state == CORE_CONN_CLOSING)
		return 0; /* it was told that the connection is gone; the two crossed */
	if (conn->state != CORE_CONN_READY || conn->act != NULL)
		return err_set(err, ERR_PROTOCOL, "PG_ACT while connection %llu is not idle",
		    (unsigned long long)id);
	act = xcalloc(1, sizeof(*act));
	act->conn = conn;
	act->id = n;
	act->kind = (enum core_act_kind)kind;
	buf_init(&act->msgs, msgs.n + 16);
	buf_put_str(&act->msgs, msgs);
	conn->act = act;
	begin(act);
	return 0;
}

void
core_act_lost(struct core_act *act)
{
	struct core_run *run = act->conn->from.run;

	if (act->phase == CORE_PHASE_SENT && (act->effects & CORE_EFFECTS_SCHEMA) != 0)
		core_approve_schema_changed(&act->conn->from, NULL);
	for (size_t i = 0; act->phase == CORE_PHASE_SENT && i < act->nactions; i++)
		if (act->actions[i]->d.verdict == VERDICT_ALLOW)
			core_record_doubt(run->core, run->id, act->actions[i]->id,
			    act->actions[i]->seq, core_action_reads(act->actions[i]), "lost");
}
