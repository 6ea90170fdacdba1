/*
 * The decision path of a log on a terminal, record by record: what the agent said and ran beside
 * what the broker saw and decided, by which rule, who signed which text, what came back, what
 * contradicts, and what is not known.
 */
#ifndef AUDIT_REPLAY_TIMELINE_H
#define AUDIT_REPLAY_TIMELINE_H

#include "audit/replay_scan.h"

struct replay_opts {
	const struct replay_scan *scan; /* of one run; NULL: all runs */
	const struct doubts *doubts;
	uint64_t verified; /* records covered by a checkpoint that holds */
	unsigned lines;	   /* of each content; 0: all */
	unsigned width;	   /* columns; 0: lines are not broken */
	bool colour;
};
typedef void replay_out_fn(void *arg, struct str text);

struct timeline;
struct timeline *timeline_new(
    const struct replay_opts *o, struct replay_blobs *blobs, replay_out_fn *out, void *arg);
void timeline_free(struct timeline *t);
/* Each record, in order. */
void timeline_record(struct timeline *t, const struct record *r);
/* Lines of ours, broken as all are. */
void timeline_say(struct timeline *t, struct str lines);
/* The gaps: actions without outcome, runs without end. Returns how many records were shown. */
size_t timeline_end(struct timeline *t);

#endif
