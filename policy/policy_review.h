/*
 * What can be said of a whole policy before it is built: its theorems proved or refuted, its rules
 * that do nothing. For the command line; core links none of it.
 */
#ifndef POLICY_POLICY_REVIEW_H
#define POLICY_POLICY_REVIEW_H

#include "common/json.h"
#include "policy/policy_witness.h"

/*
 * "never": no action like this passes. "unless": but with so many people's signatures, or under
 * break-glass, which both leave break-glass out of what is looked at. Exceptions count as given.
 */
struct policy_theorem {
	struct str id, why;
	unsigned people; /* 0: not said */
	bool breakglass;
	bool idle; /* no target of the policy is one that it speaks of: it holds, of nothing */
};

/* One file of a source, or the value inside one that is a policy. */
struct policy_part {
	const struct json_doc *doc;
	const struct json *v;
};

struct policy_review;
/* p, its source and the parts must outlive it. */
int policy_review_new(struct policy *p, const struct policy_part *parts, size_t nparts,
    int64_t now_s, struct policy_review **ret, struct err *err);
void policy_review_free(struct policy_review *r);
DEFINE_AUTO(policy_review, struct policy_review, policy_review_free)

size_t policy_theorem_count(const struct policy_review *r);
const struct policy_theorem *policy_theorem_at(const struct policy_review *r, size_t i);

/* An action that a theorem says cannot pass, as policy_eval() itself judged it. */
struct policy_counterexample {
	struct policy_request request; /* borrowed from the review */
	struct decision decision;
	size_t npermits, nrequires;
	struct str permits[DECISION_RULES_MAX], requires[DECISION_RULES_MAX];
};
/* *ret_holds, or a counterexample. ERR_TOO_COMPLEX: it was not decided. */
int policy_prove(struct policy_review *r, size_t theorem, bool *ret_holds,
    struct policy_counterexample *ret, struct err *err);
/* How many classes there are of each dimension, "12 targets, 3 times, ...". */
void policy_review_size(const struct policy_review *r, struct buf *out);

/* One thing that `check` says. Codes are stable words ("shadowed", "past", ...). */
struct policy_finding {
	struct policy_part at; /* the rule or calendar */
	const char *code;
	char text[512]; /* what is so, and what to write instead */
};
typedef void policy_finding_fn(void *arg, const struct policy_finding *f);
/* Rules that change nothing. A rule with "belt": true may be shadowed; it is then not told. */
int policy_lint_rules(struct policy_review *r, policy_finding_fn *say, void *arg, struct err *err);
/* Theorems that hold of nothing. */
void policy_lint_theorems(struct policy_review *r, policy_finding_fn *say, void *arg);
/* Calendars that say nothing, at this instant. */
void policy_lint_calendars(
    struct policy_review *r, int64_t now_s, policy_finding_fn *say, void *arg);

#endif
