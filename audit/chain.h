/*
 * One pass over all records of a log directory: lines, chain, batches and tree together, so that
 * the two structures cover the same records by construction. What does not fit is classified by
 * the rules of docs/format-log.md, "Verdicts".
 */
#ifndef AUDIT_CHAIN_H
#define AUDIT_CHAIN_H

#include "audit/record.h"
#include "audit/segment.h"
#include "audit/tree.h"

/* X(name, word): what can be wrong. Only `torn` is not tampering. */
#define LOG_KINDS(X)                                                                       \
	X(TORN, "torn") /* an unfinished write at the end, nothing signed lost */          \
	X(CHANGED, "changed")                                                              \
	X(MISSING, "missing")                                                              \
	X(REORDERED, "reordered")                                                          \
	X(DUPLICATED, "duplicated")                                                        \
	X(INSERTED, "inserted")                                                            \
	X(MISPLACED, "misplaced")   /* a segment file under another number */              \
	X(CUT, "cut")		    /* shorter than what was signed */                     \
	X(REWRITTEN, "rewritten")   /* whole in itself, but not what was signed */         \
	X(CHECKPOINT, "checkpoint") /* a checkpoint that is not one, or not signed so */   \
	X(LEAVES, "leaves")                                                                \
	X(BLOB, "blob")		      /* content missing from the packs, or changed */     \
	X(FOREIGN, "foreign")	      /* a file that does not belong there */              \
	X(AFTER_CLOSE, "after-close") /* a record where only a start may stand */          \
	X(RESPLIT, "resplit")	      /* the same records in other segment files */        \
	X(JUNK, "junk")		      /* bytes in a pack that are no frame */              \
	X(CONTENT, "content")	      /* sealed content is not what its record says */     \
	X(SIGNATURE, "signature")     /* of a person, over what was asked */               \
	X(KEY, "key")		      /* a handover of the log's key that does not hold */ \
	X(KEPT, "kept")		      /* what was kept of pruned records is not that */

enum log_kind {
	LOG_KIND_NONE = 0,
#define X(name, word) LOG_KIND_##name,
	LOG_KINDS(X)
#undef X
};
const char *log_kind_name(enum log_kind k);

#define TORN_MAX ((size_t)1 << 20) /* bytes a crash can leave behind: one batch at most */

struct log_fault {
	enum log_kind kind;
	uint64_t seq, last;    /* first and last record touched */
	uint64_t segment, off; /* where reading stopped */
	uint64_t bytes;	       /* torn: from off to the end of the segment */
	char text[160];	       /* what was seen, for people */
};

struct chain;
/* Where reading begins: the log's tree and last leaf there. {0}: at record 0. */
struct chain_from {
	struct tree_range tree;
	struct hash head;
};
/* `newest` is the size of the newest valid checkpoint (0: none). */
int chain_open(int logdir, uint64_t newest, struct chain **ret, struct err *err);
struct chain *chain_of_nothing(int logdir, uint64_t newest); /* as if seg/ were there, and empty */
/* Go on from there, before the first chain_next; false: no segment begins at it. */
bool chain_skip(struct chain *c, const struct chain_from *from);
/*
 * Records before `size` are taken as signed: this is the root of a head of that size, and a reading
 * before this one judged them. Their lines are read and held against their hashes, and at `size`
 * against the root; the form of what chain_heeds() is not true of is not judged again.
 */
struct chain_signed {
	uint64_t size;
	struct hash root;
};
/* Before the first chain_next, which gives of such a record `seq` and `body` alone: `data` is {},
 * texts are empty. The last one before `size` is given whole. */
void chain_as_signed(struct chain *c, const struct chain_signed *s);
/* At the end. False: up to `size` it is not what was signed. What else the chain says is void then.
 */
bool chain_signed_fits(const struct chain *c);
/* False: if this BODY is a record, it says nothing that counts for a log beyond its place: its type
 * is neither log.* nor erasure, and it names no sealed content. */
bool chain_heeds(struct str body);
/* Called for each pruned record whose line was not kept, with the log's tree right behind it. */
typedef void chain_gone_fn(void *arg, const struct tree_range *tree);
void chain_on_gone(struct chain *c, chain_gone_fn *fn, void *arg);
void chain_free(struct chain *c);
/*
 * Of a log that was pruned, its kept records come first; if no record among those read says that so
 * many were pruned, the fault at the end is MISSING.
 * 1: the next record (good until the next call); 0: no more, see chain_fault; else cannot be read.
 */
int chain_next(struct chain *c, struct record *ret, struct hash *ret_leaf, struct err *err);
/* For who ends before the end: no fault, and what is not there is said, by a record that was read,
 * to be pruned; else that is the fault. */
bool chain_pruned_ok(struct chain *c);
uint64_t chain_size(const struct chain *c); /* records read */
const struct hash *chain_head(const struct chain *c);
const struct tree_range *chain_tree(const struct chain *c);
bool chain_is_kept(const struct chain *c); /* the record given last is one of a pruned segment */
uint64_t chain_segment(const struct chain *c); /* first seq of the segment being read */
const struct log_files *chain_files(const struct chain *c);
const struct log_fault *chain_fault(const struct chain *c); /* kind 0: none */

#endif
