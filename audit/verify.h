/*
 * Verification of a whole log directory by public keys alone. A verdict is never just "OK":
 * it says up to which size what was signed holds, what stands behind that, and each finding.
 */
#ifndef AUDIT_VERIFY_H
#define AUDIT_VERIFY_H

#include "audit/chain.h"
#include "audit/checkpoint.h"

#define VERIFY_FAULTS_MAX 32

struct verdict {
	uint64_t size;	   /* records that are whole in themselves */
	uint64_t verified; /* the largest signed size that holds; 0: none */
	char origin[ORIGIN_MAX + 1];
	struct hash root;     /* at `verified` */
	char time[32];	      /* of the last record covered; empty if none */
	uint64_t torn;	      /* bytes of an unfinished write behind the last record */
	uint64_t heads;	      /* checkpoints that hold */
	uint64_t blobs;	      /* referenced and there */
	size_t nfaults, more; /* more: findings beyond the table */
	struct log_fault faults[VERIFY_FAULTS_MAX];
	char config[ERR_MSG_MAX +
		    64]; /* not empty: a checkpoint by no key given; nothing was found else
			  */
};

/* A checkpoint kept elsewhere: the log must hold it. */
struct pin {
	struct checkpoint cp;
	const char *name; /* for messages */
};

/* Pins were opened with the same keys. Fails only when the directory cannot be read. */
int verify_log(int logdir, const struct vkeys *keys, const struct pin *pins, size_t npins,
    struct verdict *ret, struct err *err);
/* 0 verified, 1 tamper, 2 configuration, 3 whole but with an unsigned or torn end. */
int verdict_status(const struct verdict *v);
void verdict_put(struct buf *out, const struct verdict *v);

#endif
