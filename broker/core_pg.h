/*
 * PostgreSQL connections as core sees them: opened after a recorded decision, then one act
 * at a time. Front names them; the number is the same on all wires.
 */
#ifndef BROKER_CORE_PG_H
#define BROKER_CORE_PG_H

#include "broker/core_decide.h"
#include "broker/core_record.h"
#include "broker/core_stmt.h"

struct core_act;

enum core_conn_state {
	CORE_CONN_RECORDING, /* the connect action is on its way into the log */
	CORE_CONN_OPENING,   /* upstream connects */
	CORE_CONN_READY,
	CORE_CONN_CLOSING, /* the client is gone; the answer to the act in flight is still awaited
			    */
};
#define CORE_FACTS_CACHE 128 /* per connection; power of two */

struct core_conn {
	LIST_ENTRY(core_conn) link;
	struct core_from from;
	enum core_conn_state state;
	char *peer_id;	   /* address and certificate of who answers */
	char *pins;	   /* what else of the session goes into digests: database, user, start-up
			      parameters */
	char *startup;	   /* the same for people: "connect database=... user=... name=value..." */
	bool receipts;	   /* the client asked for receipts */
	char *startup_bad; /* which of them is not harmless, in words; NULL: none */
	struct buf params; /* start-up parameters as U_OPEN carries them: u32 count, pairs */
	uint64_t opened_us;
	struct core_action *open;
	struct core_ticket *ticket; /* of the connect action */
	struct core_txn txn;
	bool pipeline; /* extended messages were sent and no Sync yet */
	bool skipping; /* and one of them failed: the server skips to Sync */
	struct core_stmts stmts;
	struct core_facts *facts[CORE_FACTS_CACHE];
	struct core_act *act;
	struct core_cancel *cancel;	/* of what the act runs */
	uint64_t cancel_ms, cancel_act; /* the last one: when it began, and for what */
	struct loop_timer *timer;	/* CLOSING */
	bool revoked;			/* what is in flight is to be cancelled */
};

struct core_conn *core_pg_find(const struct core *c, uint64_t id); /* NULL: none */
/* The connection is over: the client is told (PG_GONE), upstream closes, what was in flight gets
 * its outcome. */
void core_pg_kill(struct core_conn *conn, const char *sqlstate, const char *message);
/* Gone from memory; nobody is told. */
void core_pg_free(struct core_conn *conn);
/* All of the run, or (target) those to it: then what they have in flight is cancelled, too. */
void core_pg_end(struct core_run *run, const struct core_target *target, const char *why);
void core_pg_front_gone(struct core *c);
void core_pg_upstream_gone(struct core *c);

struct core_pg_refusal {
	uint64_t act;					/* 0: of the open */
	bool close;					/* the connection ends with it */
	const char *sqlstate, *message, *detail, *hint; /* NULL: none */
	const struct core_action *a; /* whose receipt goes with it, if asked for; NULL: none */
};
void core_pg_send_refused(const struct core_conn *conn, const struct core_pg_refusal *r);
/* core_pg_tell.c */
void core_pg_send_opened(const struct core_conn *conn, struct str params);
void core_pg_send_done(const struct core_act *act, uint64_t bytes);
void core_pg_send_gone(const struct core_conn *conn, const char *sqlstate, const char *message);
/* To a connection that core does not know. */
void core_pg_send_stranger(
    const struct core *c, uint64_t conn, const char *sqlstate, const char *message);

int core_pg_on_open(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_pg_on_opened(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_pg_on_close(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_pg_on_gone(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

#endif
