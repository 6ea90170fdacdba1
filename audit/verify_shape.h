/*
 * What the writer's own records say of the files around them: which checkpoints were signed, where
 * segments begin, that a log.close was an end. A verifier holds each good record against that.
 */
#ifndef AUDIT_VERIFY_SHAPE_H
#define AUDIT_VERIFY_SHAPE_H

#include "audit/chain.h"

#define SHAPE_FAULTS_MAX 3

/* Starts as zeros but for logdir (borrowed). */
struct shape {
	int logdir;
	bool ended;	/* only a start may stand here */
	uint64_t owed;	/* 0, or the size of a checkpoint that was signed before what comes next */
	uint64_t close; /* the record that ended it */
};
/*
 * The next good record and the number of the segment it stands in. Returns how many findings it
 * put into `out`. docs/format-log.md, "Verdicts", 8 to 10.
 */
size_t shape_record(struct shape *s, const struct record *r, uint64_t segment,
    struct log_fault out[SHAPE_FAULTS_MAX]);
/* seg/, cp/ and blob/ are made before the first record is: a finding for each that is not there. */
size_t shape_dirs(int logdir, struct log_fault out[SHAPE_FAULTS_MAX]);

#endif
