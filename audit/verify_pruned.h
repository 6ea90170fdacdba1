/* What a log says was pruned, held against what was kept of it. */
#ifndef AUDIT_VERIFY_PRUNED_H
#define AUDIT_VERIFY_PRUNED_H

#include "audit/verdict.h"

/* Starts as zeros. */
struct prunes {
	struct prune_said *said;
	size_t n;
};
void prunes_record(struct prunes *p, const struct record *r); /* a good one */
/*
 * At the end, `first` the first record whose segment is there. Findings, and by whom it was pruned,
 * go into the verdict. docs/format-log.md, "Verdicts", 13.
 */
int prunes_check(
    const struct prunes *p, int logdir, uint64_t first, struct verdict *v, struct err *err);
void prunes_free(struct prunes *p);

#endif
