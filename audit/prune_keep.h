/* What stays of pruned segments: single lines and frames that records which stay need. */
#ifndef AUDIT_PRUNE_KEEP_H
#define AUDIT_PRUNE_KEEP_H

#include "audit/prune_plan.h"

/* Records that are kept whatever they belong to: policies, erasures, keys, freezes and the like. */
bool prune_keep_type(struct str type);
/* Fills the plan's order in (from and to.size are set); prune_plan() says what `write` does. */
int prune_keep(int logdir, const struct log_files *seg, int64_t last_us, bool write,
    struct prune_plan *plan, struct err *err);

#endif
