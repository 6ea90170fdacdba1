/*
 * What upstream says of an exchange that was leased, from U_DONE to its outcomes (process: core).
 * Upstream holds no policy: what it did is held against the lease, then recorded.
 */
#include "broker/core_act.h"

#include <stdlib.h>

#include "broker/core_approve.h"
#include "broker/core_data.h"
#include "broker/core_lease.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct done {
	uint8_t status, txn;
	uint64_t rows, bytes;
	struct str tag, sqlstate, message;
	struct hash sent;
	bool copied; /* the server asked for COPY data */
	uint64_t copied_bytes;
	struct hash copied_sha256;
};

static const char *
status_name(uint8_t s)
{
	static const char *const names[] = {
	    "unknown", "ok", "error", "row_limit", "lost", "refused"};

	return s < ARRAY_LEN(names) ? names[s] : "unknown";
}

/* What goes before a refusal ran to its end; an error says which exchange, not which statement. */
static void
outcomes(struct core_act *act, const struct done *d)
{
	struct core_run *run = act->conn->from.run;
	size_t n = act->nactions - (act->refused ? 1 : 0);
	const char *status = status_name(d->status == 5 ? 1 : d->status);

	for (size_t i = 0; i < n; i++) {
		struct core_action *a = act->actions[i];
		bool last = i + 1 == n;
		AUTO_BUF struct buf b = BUF(CORE_RECORD_DATA_MAX);

		core_data_outcome(&b, &(struct core_data_outcome){.action = a->id,
					  .seq = a->seq,
					  .status = status,
					  .tag = last ? d->tag : STR(""),
					  .sqlstate = d->status == 5 ? STR("") : d->sqlstate,
					  .rows = last ? d->rows : 0,
					  .reads = core_action_reads(a),
					  .preview = a->consume ? str_z(a->preview) : STR(""),
					  .answer_bytes = last ? d->bytes : 0,
					  .duration_us = clock_boot_us() - act->sent_us,
					  .sent = &d->sent,
					  .copied = last && d->copied ? &d->copied_sha256 : NULL,
					  .copied_bytes = d->copied_bytes,
					  .answer = last ? act->sealed : NULL,
					  .shared = (unsigned)n});
		act->tickets[i] = core_record(run->core, &(struct core_append){.type = "outcome",
							     .run = run->id,
							     .data = &b,
							     .outcome_of = a->id,
							     .fn = core_act_acked,
							     .arg = a});
		if (act->tickets[i] != NULL)
			act->waiting++;
		else
			act->failed = true;
	}
}

static void
settle_names(struct core_act *act, const struct done *d)
{
	struct core_stmts *s = &act->conn->stmts;

	if (d->status == 1 || d->status == 5)
		core_stmts_commit(s);
	else
		core_stmts_failed(s);
	if (d->status == 5 || (d->txn == 'I' && act->kind <= CORE_ACT_SYNC))
		core_stmts_drop_portals(s);
}

static void
settle_txn(struct core_act *act, const struct done *d)
{
	struct core_conn *conn = act->conn;
	struct core_txn *t = &conn->txn;
	uint32_t before = t->effects;

	if (d->status != 1)
		core_txn_failed(&act->txn, t);
	if (act->kind >= CORE_ACT_FLUSH) {
		conn->pipeline = true;
		conn->skipping = d->status != 1;
		core_txn_copy(t, &act->txn);
		t->effects |= before | act->effects;
		return;
	}
	conn->pipeline = conn->skipping = false;
	if (d->txn == 'I') {
		core_txn_reset(t);
		return;
	}
	core_txn_copy(t, &act->txn);
	t->state = (char)d->txn;
	if (d->status != 1)
		t->effects |= before | act->effects; /* how far it came is not known */
}

