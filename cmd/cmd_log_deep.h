/* What `cofferdam log verify --deep` looks into beside the chain: sealed content and signatures. */
#ifndef CMD_CMD_LOG_DEEP_H
#define CMD_CMD_LOG_DEEP_H

#include "audit/chain.h"
#include "cmd/cmd_place.h"

/* Told of each finding, of kind content or signature. */
typedef void log_deep_fn(void *arg, const struct log_fault *f);
/*
 * Of the first `size` records, which the caller has verified. Puts lines about it on `out`; *ret is
 * how many contents and signatures could not be looked into. Fails only when the log cannot be
 * read.
 */
int log_deep(const struct cmd_place *place, uint64_t size, log_deep_fn *fn, void *arg,
    struct buf *out, uint64_t *ret, struct err *err);

#endif
