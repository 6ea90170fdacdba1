/*
 * Records of a log read for themselves: onwards from any place, or one by its place. Each line's
 * hash, form and number are checked, and `prev` from one to the next; signatures are not (verify
 * does). For the index, for queries and for exports; works while the log is written to.
 */
#ifndef AUDIT_READER_H
#define AUDIT_READER_H

#include "audit/record.h"
#include "audit/segment.h"

/* Where a record's line begins: in the segment that holds seq. */
struct reader_place {
	uint64_t seq;
	uint64_t off;
};

struct reader;
/*
 * Sees the log as it is now; what is written later, the next reader sees. What is pruned meanwhile
 * is not read: it goes on with the first record that is there.
 */
int reader_open(int logdir, struct reader **ret, struct err *err);
void reader_free(struct reader *r);
DEFINE_AUTO(reader, struct reader, reader_free)
uint64_t reader_first(const struct reader *r); /* seq of the first record that is still there */
bool reader_holds(const struct reader *r, uint64_t seq); /* a segment may have it */
/* The number of the segment that holds seq; the first one if seq is before it. */
uint64_t reader_segment(const struct reader *r, uint64_t seq);
/* Go on from there. Without it, from the first record. ERR_NOT_FOUND: no such place. */
int reader_seek(struct reader *r, const struct reader_place *at, struct err *err);
/*
 * 1: a record (good until the next call) and where it is; 0: no more; ERR_TAMPER: what stands there
 * does not fit, and nothing behind it is read.
 */
int reader_next(struct reader *r, struct record *ret, struct reader_place *ret_place,
    struct hash *ret_leaf, struct err *err);
/*
 * The record at a place, good until the next call; reader_next goes on as before. ERR_NOT_FOUND: no
 * segment has it, or none any more.
 */
int reader_at(struct reader *r, const struct reader_place *at, struct record *ret,
    struct hash *ret_leaf, struct err *err);
/*
 * Does the record behind that one follow it, by its `prev`? Reads it; what reader_at gave stays
 * good. ERR_TAMPER: it does not, or is none. 0 also where the log ends, or was pruned meanwhile.
 */
int reader_at_followed(struct reader *r, const struct hash *leaf, struct err *err);

#endif
