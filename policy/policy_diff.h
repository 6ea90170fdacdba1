/*
 * What a change of a policy lets pass, for the one who reviews it. In doubt it says that there may
 * be new access: "no new access" is said only when every action that either policy tells apart was
 * looked at and none is let through more easily. What lies before now_s is not looked at.
 */
#ifndef POLICY_POLICY_DIFF_H
#define POLICY_POLICY_DIFF_H

#include "policy/policy_review.h"

enum policy_change_kind {
	CHANGE_ACCESS,	  /* an action that passes now, or more easily */
	CHANGE_TIGHTENED, /* one that passed, or more easily */
	CHANGE_RULE,
	CHANGE_TARGET,
	CHANGE_PERSON,
	CHANGE_CALENDAR,
	CHANGE_THEOREM,
	CHANGE_OTHER,
	CHANGE_KINDS
};

struct policy_change {
	enum policy_change_kind kind;
	bool widens; /* may be new access */
	char text[1024];
	/* Of CHANGE_ACCESS and CHANGE_TIGHTENED: an example, as both policies judged it. */
	const struct policy_request *request;
	const struct policy *words; /* the policy that the example is told by */
	const struct decision *before, *after;
};
typedef void policy_change_fn(void *arg, const struct policy_change *c);

struct policy_diff_sum {
	size_t n[CHANGE_KINDS];
	size_t widens;		       /* of all kinds */
	size_t left_out[CHANGE_KINDS]; /* examples that were not told */
	struct {
		size_t rules, targets, people, calendars;
	} same;
};
#define POLICY_DIFF_EXAMPLES_MAX 25 /* of each kind */
/* ERR_TOO_COMPLEX: not decided. */
int policy_diff(struct policy *before, struct policy *after, int64_t now_s, policy_change_fn *say,
    void *arg, struct policy_diff_sum *ret, struct err *err);
const char *policy_change_name(enum policy_change_kind k); /* access, tightened, rule, ... */

/* Between the files: what is in one policy and not in the other. */
int policy_diff_parts(const struct policy *before, const struct policy *after, int64_t now_s,
    policy_change_fn *say, void *arg, struct policy_diff_sum *ret, struct err *err);
/*
 * Theorems and cases of two sources: a bundle has none. A theorem that is gone or is another one
 * lets nothing pass by itself; but what it held, nothing holds any more.
 */
struct policy_diff_source {
	const struct policy_part *parts;
	size_t n;
};
void policy_diff_prove(const struct policy_diff_source *before,
    const struct policy_diff_source *after, policy_change_fn *say, void *arg,
    struct policy_diff_sum *ret);
/* Counts it, and tells it. */
void policy_diff_tell(
    const struct policy_change *c, policy_change_fn *say, void *arg, struct policy_diff_sum *ret);

#endif
