/* Sealed content, as far as it can be told without keys: each reference is to a frame, packs are
 * frames. */
#ifndef AUDIT_VERIFY_BLOBS_H
#define AUDIT_VERIFY_BLOBS_H

#include <signal.h>

#include "audit/verdict.h"

/* Starts as zeros, but for `stop`. */
struct blobs {
	struct blob_seen *seen;
	size_t n;
	const volatile sig_atomic_t *stop; /* or NULL; not 0: enough */
};
void blobs_record(struct blobs *b, const struct record *r); /* a good one */
/*
 * Reads the packs; findings go into the verdict. Those numbered last_seg and later may be growing.
 * docs/format-log.md, "Verdicts", 7 and 11. 1: it was stopped.
 */
int blobs_check(struct blobs *b, int logdir, uint64_t last_seg, struct verdict *v, struct err *err);
void blobs_free(struct blobs *b);

#endif
