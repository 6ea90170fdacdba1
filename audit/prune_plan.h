/*
 * What a prune would take away and what must stay of it. A plan changes nothing until it is
 * written, and then only adds files: the writer takes away (writer_prune.c).
 */
#ifndef AUDIT_PRUNE_PLAN_H
#define AUDIT_PRUNE_PLAN_H

#include "audit/prune_order.h"
#include "audit/verdict.h"

struct prune_limit {
	uint64_t seq;	 /* records before it may go: UINT64_MAX: all */
	int64_t time_us; /* segments whose records are all older may go; INT64_MAX: all */
};
struct prune_plan {
	struct prune_order order; /* but for by and reason; from == to.size: nothing may go */
	char why[160];		  /* why no more goes */
	uint64_t runs;		  /* of records that stay: all of theirs are kept */
};
/*
 * `v` is what the verifier said of this log, without a finding. `write`: put what is to be kept
 * into kept/, durably, and leaf hashes where they are not there; what an abandoned plan left is
 * replaced.
 */
int prune_plan(int logdir, const struct verdict *v, const struct prune_limit *limit, bool write,
    struct prune_plan *ret, struct err *err);

#endif
