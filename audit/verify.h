/*
 * Verification of a whole log directory by public keys alone. A verdict is never just "OK":
 * it says up to which size what was signed holds, what stands behind that, and each finding.
 */
#ifndef AUDIT_VERIFY_H
#define AUDIT_VERIFY_H

#include "audit/checkpoint.h"
#include "audit/verdict.h"

/* A checkpoint kept elsewhere: the log must hold it. */
struct pin {
	struct checkpoint cp;
	const char *name; /* for messages */
};

/* Told now and then how far it is: records, and of how many segments the how-manieth. */
typedef void verify_progress_fn(void *arg, uint64_t records, size_t segment, size_t segments);

/* Pins were opened with the same keys. Fails only when the directory cannot be read. */
int verify_log_told(int logdir, const struct vkeys *keys, const struct pin *pins, size_t npins,
    verify_progress_fn *fn, void *arg, struct verdict *ret, struct err *err);
static inline int
verify_log(int logdir, const struct vkeys *keys, const struct pin *pins, size_t npins,
    struct verdict *ret, struct err *err)
{
	return verify_log_told(logdir, keys, pins, npins, NULL, NULL, ret, err);
}

#endif
