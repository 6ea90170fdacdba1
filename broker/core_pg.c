/*
 * Opening and closing of PostgreSQL connections (process: core). Front says on which listener
 * a client came and what its start-up packet held; which run, target, user, database and
 * credential that means is core's own knowledge. Nothing is opened unrecorded.
 */
#include "broker/core_pg.h"

#include <stdlib.h>

#include "broker/core_act.h"
#include "broker/core_attempt.h"
#include "broker/core_cancel.h"
#include "broker/core_cred.h"
#include "broker/core_data.h"
#include "broker/core_lease.h"
#include "broker/core_receipt.h"
#include "broker/core_run.h"
#include "broker/core_startup.h"
#include "common/log.h"
#include "common/pgwire.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CLOSING_MS 5000

static struct core_conns *
bucket(const struct core *c, uint64_t id)
{
	return (struct core_conns *)(uintptr_t)&c->conns[(id ^ id >> 32) % CORE_CONN_BUCKETS];
}

struct core_conn *
core_pg_find(const struct core *c, uint64_t id)
{
	struct core_conn *conn;

	LIST_FOREACH (conn, bucket(c, id), link)
		if (conn->from.id == id)
			return conn;
	return NULL;
}

/* --- ends ------------------------------------------------------------------------ */

void
core_pg_free(struct core_conn *conn)
{
	LIST_REMOVE(conn, link);
	conn->from.run->nconns--;
	if (conn->act != NULL)
		core_act_free(conn->act);
	core_cancel_lost(conn);
	core_record_forget(conn->ticket);
	core_action_free(conn->open);
	loop_timer_del(conn->timer);
	core_stmts_free(&conn->stmts);
	core_txn_reset(&conn->txn);
	for (size_t i = 0; i < CORE_FACTS_CACHE; i++)
		core_facts_unref(conn->facts[i]);
	buf_free(&conn->params);
	free(conn->startup);
	free(conn->startup_bad);
	free(conn->from.address);
	free(conn->from.credential);
	free(conn->peer_id);
	free(conn->pins);
	free(conn);
}

/* What was sent and not answered. */
static void
settle_in_flight(struct core_conn *conn)
{
	struct core_run *run = conn->from.run;

	if (conn->act != NULL)
		core_act_lost(conn->act);
	if (conn->state == CORE_CONN_OPENING)
		core_record_doubt(run->core, run->id, conn->open->id, conn->open->seq,
		    core_action_reads(conn->open), "lost");
}

void
core_pg_kill(struct core_conn *conn, const char *sqlstate, const char *message)
{
	if (conn->state == CORE_CONN_RECORDING || conn->state == CORE_CONN_OPENING)
		core_pg_send_refused(conn,
		    &(struct core_pg_refusal){
			.close = true, .sqlstate = sqlstate, .message = message, .a = conn->open});
	else if (conn->state == CORE_CONN_READY)
		core_pg_send_gone(conn, sqlstate, message);
	if (conn->state != CORE_CONN_RECORDING)
		core_lease_close(conn);
	settle_in_flight(conn);
	core_pg_free(conn);
}

static struct core_conn *
any_conn(const struct core *c, const struct core_run *run, const struct core_target *t)
{
	struct core_conn *conn;

	for (size_t i = 0; i < CORE_CONN_BUCKETS; i++)
		LIST_FOREACH (conn, &c->conns[i], link)
			if ((run == NULL || conn->from.run == run) &&
			    (t == NULL || conn->from.target == t))
				return conn;
	return NULL;
}

void
core_pg_end(struct core_run *run, const struct core_target *target, const char *why)
{
	struct core_conn *conn;

	while (run->nconns != 0 && (conn = any_conn(run->core, run, target)) != NULL) {
		conn->revoked = target != NULL;
		core_pg_kill(conn, "57P01", why);
	}
}

void
core_pg_front_gone(struct core *c)
{
	struct core_conn *conn;

	while ((conn = any_conn(c, NULL, NULL)) != NULL)
		core_pg_kill(conn, "57P01", "front restarts");
}

void
core_pg_upstream_gone(struct core *c)
{
	struct core_conn *conn;

	while ((conn = any_conn(c, NULL, NULL)) != NULL)
		core_pg_kill(conn, "08006", "the broker's connection to the server was lost");
}

static void
closing_timeout(void *arg)
{
	struct core_conn *conn = arg;

	conn->timer = NULL;
	settle_in_flight(conn);
	core_pg_free(conn);
}

int
core_pg_on_close(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body);
	struct core_conn *conn = core_pg_find(p->core, id);

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "PG_CLOSE is malformed");
	if (conn == NULL || conn->state == CORE_CONN_CLOSING)
		return 0;
	if (conn->state != CORE_CONN_RECORDING)
		core_lease_close(conn);
	/* Its outcome may be on the way: upstream answers U_CLOSE with U_DONE for what was in
	 * flight. */
	if (conn->act != NULL && conn->act->phase == CORE_PHASE_SENT) {
		conn->state = CORE_CONN_CLOSING;
		conn->timer = loop_timer_add(p->core->loop, CLOSING_MS, closing_timeout, conn);
		return 0;
	}
	settle_in_flight(conn);
	core_pg_free(conn);
	return 0;
}

