/*
 * A first walk over the log: what a page or a report says before it tells record by record. Where a
 * run begins and ends, what was counted, which rules decided, what contradicts and what is missing.
 */
#ifndef AUDIT_REPLAY_SCAN_H
#define AUDIT_REPLAY_SCAN_H

#include "audit/replay_doubt.h"
#include "audit/replay_open.h"
#include "audit/replay_proof.h"
#include "audit/replay_tell.h"

struct replay_gap {
	struct replay_gap *next; /* in the order of seq */
	uint64_t seq;
	char *text; /* holds nothing that log_vis would change */
};
struct replay_rule {
	struct replay_rule *next; /* in the order in which they first decided */
	char *id;
	uint64_t n[3]; /* denied, needed approval, allowed */
	uint64_t first, last;
};
/* A policy that was in force while the run was. */
struct replay_policy {
	struct replay_policy *next;
	uint64_t seq;
	char *digest, *name;
};
/* An emergency freeze. */
struct replay_freeze {
	struct replay_freeze *next;
	char *id;
	int64_t from_us, to_us; /* to_us INT64_MAX: not lifted yet */
};
/* A run that it started. */
struct replay_child {
	struct replay_child *next; /* in their order */
	char *id, *status;	   /* status NULL: not ended */
	uint64_t seq;
};
/* A record of the run on the time axis. */
struct replay_mark {
	uint64_t seq;
	int64_t us;
	enum replay_lane lane;
	enum replay_tone tone;
};
enum replay_count {
	COUNT_RECORDS,
	COUNT_TURNS,
	COUNT_EXECS,
	COUNT_ALLOWED,
	COUNT_WAITED,
	COUNT_DENIED,
	COUNT_FAILED, /* outcomes that were no success */
	COUNT_DOUBT,  /* sent, and nobody knows */
	COUNT_SIGNED,
	COUNTS
};
struct replay_scan {
	const char *run;
	bool found;
	uint64_t first, last; /* of the run */
	uint64_t from;	      /* first, or the policy.load in force then */
	uint64_t until;	      /* last, or an erasure of the run after it */
	int64_t begin_us, end_us;
	struct buf agent, owner, login, level, parent, status, text; /* as told; parent: a run */
	uint64_t n[COUNTS];
	struct replay_gap *gaps;
	struct replay_rule *rules;
	struct replay_policy *policies;
	struct replay_freeze *freezes;
	struct replay_child *children;
	struct replay_open *open;  /* sent, and no outcome yet */
	struct replay_mark *marks; /* only with proofs */
	size_t nmarks, marks_cap;
	struct doubts *doubts;
	struct proofs *proofs; /* NULL unless asked for */
};
/* run: one run's, not NULL. Both stay the caller's. */
void replay_scan_init(
    struct replay_scan *s, const char *run, struct replay_blobs *blobs, bool proofs);
void replay_scan_free(struct replay_scan *s);
void replay_scan_record(struct replay_scan *s, const struct record *r, const struct hash *leaf);
/* verified: the size up to which a checkpoint holds; torn: bytes behind the last record. */
void replay_scan_end(struct replay_scan *s, uint64_t verified, uint64_t torn);
/* Is it shown with the run? Only in a second walk. */
bool replay_scan_shows(const struct replay_scan *s, const struct record *r);

#endif
