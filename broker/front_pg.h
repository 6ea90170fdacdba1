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
	struct pgwire_track track;
	char txn;      /* of the last ReadyForQuery */
	bool skip;     /* a refusal stands: the client's messages up to Sync are dropped */
	bool unsynced; /* the server has something of the exchange that no Sync ended */
};

extern const struct front_proto front_pg_proto;
extern const struct front_msg front_pg_messages[];

struct front_refusal {
	uint64_t act;
	uint8_t how;
	struct pgwire_error e;
};
/* --- front_pg_start.c */
/* One start-up packet. False: more bytes are needed, or the state has changed. */
bool front_pg_startup(struct front_conn *c);
void front_pg_opened(struct front_conn *c, const struct pgwire_param *params, size_t n);

/* --- front_pg.c */
/* Bytes for the client; from the server when `answer`: then followed for message boundaries. */
void front_pg_put(struct front_conn *c, struct str bytes, bool answer);
/* FATAL, where the stream allows one, then the end. */
void front_pg_last_error(struct front_conn *c, const struct pgwire_error *e);
void front_pg_last_words(struct front_conn *c, const char *sqlstate, const char *message);
void front_pg_refused(struct front_conn *c, const struct front_refusal *r);
void front_pg_done(struct front_conn *c, uint64_t act, uint64_t bytes);
void front_pg_data(struct front_conn *c, uint64_t act, bool hold, struct str bytes);
/* Core has ended the session. */
void front_pg_gone(struct front_conn *c, const struct pgwire_error *e);

#endif