static void
done(struct core_act *act, const struct done *d)
{
	struct core_conn *conn = act->conn;
	bool beyond = (act->effects & ~EFFECT_SET_DATA) != 0;

	act->phase = CORE_PHASE_OUTCOME;
	act->answer_bytes = d->bytes;
	/* A server reads over the Sync before the data; the client sends another one behind it. */
	if (d->copied && act->kind == CORE_ACT_SYNC)
		act->kind = CORE_ACT_FLUSH;
	settle_names(act, d);
	settle_txn(act, d);
	outcomes(act, d);
	/* Shown while it was under way; an error has undone it. */
	if ((act->effects & CORE_EFFECTS_SCHEMA) != 0 && (d->status == 1 || d->status == 4))
		core_approve_schema_changed(&conn->from, NULL);
	if (conn->state == CORE_CONN_CLOSING) {
		core_pg_free(conn);
		return;
	}
	if (d->status == 4)
		return; /* U_GONE follows and ends the connection */
	/* A read's answer goes with its outcome on the way; a change's waits until that is durable.
	 */
	if (!beyond && conn->from.run->core->live) {
		for (size_t i = 0; i < act->nactions; i++) {
			core_record_forget(act->tickets[i]);
			act->tickets[i] = NULL;
		}
		act->waiting = 0;
	}
	if (act->waiting == 0)
		core_act_proceed(act);
}

static bool
done_read(struct rd *body, struct done *d)
{
	struct str sent, data;

	d->status = rd_u8(body);
	d->txn = rd_u8(body);
	d->rows = rd_u64(body);
	d->bytes = rd_u64(body);
	d->tag = rd_lstr(body);
	d->sqlstate = rd_lstr(body);
	d->message = rd_lstr(body);
	sent = rd_bytes(body, HASH_LEN);
	d->copied = rd_u8(body) == 1;
	d->copied_bytes = rd_u64(body);
	data = rd_bytes(body, HASH_LEN);
	if (!rd_end(body))
		return false;
	memcpy(d->sent.b, sent.p, HASH_LEN);
	memcpy(d->copied_sha256.b, data.p, HASH_LEN);
	return d->status >= 1 && d->status <= 5 && d->txn != 0 && strchr("ITE", d->txn) != NULL;
}

int
core_act_on_done(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body), n = rd_u64(body);
	struct core_conn *conn = core_pg_find(p->core, id);
	struct done d = {0};

	(void)fds;
	(void)nfds;
	if (!done_read(body, &d))
		return err_set(err, ERR_PROTOCOL, "U_DONE is malformed");
	if (conn == NULL || conn->act == NULL || conn->act->id != n ||
	    conn->act->phase != CORE_PHASE_SENT)
		return 0; /* of a connection that core has ended */
	/* What ran through must be what was judged. Errors of the broker's own statements send
	 * nothing. */
	if (!hash_eq(&d.sent, &conn->act->sent) && (d.status == 1 || d.status == 5)) {
		conn->act->phase = CORE_PHASE_OUTCOME;
		outcomes(conn->act, &d);
		return err_set(err, ERR_TAMPER,
		    "connection %llu: upstream sent other bytes than were leased",
		    (unsigned long long)id);
	}
	if (d.copied && !conn->act->copy_in) {
		conn->act->phase = CORE_PHASE_OUTCOME;
		outcomes(conn->act, &d);
		return err_set(err, ERR_TAMPER,
		    "connection %llu: upstream took COPY data that was not leased",
		    (unsigned long long)id);
	}
	done(conn->act, &d);
	return 0;
}

/* A sealed answer is the run's own, and only where one was wanted. */
int
core_act_on_sealed(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body), n = rd_u64(body);
	struct str text = rd_lstr(body);
	struct core_conn *conn = core_pg_find(p->core, id);
	AUTO(json) struct json_doc *doc = NULL;
	struct blob_ref ref;

	(void)fds;
	(void)nfds;
	if (!rd_end(body) || json_parse(text, "answer", &doc, err) != 0 ||
	    blob_ref_parse(json_root(doc), &ref, err) != 0)
		return err_set(err, ERR_PROTOCOL, "U_SEALED is malformed");
	if (conn == NULL || conn->act == NULL || conn->act->id != n ||
	    conn->act->phase != CORE_PHASE_SENT)
		return 0; /* of a connection that core has ended */
	if (!core_lease_seals(conn) || strcmp(ref.kid, conn->from.run->id) != 0) {
		log_warn("connection %llu: upstream names a sealed answer that it was not to keep",
		    (unsigned long long)id);
		return 0;
	}
	free(conn->act->sealed);
	conn->act->sealed = xcalloc(1, sizeof(ref));
	*conn->act->sealed = ref;
	return 0;
}
