/*
 * One PG_ACT on its way: facts, judgement, records, lease, answer, outcome. At most one per
 * connection.
 */
#ifndef BROKER_CORE_ACT_H
#define BROKER_CORE_ACT_H

#include "audit/blob.h"
#include "broker/core_pg.h"

enum core_act_kind { CORE_ACT_QUERY = 1, CORE_ACT_SYNC = 2, CORE_ACT_FLUSH = 3, CORE_ACT_CUT = 4 };
#define CORE_ACT_MESSAGES 256 /* as front collects, and the terminator */

enum core_act_phase {
	CORE_PHASE_FACTS,
	CORE_PHASE_PREVIEW, /* the target is asked about it, before people are */
	CORE_PHASE_RECORD,  /* waits for acks */
	CORE_PHASE_SENT,    /* waits for U_DONE */
	CORE_PHASE_OUTCOME, /* waits for the outcome's ack */
};

struct core_act {
	struct core_conn *conn;
	uint64_t id;
	enum core_act_kind kind;
	enum core_act_phase phase;
	struct buf msgs;
	size_t nexec; /* messages that execute something */
	unsigned waiting;
	size_t nfacts; /* of its texts, in order */
	struct core_facts *facts[CORE_ACT_MESSAGES + 1];
	struct core_ask *asks[CORE_ACT_MESSAGES + 1];

	size_t nactions; /* judged, in order; a refused one is the last */
	struct core_action *actions[CORE_ACT_MESSAGES + 1];
	struct core_ticket
	    *tickets[CORE_ACT_MESSAGES + 1]; /* of the action records, then of the outcomes */
	struct core_request *request;	     /* whose approval.request is awaited */
	struct core_preview *preview;	     /* owned; NULL: none under way */
	struct core_txn txn;		     /* running, over the act */
	uint32_t effects;		     /* of all allowed actions */
	bool failed;			     /* a record could not be written, or */
	char *unwitnessed;		     /* too few witnesses have seen it: why; owned */
	bool refused;			     /* the last action is */
	bool nothing_sent;		     /* refused before anything ran: front answers alone */
	size_t send;			     /* bytes of msgs that are leased */
	struct hash sent;
	bool wrap;
	bool copy_in;	/* an allowed action asks for COPY data */
	bool cancelled; /* the client wants it cancelled, and it was not sent yet */
	size_t nkept;
	char **kept; /* names in the actions' grants, whose transaction may end within the act */
	char poison[64];
	uint64_t sent_us, answer_bytes;
	struct blob_ref *sealed; /* owned; the answer, where it was kept */
};

void core_act_free(struct core_act *act);
/* No answer will come: its outcome is `status`. */
void core_act_lost(struct core_act *act);

/* core_act_read.c: shape of the messages; facts of their texts, each asked once (act->waiting
 * counts). */
const char *core_act_kind_name(enum core_act_kind k);
int core_act_shape(struct core_act *act, struct err *err);
void core_act_ask(struct core_act *act, core_facts_fn *settled);
/* core_judge.c: walk the messages and fill actions; consumed approvals are recorded, nothing else
 * yet. */
void core_act_judge(struct core_act *act);
/* core_show.c: the action in full, for people and for the digest. */
char *core_act_show(const struct core_action *a);
struct hash core_act_digest(
    const struct core_conn *conn, struct core_action *a, const struct core_txn *txn);
/* The sealed head: statement and parameters. */
int core_act_head(const struct core_run *run, const struct core_action *a, struct buf *frame,
    struct blob_ref *ret, struct err *err);

/* core_act_effects.c */
void core_act_facts(struct core_action *a, struct core_facts *f);
bool core_act_copies_in(const struct core_action *a);
/* Behind its verdict: refused, where core could not do it as it was judged or is to be signed. */
void core_act_limits(struct core_act *act, struct core_action *a);
void core_act_executes(const struct core_stmts *s, struct core_action *a);
/* core_preview.c asked the target, or could not: the act goes on to its records. */
void core_act_previewed(struct core_act *act);
/* A record of an action or outcome is durable, or is not: with the last one the act goes on. */
void core_act_acked(void *arg, const struct core_ack *ack);
void core_act_proceed(struct core_act *act);

int core_act_on_act(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_act_on_done(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_act_on_sealed(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

#endif