int
core_pg_on_gone(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body);
	AUTO_FREE char *sqlstate = str_dup(rd_lstr(body)), *message = str_dup(rd_lstr(body));
	struct core_conn *conn = core_pg_find(p->core, id);

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "U_GONE is malformed");
	if (conn != NULL)
		core_pg_kill(conn, sqlstate, message);
	return 0;
}

/* --- opening --------------------------------------------------------------------- */

static struct core_conn *
conn_new(struct core_run *run, const struct core_target *t, uint64_t id)
{
	struct core *c = run->core;
	struct core_conn *conn = xcalloc(1, sizeof(*conn));

	conn->from = (struct core_from){
	    .run = run, .id = id, .target = t, .protocol = "postgresql", .pg = conn};
	conn->from.address = xasprintf("%s:%u", t->host, (unsigned)t->port);
	conn->peer_id = xstrdup("");
	core_txn_reset(&conn->txn);
	core_stmts_init(&conn->stmts);
	buf_init(&conn->params, 65536);
	run->nconns++;
	LIST_INSERT_HEAD(bucket(c, id), conn, link);
	return conn;
}

/* The policy may have changed since the run was planned: then its target must still be the same
 * place. */
static const char *
credential_for(struct core_conn *conn)
{
	struct core *c = conn->from.run->core;
	const struct policy_target *t =
	    c->policy != NULL ? policy_target(c->policy, str_z(conn->from.target->id)) : NULL;
	const struct vault_entry *e;
	struct err err;

	conn->from.credential = xstrdup("");
	if (t == NULL || !str_eqz(t->host, conn->from.target->host) ||
	    t->port != conn->from.target->port ||
	    !str_eqz(t->database, conn->from.target->database) ||
	    !str_eqz(t->user, conn->from.target->user))
		return "the target is not in the policy any more, or is another place";
	free(conn->from.credential);
	conn->from.credential = str_dup(t->credential);
	if (core_cred_find(c, t, &e, &err) != 0) {
		log_warn("target %s: %s", conn->from.target->id, err.msg);
		return "the broker has no credential for this target that is bound to it";
	}
	core_cred_fingerprint(c, secret_str(e->secret), conn->from.credential_fp);
	return NULL;
}

static void
outcome_of_open(
    struct core_conn *conn, bool ok, struct str sqlstate, struct str peer, struct str cert)
{
	struct core_run *run = conn->from.run;
	struct hash sent = hash_sha256(buf_str(&conn->params));
	AUTO_BUF struct buf b = BUF(CORE_RECORD_DATA_MAX);

	core_data_outcome(&b, &(struct core_data_outcome){.action = conn->open->id,
				  .seq = conn->open->seq,
				  .status = ok ? "ok" : "error",
				  .sqlstate = sqlstate,
				  .sent = ok ? &sent : NULL,
				  .duration_us = clock_boot_us() - conn->opened_us,
				  .peer = peer,
				  .peer_cert = cert});
	(void)core_record(run->core,
	    &(struct core_append){
		.type = "outcome", .run = run->id, .data = &b, .outcome_of = conn->open->id});
}

static void
open_acked(void *arg, const struct core_ack *ack)
{
	struct core_conn *conn = arg;
	struct core_action *a = conn->open;
	struct err err;

	conn->ticket = NULL;
	if (ack->code != 0) {
		core_pg_kill(
		    conn, "57P03", "the decision log is not available: nothing passes unrecorded");
		return;
	}
	a->seq = ack->seq;
	a->receipt = core_receipt_of(ack);
	if (a->d.verdict != VERDICT_ALLOW) {
		core_decide_remember(conn->from.run, str_z(conn->from.target->id), a);
		core_pg_send_refused(conn, &(struct core_pg_refusal){.close = true,
					       .sqlstate = a->sqlstate,
					       .message = a->message,
					       .detail = a->detail,
					       .hint = a->hint,
					       .a = a});
		core_pg_free(conn);
		return;
	}
	conn->state = CORE_CONN_OPENING;
	conn->opened_us = clock_boot_us();
	if (core_lease_open(conn, &err) != 0) {
		core_record_not_sent(conn->from.run->core, conn->from.run->id, a->id, a->seq);
		conn->state = CORE_CONN_RECORDING; /* upstream knows nothing of it */
		core_pg_kill(conn, err_sqlstate(err.code), err.msg);
	}
}

static void
open_judge(struct core_conn *conn, uint32_t effects)
{
	struct core_action *a = core_action_new(CORE_OP_CONNECT);
	const char *why = credential_for(conn);

	conn->open = a;
	a->effects = effects;
	a->statements = 1;
	a->text = str_z(conn->startup);
	a->txn_state = 'I';
	a->show = xstrdup("connect");
	a->digest = core_act_digest(conn, a, &conn->txn);
	a->refuse_why = conn->startup_bad; /* said only if it is refused */
	if (why != NULL)
		core_decide_refuse(&conn->from, a, &conn->txn, "28000", why);
	else
		core_decide_judge(&conn->from, a, &conn->txn);
	core_decide_finish(&conn->from, a);
	core_decide_shown(&conn->from, a);
}

