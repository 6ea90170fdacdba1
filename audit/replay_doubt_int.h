/* Inside of replay_doubt.c and replay_doubt_run.c alone. */
#ifndef AUDIT_REPLAY_DOUBT_INT_H
#define AUDIT_REPLAY_DOUBT_INT_H

#include "audit/replay_doubt.h"
#include "audit/replay_said.h"

#define LOOP_OPEN_MAX 64 /* exchanges with a model at once */
#define HELD_MAX 64	 /* claims about an answer whose outcome is not on the record yet */

/* What the agent says a model said, or wrote as code. */
struct doubt_claim {
	uint64_t seq;
	bool code;
	char *text; /* NULL: cannot be read here */
	size_t n;
};

/* A run as far as it has been read. */
struct doubt_run {
	struct doubt_run *next;
	char *id;
	bool ended, told; /* told: the agent reported anything */
	uint64_t end;

	uint64_t open, exec;	  /* executions told of and not over; the last one's seq */
	uint64_t exec_mono, acts; /* since it began: actions recorded */
	bool alone;		  /* there was one at a time since it began */
	uint64_t result;	  /* the last one's seq, or DOUBT_NONE */
	char cause[32];
	uint64_t result_mono;

	uint64_t nacts, first_act;    /* of the sandbox, in all */
	uint64_t early;		      /* of them before the agent told anything */
	uint64_t loop[LOOP_OPEN_MAX]; /* seqs of exchanges with a model */
	size_t nloop;
	bool traffic, model, heard; /* heard: `said` is a model's whole answer */
	uint64_t answer, untold;    /* seq of it; the same until the agent tells, or DOUBT_NONE */
	uint64_t first_model, sealed;
	struct doubt_claim held[HELD_MAX];
	size_t nheld;
	struct said said;
};

struct doubts {
	struct replay_blobs *blobs;
	const char *run;
	struct doubt_run *runs;
	struct doubt *doubt;
	size_t n, cap;
	struct named *named; /* actions that were named and are not known, until the end */
	size_t nnamed, named_cap;
	uint64_t *seen; /* actions of the log: the first 8 bytes of a hash, 0 is a free place */
	size_t nseen, seen_cap;
};

void doubt_add(struct doubts *d, const struct doubt_run *run, enum doubt_kind k, uint64_t seq,
    uint64_t other, const char *fmt, ...) PRINTF_LIKE(6, 7);
/* The action of this id has been recorded; and: it was named at seq. */
void doubt_seen(struct doubts *d, struct str id);
void doubt_named(struct doubts *d, const struct doubt_run *run, uint64_t seq, struct str text);
/* replay_doubt_run.c */
void doubt_run_record(struct doubts *d, struct doubt_run *run, const struct record *r);
void doubt_run_end(struct doubts *d, struct doubt_run *run);
void doubt_run_drop(struct doubt_run *run); /* what it holds beside itself */

#endif
