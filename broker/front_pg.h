/* The PostgreSQL protocol towards clients: what one connection is in the middle of. */
#ifndef BROKER_FRONT_PG_H
#define BROKER_FRONT_PG_H

#include "broker/front.h"
#include "common/pgwire.h"

#define FRONT_PG_IN_MAX ((size_t)2 << 20)

/* PG_ACT's kind. */
enum front_kind { FRONT_QUERY = 1, FRONT_SYNC = 2, FRONT_FLUSH = 3, FRONT_CUT = 4 };

enum front_pg_state {
	FRONT_PG_START = 1, /* start-up packets */
	FRONT_PG_OPENING,   /* core judges the open */
	FRONT_PG_READY,
	FRONT_PG_ACT, /* one exchange in flight */
};

/* FU_COPY's how. */
enum front_copy_how { FRONT_COPY_DATA = 0, FRONT_COPY_DONE = 1, FRONT_COPY_FAIL = 2 };

/* COPY FROM STDIN. */
struct front_copy {
	bool open;     /* upstream takes data; its end was not sent */
	size_t credit; /* bytes that it takes now */
	size_t left;   /* of the CopyData message that is passing, or is being dropped */
};

struct front_pg {
	enum front_pg_state state;
	bool ssl_asked, gss_asked;
	bool core_knows; /* PG_OPEN sent, and core has not ended it */
	struct buf unit; /* extended messages collected so far */
	size_t nunit;
	enum front_kind kind; /* of the act in flight */
	uint64_t act;
	bool done;	    /* PG_DONE came */
	uint64_t got, want; /* answer bytes of the act */
	struct buf hold;
	struct buf notices; /* receipts, as messages; they go before the end of the answer */
	struct front_copy copy;
	struct pgwire_track track;
	uint32_t key;  /* of ours, that cancels what this session runs */
	char txn;      /* of the last ReadyForQuery */
	bool skip;     /* a refusal stands: the client's messages up to Sync are dropped */
	bool unsynced; /* the server has something of the exchange that no Sync ended */
};

extern const struct front_proto front_pg_proto;
extern const struct front_msg front_pg_messages[];

#define FRONT_PG_NOTICES_MAX ((size_t)1 << 19) /* of one exchange */
struct front_refusal {
	uint64_t act;
	uint8_t how;
	struct pgwire_error e;
	struct str receipt; /* empty: none */
};
/* --- front_pg_start.c */
/* One start-up packet. False: more bytes are needed, or the state has changed. */
bool front_pg_startup(struct front_conn *c);
void front_pg_opened(
    struct front_conn *c, struct str receipt, const struct pgwire_param *params, size_t n);

/* --- front_pg_copy.c */
#define FRONT_PG_COPY_AHEAD ((size_t)128 << 10) /* read ahead of what upstream takes */
/* In an act. False: nothing that could be done now. */
bool front_pg_copy_step(struct front_conn *c);
/* The head of a CopyData message: 1 taken, 0 more bytes are needed, -1 it is another message. */
int front_pg_copy_head(struct front_conn *c);
/* Data that nobody takes. True: all of its message is gone. */
bool front_pg_copy_drop(struct front_conn *c);
/* UF_COPY. */
void front_pg_copy_more(struct front_conn *c, uint64_t act, bool open, uint32_t n);

/* --- front_pg.c */
/* Bytes for the client; from the server when `answer`: then followed for message boundaries. */
void front_pg_put(struct front_conn *c, struct str bytes, bool answer);
/* FATAL, where the stream allows one, then the end. */
void front_pg_last_error(struct front_conn *c, const struct pgwire_error *e);
void front_pg_last_words(struct front_conn *c, const char *sqlstate, const char *message);
void front_pg_refused(struct front_conn *c, const struct front_refusal *r);
/* A receipt as a message; nothing if it is empty. */
void front_pg_put_receipt(struct buf *b, struct str receipt);
void front_pg_done(struct front_conn *c, uint64_t act, uint64_t bytes, struct str notices);
void front_pg_data(struct front_conn *c, uint64_t act, bool hold, struct str bytes);
/* Core has ended the session. */
void front_pg_gone(struct front_conn *c, const struct pgwire_error *e);

#endif
