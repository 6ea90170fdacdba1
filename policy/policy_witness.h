/* One action, with the signatures and lifts under which a policy lets it pass: an example for
 * people. */
#ifndef POLICY_POLICY_WITNESS_H
#define POLICY_POLICY_WITNESS_H

#include "common/arena.h"
#include "common/jcs.h"
#include "policy/policy.h"

/* As a person gives it to `policy explain --request`. Strings are borrowed. */
struct policy_request {
	struct policy_input in; /* its lifts and rates point to those here */
	struct policy_lift lifts[DECISION_LIFTED_MAX];
	struct policy_grant grants[POLICY_QUORUM_MAX];
	struct policy_rate_count rates[POLICY_RATES_MAX];
	size_t nlifts, ngrants, nrates;
};
/* Every rule with a rate counted `n` so far, but those that are in it already. */
void policy_request_rates(const struct policy *p, struct policy_request *r, unsigned n);
/*
 * One line each of what it names and the policy does not have (an example of `diff` may name what
 * only the other policy has, so it is no error): people, roles, rules.
 */
void policy_request_doubts(const struct policy *p, const struct policy_request *r, struct buf *out);
/* in.lifts and in.rates are set to r's own; after a copy, again. */
void policy_request_aim(struct policy_request *r);
/* A lift of one rule's forbid (rule NULL: break-glass) for exactly this action. False: one too
 * many.
 */
bool policy_request_lift(struct policy_request *r, const struct str *rule);
/*
 * Distinct people for each slot, none of them the owner. False: there are not enough, or more are
 * asked for than a rule may ask.
 */
bool policy_request_sign(
    const struct policy *p, struct policy_request *r, const struct policy_slot *slots, size_t n);

/* The request as one JSON object, as `policy explain --request` reads it. */
void policy_request_jcs(struct jcs *j, const char *key, const struct policy_request *r);
int policy_request_read(const struct policy *p, const struct json_doc *doc, const struct json *v,
    struct arena *mem, struct policy_request *ret, struct err *err);
/*
 * What it is, in words, each line after the first indented by `indent`: "an action with effects
 * drop on crm-db (postgres, prod)", when, whose, with whose signatures. No line feed at the end.
 */
void policy_request_words(
    const struct policy *p, const struct policy_request *r, const char *indent, struct buf *out);
/* "inside yearend until ..." of every calendar that the policy has; nothing if it has none. */
void policy_calendar_words(
    const struct policy *p, struct instant at, const char *sep, struct buf *out);

#endif
