/* Between the files of a review. */
#ifndef POLICY_POLICY_REVIEW_INTERNAL_H
#define POLICY_POLICY_REVIEW_INTERNAL_H

#include "policy/policy_review.h"
#include "policy/policy_space.h"

struct theorem {
	struct policy_theorem pub;
	struct cond never;
};

struct policy_review {
	struct policy *p;
	const struct policy_part *parts;
	size_t nparts;
	size_t n; /* theorems */
	struct theorem *theorems;
	struct space_cond *conds; /* one a rule, then one a theorem */
	struct space *space;
	/* Rules by what they are. */
	uint64_t *permits, *requires, *forbids, *of[OVERRIDE_BREAKGLASS + 1];
};

/* Where a calendar (key "calendars") or a theorem ("prove") was written; the rule of that number.
 */
struct policy_part policy_review_place(
    const struct policy_review *r, const char *key, struct str id);
struct policy_part policy_review_rule(const struct policy_review *r, size_t i);
/*
 * The point as a request with the lifts that it needs, judged by policy_eval(). False: not allowed
 * after all (too many lifts, no clock for them, nobody to sign).
 */
bool policy_review_confirm(const struct policy_review *r, const struct space_point *pt,
    bool breakglass, struct policy_request *ret, struct decision *d);

#endif
