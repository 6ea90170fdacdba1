/*
 * What is left of records that were pruned: their leaf hashes, segment by segment, and the lines
 * that were kept because what is there needs them (docs/format-log.md, "Pruned").
 */
#ifndef AUDIT_PRUNED_H
#define AUDIT_PRUNED_H

#include "audit/record.h"
#include "audit/segment.h"

struct pruned;
/* `files` of seg/ stay the caller's. *ret NULL: a segment begins at record 0, or there is none. */
int pruned_open(int logdir, const struct log_files *files, struct pruned **ret, struct err *err);
void pruned_free(struct pruned *p);
/*
 * 1: the leaf of record k, the next one, and if *ret_is the record itself (good until the next
 * call); 0: leaves reach no further. ERR_TAMPER: what was kept is not of these leaves.
 */
int pruned_next(struct pruned *p, uint64_t k, struct hash *ret_leaf, struct record *ret,
    bool *ret_is, struct err *err);
uint64_t pruned_segment(const struct pruned *p); /* first seq of the one being read */

/*
 * The digest of what was kept, in pieces: SHA-256 over, for each file of kept lines from <= number
 * < to, ascending: the number (8 bytes, big-endian) and the SHA-256 of its content. kept_sum_more:
 * 1 there is more; 0: *ret is it.
 */
struct kept_sum;
int kept_sum_new(int logdir, uint64_t from, uint64_t to, struct kept_sum **ret, struct err *err);
void kept_sum_free(struct kept_sum *k);
int kept_sum_more(struct kept_sum *k, struct hash *ret, struct err *err);
/* The same at once. */
int kept_digest(int logdir, uint64_t from, uint64_t to, struct hash *ret, struct err *err);

#endif
