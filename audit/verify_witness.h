/* Who has witnessed a log, and how far: the cosignatures in its wit/. */
#ifndef AUDIT_VERIFY_WITNESS_H
#define AUDIT_VERIFY_WITNESS_H

#include "audit/verdict.h"

/*
 * Adds to a verdict of verify_log(): of these witnesses, or of those that the log itself names when
 * there are none of them. Fails only when the directory cannot be read.
 */
int verify_witnesses(int logdir, const struct vkeys *keys, const struct cosigners *who,
    struct verdict *v, struct err *err);

#endif
