/*
 * Verification of a whole log directory by public keys alone. A verdict is never just "OK":
 * it says up to which size what was signed holds, what stands behind that, and each finding.
 */
#ifndef AUDIT_VERIFY_H
#define AUDIT_VERIFY_H

#include <signal.h>

#include "audit/checkpoint.h"
#include "audit/verdict.h"

/* A checkpoint kept elsewhere: the log must hold it. */
struct pin {
	struct checkpoint cp;
	const char *name; /* for messages */
};

/* Told now and then how far it is: records, and of how many segments the how-manieth. */
typedef void verify_progress_fn(void *arg, uint64_t records, size_t segment, size_t segments);

/* Told of each head of cp/ that was reached and holds, as long as nothing was found: `name` is its
 * file in the log directory. */
typedef void verify_held_fn(void *arg, const char *name, const struct checkpoint *cp);

/* Pins were opened with the same keys. Zeros: nothing of it. */
struct verify_ask {
	const struct pin *pins;
	size_t npins;
	/* A head up to which a run before this one judged all records and found nothing: it is held
	 * as a pin, and they are taken as chain_as_signed() says. If anything before it does not
	 * fit, all is read from the beginning, and the verdict says so. */
	const struct pin *resume;
	verify_progress_fn *told;
	verify_held_fn *held;
	void *arg;			   /* of both */
	const volatile sig_atomic_t *stop; /* not 0: enough */
};
/*
 * 0, and the verdict; 1: it was stopped, *ret has how many records were read (size), how many are
 * signed (newest) and what was found so far. Else the directory cannot be read.
 */
int verify_log_asked(int logdir, const struct vkeys *keys, const struct verify_ask *ask,
    struct verdict *ret, struct err *err);
static inline int
verify_log(int logdir, const struct vkeys *keys, const struct pin *pins, size_t npins,
    struct verdict *ret, struct err *err)
{
	const struct verify_ask ask = {.pins = pins, .npins = npins};

	return verify_log_asked(logdir, keys, &ask, ret, err);
}

#endif