static void
open_record(struct core_conn *conn)
{
	struct core_action *a = conn->open;
	struct core_run *run = conn->from.run;
	bool allowed = a->d.verdict == VERDICT_ALLOW;
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf frame = BUF(CORE_RECORD_FRAMES_MAX);
	struct hash sent = hash_sha256(buf_str(&conn->params));
	struct blob_ref head;
	struct err err;

	if (blob_seal(run->key, str_z(run->id), "text/plain", a->text, &frame, &head, &err) == 0) {
		core_data_action(&data, &(struct core_data_action){.a = a,
					    .from = &conn->from,
					    .kind = "startup",
					    .head = &head,
					    .sent = allowed ? &sent : NULL});
		conn->ticket = core_record(run->core, &(struct core_append){.type = "action",
							  .run = run->id,
							  .data = &data,
							  .frame = &frame,
							  .dispatched = allowed ? a->id : NULL,
							  .fn = open_acked,
							  .arg = conn});
	}
	if (conn->ticket == NULL)
		core_pg_kill(
		    conn, "57P03", "the decision log is not available: nothing passes unrecorded");
}

static size_t
conns_to(const struct core_run *run, const struct core_target *t)
{
	const struct core_conn *conn;
	size_t n = 0;

	for (size_t i = 0; i < CORE_CONN_BUCKETS; i++)
		LIST_FOREACH (conn, &run->core->conns[i], link)
			n += conn->from.run == run && conn->from.target == t;
	return n;
}

/* The server's connections are shared with others: one run must not use them up. */
static size_t
conns_limit(const struct core *c, const struct core_target *t)
{
	const struct policy_target *p =
	    c->policy != NULL ? policy_target(c->policy, str_z(t->id)) : NULL;

	return p != NULL && p->max_connections != 0 ? p->max_connections : CORE_CONNS_MAX;
}

int
core_pg_on_open(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core *c = p->core;
	uint64_t id = rd_u64(body);
	uint32_t listener = rd_u32(body), effects = 0;
	struct core_run *run = NULL;
	const struct core_target *t = core_run_listener(c, listener, &run);
	struct core_conn *conn = core_pg_find(c, id);
	int rc;

	(void)fds;
	(void)nfds;
	(void)rd_u32(body); /* protocol version: front has settled it */
	if (conn != NULL && conn->state == CORE_CONN_CLOSING) { /* the number is used again */
		settle_in_flight(conn);
		core_pg_free(conn);
	} else if (conn != NULL) {
		return err_set(err, ERR_PROTOCOL, "PG_OPEN of connection %llu, which is open",
		    (unsigned long long)id);
	}
	if (t == NULL || run->state != CORE_RUN_LIVE) {
		core_pg_send_stranger(c, id, "57P01", "the run has ended");
		return 0;
	}
	if (conns_to(run, t) >= conns_limit(c, t)) {
		AUTO_FREE char *why = xasprintf(
		    "the run has %zu connections to %s, the limit", conns_limit(c, t), t->id);

		core_pg_send_stranger(c, id, "53300", why);
		return 0;
	}
	conn = conn_new(run, t, id);
	rc = core_startup_read(conn, body, &effects, err);
	if (rc != 0) {
		core_pg_free(conn);
		return rc;
	}
	open_judge(conn, effects);
	open_record(conn);
	return 0;
}

/* --- upstream has answered ------------------------------------------------------- */

int
core_pg_on_opened(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body);
	bool ok = rd_u8(body) == 1;
	struct str sqlstate = rd_lstr(body), message = rd_lstr(body), peer = rd_lstr(body),
		   cert = rd_lstr(body);
	struct str params = str_mem(body->p, body->n);
	struct core_conn *conn = core_pg_find(p->core, id);
	AUTO_FREE char *state = str_dup(sqlstate), *text = str_dup(message);
	uint32_t n = rd_u32(body);

	(void)fds;
	(void)nfds;
	for (uint32_t i = 0; i < n && !body->bad; i++) {
		(void)rd_lstr(body);
		(void)rd_lstr(body);
	}
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "U_OPENED is malformed");
	if (conn == NULL || conn->state != CORE_CONN_OPENING)
		return 0;
	outcome_of_open(conn, ok, sqlstate, peer, cert);
	if (!ok) {
		conn->state = CORE_CONN_RECORDING; /* settled, and upstream has forgotten it */
		core_pg_kill(conn, state[0] != '\0' ? state : "08006", text);
		return 0;
	}
	free(conn->peer_id);
	conn->peer_id = xasprintf("%.*s %.*s", STR_ARG(peer), STR_ARG(cert));
	conn->state = CORE_CONN_READY;
	core_pg_send_opened(conn, params);
	return 0;
}
