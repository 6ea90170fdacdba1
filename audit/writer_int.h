/* Inside of the store, shared by writer_store.c, writer_files.c, writer_key.c and writer_recover.c
 * alone. */
#ifndef AUDIT_WRITER_INT_H
#define AUDIT_WRITER_INT_H

#include "audit/segment.h"
#include "audit/writer_store.h"

#define FRAMES_MAX ((size_t)64 << 20) /* queued blobs of one batch */

struct leaves {
	struct hash *p;
	size_t n, cap;
};
void leaves_add(struct leaves *l, const struct hash *leaf);

/* What the next record follows. */
struct tail {
	struct tree_range tree;
	struct hash head;
	uint64_t batch; /* seq of the first record of the batch being queued */
};

struct store {
	int logdir, segdir, cpdir, blobdir, torndir, livedir; /* directories */
	int lockfd, dirlock;
	int seg, pack; /* the files appended to */
	struct signer *signer;
	struct store_opts opts;
	struct tail now, committed;
	uint64_t seg_first, seg_size, pack_size; /* committed bytes */
	int64_t seg_time_us;			 /* of the segment's first record */
	struct buf lines, frames;		 /* queued */
	struct buf body;			 /* of the record being queued */
	struct leaves seg_leaves, unsigned_leaves;
	size_t committed_leaves; /* of seg_leaves */
	uint64_t signed_size, published;
	uint64_t signed_us; /* boot clock, when that was */
	uint64_t adopted;   /* records found at open that no checkpoint covered */
	struct buf note;    /* the newest checkpoint */
	char last_time[32];
	int64_t clock_off_us;  /* wall clock minus boot clock at the last record; 0: none yet */
	int64_t clock_back_us; /* at open: so far is the wall clock behind the last record */
	bool dead, full;
	bool serving;	  /* log.open is written */
	bool new_segment; /* its log.segment is not signed yet */
	bool handed;	  /* the newest checkpoint is by the key that handed over to ours */
};

/* writer_files.c: each is durable when it returns 0 */
int files_dirs(struct store *s, struct err *err);
int files_lock(struct store *s, struct err *err);
int files_ballast(struct store *s, struct err *err);
int files_append(int fd, struct str bytes, uint64_t off, struct err *err); /* pwrite + fdatasync */
/* Segment and pack are what was written, and still found under their names. */
int files_current(const struct store *s, struct err *err);
/* Write name in dir by way of a temporary name; syncs the directory. */
int files_replace(int dir, const char *name, struct str bytes, mode_t mode, struct err *err);
int files_new_segment(struct store *s, uint64_t first, struct err *err);
int files_seal_segment(struct store *s, struct err *err);
/* Of a seal whose next segment did not come: more will be appended. */
int files_unseal_segment(struct store *s, struct err *err);
int files_sync(int fd, const char *what, struct err *err);

/* Made when it is needed for the first time. */
int files_key_dir(struct store *s, int *ret_fd, struct err *err);

/* writer_key.c */
void key_trusted(const struct store *s, struct vkeys *ret); /* for heads that are there */
void key_signed_last(struct store *s, const struct vkey *key);
int key_handed(struct store *s, struct err *err); /* file and record, if it is to be */

/* writer_resume.c */
struct resume {
	struct tree_range tree; /* size 0: read from the beginning */
	struct hash head;
	bool of_start; /* a start was being written: no other record may follow but its own */
};
/* Write down what the committed records came to; *ret its hash, *ret_is whether there is one. */
int resume_put(struct store *s, struct hash *ret, bool *ret_is, struct err *err);
int resume_tidy(struct store *s, struct err *err); /* take away what no start will use */
/* The newest that the signed records vouch for, restored to the caller's. */
int resume_find(struct store *s, uint64_t signed_size, struct resume *ret, struct err *err);
int resume_check_skipped(
    struct store *s, const struct log_files *f, uint64_t first, struct err *err);

/* writer_recover.c: reads what no sealed segment holds, quarantines a torn end; *ret_bytes 0:
 * nothing was torn */
struct recovered {
	uint64_t bytes[2]; /* of the segment, of the pack */
	struct hash sha256[2];
};
int store_recover(struct store *s, struct recovered *ret, struct err *err);

#endif
