/*
 * The writer's store: one log directory, opened by one process, appended in batches. A record
 * counts only when store_commit() has returned 0: then blob and line are synced. After any error
 * of write or sync the store is dead: the process must end, and the next start reads the disk.
 */
#ifndef AUDIT_WRITER_STORE_H
#define AUDIT_WRITER_STORE_H

#include "audit/cosign.h"
#include "audit/handover.h"
#include "audit/record.h"
#include "audit/tree.h"
#include "audit/writer_sign.h"

#define STORE_SEGMENT_MAX ((uint64_t)64 << 20)
#define STORE_PACK_MAX ((uint64_t)256 << 20)
#define STORE_SEGMENT_AGE_US ((int64_t)24 * 3600 * 1000000)
#define STORE_BALLAST ((uint64_t)16 << 20)
#define STORE_BATCH_MAX \
	((size_t)1 << 20) /* bytes of lines in one batch: what may be torn at most */

/* Told of each record once, in order: at open of those on disk (behind what was restored), later of
 * each appended one. */
typedef void store_record_fn(void *arg, const struct record *r, const struct tree_range *tree);

struct store_opts {
	uint64_t segment_max, pack_max, ballast; /* 0: the defaults above */
	int64_t segment_age_us;
	const char *boot;     /* boot id, for log.open */
	const char *software; /* for log.open */
	/* How our key came from another one, and the note that says so; NULL: it is the first. */
	const struct handover *handover;
	struct str handover_note;
	/* For log.open: whom the log is shown to; NULL: nobody. */
	const struct cosigners *witnesses;
	store_record_fn *record;
	/* At open, before the first record: the tree where reading begins. May be NULL. */
	void (*from)(void *arg, const struct tree_range *tree);
	/*
	 * What the records told so far came to, for the next start: put and read back. False: it
	 * cannot be; then all records are told again. Both NULL: record keeps nothing.
	 */
	bool (*save)(void *arg, struct buf *out);
	bool (*restore)(void *arg, struct rd *in);
	void *arg;
};

struct store;
/*
 * Takes the lock, recovers (audit/writer_recover.c), appends log.open, syncs, signs. The signer
 * stays the caller's. ERR_TAMPER: refused, and nothing was changed; ERR_EXISTS: somebody else
 * writes here; ERR_DISK_FULL: no room for the ballast.
 */
int store_open(int logdir, struct signer *signer, const struct store_opts *opts, struct store **ret,
    struct err *err);
void store_free(struct store *s);

/* A sealed frame for the pack, checked in form (ERR_INVALID). */
int store_blob(struct store *s, struct str frame, struct err *err);
/*
 * Queue a record. ERR_INVALID: not canonical, wrong src, type or run; ERR_TOO_LARGE: BODY over its
 * limit; both leave the store as it was. Commits by itself first when the batch is full, so other
 * errors are as of store_commit; *ret_root (may be NULL) is the root at seq + 1.
 */
int store_append(struct store *s, const char *type, struct str src, struct str run, struct str data,
    uint64_t *ret_seq, struct hash *ret_root, struct err *err);
/*
 * Write and sync what is queued. ERR_DISK_FULL: the batch was dropped, log.full was written in the
 * room of the ballast, and the store is dead as after any other error.
 */
int store_commit(struct store *s, struct err *err);
/* Sign the committed size and store it durably as cp/<size>. Does nothing when it is signed
 * already. */
int store_checkpoint(struct store *s, struct err *err);
/* Copy the newest to `checkpoint`, where tlog readers look; off the path of answers. */
int store_publish(struct store *s, struct err *err);
/* log.close, commit, checkpoint, publish; the store takes nothing more (ERR_STATE). */
int store_close(struct store *s, struct err *err);

/* The newest checkpoint and its size; borrowed until the next one. */
struct str store_head(const struct store *s, uint64_t *ret_size);
/* Leaf hash of the record that was queued last. */
struct hash store_leaf(const struct store *s);
uint64_t store_size(const struct store *s);		    /* committed records */
const struct tree_range *store_tree(const struct store *s); /* of the committed records */
size_t store_pending(const struct store *s);		    /* bytes of lines and frames queued */
uint64_t store_unsigned(const struct store *s); /* committed but not covered by a checkpoint */
/* 1000 of them, and the last checkpoint is a twentieth of a second old. */
bool store_sign_due(const struct store *s);
uint64_t store_adopted(const struct store *s); /* at open: records that no checkpoint covered */
/* Where the committed records are: so many, the last segment from `first` on. */
struct store_durable {
	int segdir;
	uint64_t first, size;
};
struct store_durable store_durable(const struct store *s);
void store_last_time(const struct store *s, char out[32]); /* "" if none */

#endif
