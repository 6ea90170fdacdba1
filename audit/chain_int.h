/* The insides of a chain, for chain*.c alone. */
#ifndef AUDIT_CHAIN_INT_H
#define AUDIT_CHAIN_INT_H

#include "audit/chain.h"

struct chain {
	int logdir, segdir;
	uint64_t newest;
	struct log_files files;
	size_t file; /* index of the segment being read, plus one */
	struct segment *seg;
	struct tree_range tree;
	struct hash head;
	uint64_t batch, offset;
	struct log_fault fault;
	bool ended;
	struct pruned *pruned; /* while what is left of pruned records is read */
	uint64_t gone, said;   /* records that are not there, and that records say were pruned */
	struct chain_signed sure;
	bool unlike; /* what stands before sure.size is not that */
	chain_gone_fn *on_gone;
	void *on_gone_arg;
};

/* --- chain_signed.c ------------------------------------------------------------------ */
/* A line before sure.size. 1: *ret is what is read of it; 0: it is not what was signed. */
int chain_signed_line(struct chain *c, struct str line, struct record *ret, struct hash *ret_leaf);

/* --- chain_fault.c: which of the known ways it is -------------------------------------- */
void PRINTF_LIKE(5, 6) chain_set_fault(
    struct chain *c, enum log_kind kind, uint64_t seq, uint64_t last, const char *fmt, ...);
int chain_self_valid(struct str line, struct record *r, struct hash *leaf, struct err *err);
/* The first line of segment number i. False: it has none that is valid in itself. */
bool chain_first_seq(struct chain *c, size_t i, uint64_t *ret);
/* A line that is not valid in itself, by enum segment_line. */
int chain_bad_line(struct chain *c, int how, const char *why, struct err *err);
/* A line that is valid in itself, but not the next one. */
int chain_wrong_record(
    struct chain *c, const struct record *r, const struct hash *leaf, struct err *err);

#endif
