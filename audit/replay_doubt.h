/*
 * What the agent claims, held against what the broker recorded: contradictions, and what nobody but
 * the agent vouches for. docs/replay.md lists each kind and when it is found.
 */
#ifndef AUDIT_REPLAY_DOUBT_H
#define AUDIT_REPLAY_DOUBT_H

#include "audit/record.h"
#include "audit/replay_blobs.h"

enum doubt_kind {
	DOUBT_UNTOLD_ACTION,  /* an action while no execution was told of */
	DOUBT_UNTOLD_ANSWER,  /* a model answered, and the agent did not tell */
	DOUBT_UNSEEN_ACTION,  /* it names an action that is not on the record */
	DOUBT_UNSEEN_WORDS,   /* words of a model that the model did not say */
	DOUBT_UNSEEN_CODE,    /* code of a model that the model did not write */
	DOUBT_UNTOLD_EXEC,    /* the result of an execution that it did not tell of */
	DOUBT_COUNT,	      /* another number of actions than were recorded */
	DOUBT_DURATION,	      /* longer than there was time */
	DOUBT_AFTER_END,      /* it goes on telling after its run had ended */
	DOUBT_CONTRADICTIONS, /* those above */
	DOUBT_NO_CLAIMS = DOUBT_CONTRADICTIONS, /* it told nothing at all */
	DOUBT_NO_TRAFFIC, /* no model traffic was seen: its words are its own account */
	DOUBT_SEALED,	  /* what it said cannot be read here, so it was not held against
			     anything */
	DOUBT_KINDS
};
const char *doubt_name(enum doubt_kind k);

struct doubt {
	uint64_t seq;	/* the record that shows it */
	uint64_t other; /* the one that it is held against, or DOUBT_NONE */
	enum doubt_kind kind;
	char *run, *text; /* text: one sentence, holds nothing that log_vis would change */
};
#define DOUBT_NONE UINT64_MAX

struct doubts;
/* run: NULL for all. blobs stay the caller's. */
struct doubts *doubts_new(struct replay_blobs *blobs, const char *run);
void doubts_free(struct doubts *d);
DEFINE_AUTO(doubts, struct doubts, doubts_free)
void doubts_record(struct doubts *d, const struct record *r); /* each of the log, in order */
void doubts_end(struct doubts *d);
size_t doubts_count(const struct doubts *d);
/* In the order of their seq; after doubts_end. */
const struct doubt *doubts_at(const struct doubts *d, size_t i);

#endif
