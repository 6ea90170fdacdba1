/* A verdict on a log directory: what was found, what holds, and how that is said. */
#ifndef AUDIT_VERDICT_H
#define AUDIT_VERDICT_H

#include "audit/chain.h"
#include "audit/cosign.h"

#define VERIFY_FAULTS_MAX 32
#define VERIFY_ADOPTED_MAX 16

/* What a start found behind the newest checkpoint and went on from, by its log.open. */
struct adopted {
	uint64_t seq, first, n; /* of the log.open; the first record adopted, and how many */
};

/* How far a witness saw the log: the largest size it cosigned of what holds. */
struct witnessed {
	char name[ORIGIN_MAX + 1];
	uint64_t size, time_s; /* size 0: not at all */
};

struct verdict {
	uint64_t size;	   /* records that are whole in themselves */
	uint64_t verified; /* the largest signed size that holds; 0: none */
	char origin[ORIGIN_MAX + 1];
	struct hash root;     /* at `verified` */
	char time[32];	      /* of the last record covered; empty if none */
	uint64_t newest;      /* the largest size that was signed, as far as can be told */
	uint64_t resumed;     /* the size of the head from which it went on; 0: from none */
	uint64_t unlike;      /* of one from which it was to go on, where that could not be */
	uint64_t torn;	      /* bytes of an unfinished write behind the last record */
	uint64_t heads;	      /* checkpoints that hold */
	uint64_t blobs;	      /* referenced and there */
	size_t nfaults, more; /* more: findings beyond the table */
	struct log_fault faults[VERIFY_FAULTS_MAX];
	uint64_t unread;	 /* asked to look deep: contents and signatures that could not be */
	size_t erased, erasures; /* runs whose keys were destroyed, and records that say so */
	struct cosigners own;	 /* witnesses by the log's own word: of its last log.open */
	bool own_word;		 /* `witnessed` rests on that */
	size_t nwitnessed;
	struct witnessed witnessed[COSIGNERS_MAX];
	uint64_t pruned,
	    kept; /* records before this one were pruned; of so many the line is here */
	char pruned_by[64], pruned_at[32];
	size_t nadopted, more_adopted;
	struct adopted adopted[VERIFY_ADOPTED_MAX];
	char config[ERR_MSG_MAX +
		    64]; /* not empty: a checkpoint by no key given; nothing was found else
			  */
};

/* A finding; beyond the table it is only counted. */
void verdict_fault(struct verdict *v, const struct log_fault *f);
void PRINTF_LIKE(5, 6) verdict_found(
    struct verdict *v, enum log_kind kind, uint64_t seq, uint64_t last, const char *fmt, ...);
/* A finding if a directory, shown as `sub`, holds names that do not belong. */
void verdict_foreign(struct verdict *v, const char *sub, const struct log_files *f);
/* What a log.open says: of adopted records and of witnesses. Of other records nothing. */
void verdict_adopted(struct verdict *v, const struct record *r);
/* Nothing was found, and each checkpoint is by a key that was given. */
bool verdict_clean(const struct verdict *v);
/* 0 verified, 1 tamper, 2 configuration, 3 whole but with an unsigned or torn end. */
int verdict_status(const struct verdict *v);
void verdict_put(struct buf *out, const struct verdict *v);
/* The last line of that: what was signed and holds, and what stands behind it. */
void verdict_put_last(struct buf *out, const struct verdict *v);
/* All of it as one line of JSON, with what was said of a deep look (lines; may be empty). */
void verdict_put_json(struct buf *out, const struct verdict *v, struct str deep);

#endif
