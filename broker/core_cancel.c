/*
 * Cancels (process: core). Front says that somebody had the key of a session; only what that
 * session runs now is cancelled, and only once the record is durable. Core knows no key of a
 * server.
 */
#include "broker/core_cancel.h"

#include <stdlib.h>

#include "broker/core_act.h"
#include "broker/core_attempt.h"
#include "broker/core_data.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define REST_MS 100 /* between two cancels of one exchange */

struct core_cancel {
	struct core_conn *conn;
	uint64_t act; /* that it is for */
	char *text, *of;
	struct core_action *a;
	struct core_ticket *ticket;
	bool sent;
	uint64_t sent_us;
};

static void
cancel_end(struct core_conn *conn)
{
	struct core_cancel *x = TAKE_PTR(conn->cancel);

	core_record_forget(x->ticket);
	core_action_free(x->a);
	free(x->text);
	free(x->of);
	free(x);
}

static void
outcome(const struct core_cancel *x, const char *status)
{
	struct core_run *run = x->conn->from.run;
	struct hash sent = hash_sha256(x->a->text);
	AUTO_BUF struct buf b = BUF(CORE_RECORD_DATA_MAX);

	core_data_outcome(&b, &(struct core_data_outcome){.action = x->a->id,
				  .seq = x->a->seq,
				  .status = status,
				  .duration_us = clock_boot_us() - x->sent_us,
				  .reads = core_action_reads(x->a),
				  .sent = &sent});
	(void)core_record(
	    run->core, &(struct core_append){
			   .type = "outcome", .run = run->id, .data = &b, .outcome_of = x->a->id});
}

/* --- from the record to upstream --------------------------------------------------- */

static bool
runs(const struct core_conn *conn, uint64_t act)
{
	return conn->state == CORE_CONN_READY && conn->act != NULL && conn->act->id == act &&
	       conn->act->phase == CORE_PHASE_SENT;
}

static void
acked(void *arg, const struct core_ack *ack)
{
	struct core_cancel *x = arg;
	struct core_conn *conn = x->conn;
	struct core_run *run = conn->from.run;
	AUTO_BUF struct buf b = BUF(64);

	x->ticket = NULL;
	x->a->seq = ack->seq;
	if (ack->code != 0) { /* not known to be on record: it does not happen */
		cancel_end(conn);
		return;
	}
	if (x->a->d.verdict != VERDICT_ALLOW) {
		core_decide_remember(run, str_z(conn->from.target->id), x->a);
		cancel_end(conn);
		return;
	}
	if (!runs(conn, x->act) || run->core->upstream == NULL) {
		core_record_not_sent(run->core, run->id, x->a->id, x->a->seq);
		cancel_end(conn);
		core_cancel_due(conn);
		return;
	}
	x->sent = true;
	x->sent_us = clock_boot_us();
	buf_u64(&b, conn->from.id);
	buf_u64(&b, x->act);
	core_send(run->core->upstream, MSG_U_CANCEL, &b);
}

static void
record(struct core_cancel *x)
{
	struct core_run *run = x->conn->from.run;
	bool allowed = x->a->d.verdict == VERDICT_ALLOW;
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf frame = BUF(CORE_RECORD_FRAMES_MAX);
	struct hash sent = hash_sha256(x->a->text);
	struct blob_ref head;
	struct err err;

	if (blob_seal(run->key, str_z(run->id), "text/plain", x->a->text, &frame, &head, &err) ==
	    0) {
		core_data_action(&data, &(struct core_data_action){.a = x->a,
					    .from = &x->conn->from,
					    .kind = "cancel",
					    .cancels = x->of,
					    .head = &head,
					    .sent = allowed ? &sent : NULL});
		x->ticket = core_record(run->core, &(struct core_append){.type = "action",
						       .run = run->id,
						       .data = &data,
						       .frame = &frame,
						       .show = str_z(x->a->show),
						       .dispatched = allowed ? x->a->id : NULL,
						       .fn = acked,
						       .arg = x});
	}
	if (x->ticket == NULL)
		cancel_end(x->conn);
}

static void
begin(struct core_conn *conn)
{
	struct core_act *act = conn->act;
	const struct core_action *of =
	    act->actions[act->nactions - (act->refused && act->nactions > 1 ? 2 : 1)];
	struct core_cancel *x = xcalloc(1, sizeof(*x));
	struct core_action *a = core_action_new(CORE_OP_CANCEL);

	act->cancelled = false;
	conn->cancel = x;
	conn->cancel_act = act->id;
	conn->cancel_ms = loop_now_ms(conn->from.run->core->loop);
	x->conn = conn;
	x->act = act->id;
	x->of = xstrdup(of->id);
	x->text = xasprintf("cancel %s", of->id);
	x->a = a;
	a->effects = EFFECT_txn;
	a->statements = 1;
	a->text = str_z(x->text);
	a->txn_state = conn->txn.state;
	a->txn_effects = conn->txn.effects;
	a->show = xstrdup(x->text);
	a->digest = core_act_digest(conn, a, &conn->txn);
	core_decide_judge(&conn->from, a, &conn->txn);
	core_decide_finish(&conn->from, a);
	core_decide_shown(&conn->from, a);
	record(x);
}

/* --- messages ---------------------------------------------------------------------- */

int
core_cancel_on_cancel(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core_conn *conn = core_pg_find(p->core, rd_u64(body));
	struct core_act *act = conn != NULL ? conn->act : NULL;

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "PG_CANCEL is malformed");
	if (act == NULL || conn->state != CORE_CONN_READY || act->phase == CORE_PHASE_OUTCOME)
		return 0;
	if (conn->cancel_act == act->id &&
	    (conn->cancel != NULL || loop_now_ms(p->core->loop) - conn->cancel_ms < REST_MS))
		return 0;
	/* One that came too early for the server would be lost there. */
	act->cancelled = true;
	core_cancel_due(conn);
	return 0;
}

void
core_cancel_due(struct core_conn *conn)
{
	const struct core_act *act = conn->act;

	if (act != NULL && act->cancelled && act->phase == CORE_PHASE_SENT && conn->cancel == NULL)
		begin(conn);
}

int
core_cancel_on_cancelled(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	static const char *const status[] = {"not_sent", "ok", "unknown"};
	struct core_conn *conn = core_pg_find(p->core, rd_u64(body));
	uint64_t act = rd_u64(body);
	uint8_t how = rd_u8(body);
	struct str message = rd_lstr(body);
	struct core_cancel *x = conn != NULL ? conn->cancel : NULL;

	(void)fds;
	(void)nfds;
	if (!rd_end(body) || how >= ARRAY_LEN(status))
		return err_set(err, ERR_PROTOCOL, "U_CANCELLED is malformed");
	if (x == NULL || !x->sent || x->act != act)
		return 0; /* of a connection that core has ended */
	if (how != 1)
		log_info("run %s: %s: %.*s", conn->from.run->id, x->text, STR_ARG(message));
	outcome(x, status[how]);
	cancel_end(conn);
	core_cancel_due(conn);
	return 0;
}

void
core_cancel_lost(struct core_conn *conn)
{
	if (conn->cancel == NULL)
		return;
	if (conn->cancel->sent)
		outcome(conn->cancel, "lost");
	cancel_end(conn);
}
