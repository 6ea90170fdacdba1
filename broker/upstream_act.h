/*
 * One leased exchange: what is sent for a U_SEND, what of the server's answer goes to front at
 * once and what is withheld, and how a row limit is kept. At its end U_DONE tells core.
 */
#ifndef BROKER_UPSTREAM_ACT_H
#define BROKER_UPSTREAM_ACT_H

#include "broker/upstream.h"

struct upstream_send { /* U_SEND, read; all borrowed */
	uint64_t id, act;
	uint8_t kind, wrap, hold_all, copy_in;
	uint64_t max_rows;
	struct str messages, token;
	struct pgwire_error refusal; /* what the token's syntax error becomes */
	bool preview;		     /* U_PREVIEW: the broker's own, answered to core */
};

enum act_phase {
	ACT_RUN = 0, /* the client's messages, with the token behind them */
	ACT_BEGIN,   /* own BEGIN before them */
	ACT_COMMIT,
	ACT_ROLLBACK,
	ACT_PREVIEW, /* U_PREVIEW's messages; ACT_ROLLBACK follows */
	ACT_POISON,  /* own token after them: the limit was passed inside a client's transaction */
};

enum act_over {
	ACT_OVER_NOT = 0,
	ACT_OVER_ROWS,
	ACT_OVER_UNCOUNTED, /* a completion that tells no changed rows */
	ACT_OVER_SIZE,	    /* the withheld answer */
	ACT_OVER_ORDER, /* something ran since the last Sync: the transaction's state is not known
			 */
};

struct upstream_seal;
struct upstream_act {
	struct upstream_seal *seal; /* NULL: its answer is not kept */
	uint64_t id, max_rows;
	enum act_kind kind;
	enum act_phase phase;
	bool wrap, hold_all;
	bool preview;	/* nothing of its answer goes to front */
	bool copy_in;	/* the server may ask for COPY data */
	bool sync_owed; /* its Sync is kept back until it is known whether the server does */
	bool waits;	/* not begun: a cancel of the one before is under way */
	bool begun;	/* inside a BEGIN of ours */
	bool poisoned;	/* the token's error came */
	bool failed;	/* any error of the client's messages */
	enum act_over over;
	struct upstream_plan plan; /* of the phase */
	struct buf messages;	   /* of the client, until sent */
	struct hash sent;
	char *token;
	struct buf refusal; /* the ErrorResponse the token becomes */
	struct buf stream, tail, held;
	size_t held_last; /* where the last completion in `held` begins */
	uint64_t rows, changed, bytes, copied_bytes;
	struct hash_ctx *copied; /* NULL: the server asked for no data */
	char tag[64], sqlstate[6];
	char message[600];
};

/* Begin (or, for a connection that is gone, answer at once). */
void upstream_act_send(struct upstream_hub *h, const struct upstream_send *s);
/* One that waits begins. */
void upstream_act_begin(struct upstream_conn *c);
/* A counted reply, whole: completion, error or ReadyForQuery. */
int upstream_act_tail(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err);
/* The last owed reply was counted: the next phase, or the end. */
int upstream_act_next(struct upstream_conn *c, struct err *err);
/* The connection ends under it. */
void upstream_act_lost(struct upstream_conn *c, const char *sqlstate, const char *message);

/* --- upstream_answer.c: towards front */
/* Bytes of a reply that is not counted, in pieces as they come. */
void upstream_act_body(struct upstream_conn *c, struct str bytes);
/* Of a counted one (tail), or not: all behind the first of those is withheld with it. */
void upstream_answer_put(struct upstream_conn *c, struct str bytes, bool tail);
void upstream_answer_drain(struct upstream_conn *c, struct buf *b, bool hold);
/* What streams goes to front now. */
void upstream_act_flush(struct upstream_conn *c);
/* All of the answer so far goes to front now, and behind it `last`: the client must see it. */
void upstream_act_release(struct upstream_conn *c, struct str last);
/* UF_DATA. */
void upstream_act_frame(struct upstream_conn *c, uint64_t act, bool hold, struct str bytes);

/* --- upstream_act_seal.c: answers that the log keeps */
/* U_SEAL, of the U_SEND that follows. */
int upstream_seal_on(struct upstream_hub *h, struct rd *body, struct err *err);
/* That of this exchange, if there was one. */
struct upstream_seal *upstream_seal_take(struct upstream_hub *h, uint64_t conn, uint64_t act);
void upstream_seal_free(struct upstream_seal *s); /* NULL is fine */
/* Bytes of the answer on their way to front. */
void upstream_seal_add(struct upstream_seal *s, struct str bytes);
/* Sends U_DONE, with U_SEALED before it where the answer could be kept; ends s. */
void upstream_seal_done(struct upstream_hub *h, struct upstream_seal *s, const struct buf *done);
/* Those that wait: all whose frame has left; of a connection that ends (NULL: of all) at once. */
void upstream_seal_settle(struct upstream_hub *h);
void upstream_seal_flush(struct upstream_hub *h, const struct upstream_conn *c);

/* --- upstream_wrap.c: row limits */
/* Instead of upstream_act_run(). */
void upstream_wrap_begin(struct upstream_conn *c);
/* After the client's messages, and after each own phase: the next step. */
int upstream_wrap_next(struct upstream_conn *c, struct err *err);

/* --- upstream_preview.c: statements of the broker's own, read and rolled back */
int upstream_preview_begin(struct upstream_conn *c, struct err *err);
/* After the messages, and after the rollback. */
int upstream_preview_next(struct upstream_conn *c, struct err *err);
void upstream_preview_tell(
    struct upstream_hub *h, uint64_t id, const struct upstream_act *a, uint8_t how);

/* --- shared by the two: in upstream_act.c */
void upstream_act_run(struct upstream_conn *c);
void upstream_act_done(struct upstream_conn *c);
void upstream_act_drop(struct upstream_conn *c); /* its end was told */
void upstream_act_phase(struct upstream_conn *c, enum act_phase phase, const struct buf *messages);

#endif
