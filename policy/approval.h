/*
 * The life of one approval, as a pure function: pending -> (quorum) armed -> consumed, or ended.
 * Core calls it when a grant arrives (is it armed now?) and again at the moment of use; the case
 * runner calls the same function. No clock, no I/O: everything comes in the struct.
 */
#ifndef POLICY_APPROVAL_H
#define POLICY_APPROVAL_H

#include "common/hash.h"
#include "policy/policy.h"

#define APPROVAL_GRANTS_MAX 64 /* grants and denials on one request; more are not looked at */

/* X(name): why a request does not pass (yet). `none` goes with an allow. */
#define APPROVAL_REASONS(X)                                                                        \
	X(none)                                                                                    \
	X(already_used)		/* consumed: also when the broker died right after */              \
	X(veto)			/* one enrolled person said no */                                  \
	X(digest_mismatch)	/* another action than the one signed */                           \
	X(policy_mismatch)	/* another bundle than the one signed */                           \
	X(clock)		/* the time is not known, so no expiry can be judged; not ended */ \
	X(expired)		/* no quorum by approve_by, or long past */                        \
	X(use_window)		/* quorum was there, but use_within has passed */                  \
	X(freeze_started)	/* the policy asks more now (or forbids) than when it was asked */ \
	X(key_revoked)		/* a grant's key is not (or no more) that person's */              \
	X(namespace)		/* a grant was signed for another purpose */                       \
	X(not_a_person)		/* a grant by a key or name that is nobody's in the policy */      \
	X(separation_of_duties) /* who owns, started or told the run signed for it */              \
	X(verification)		/* signed without the user verification that was asked for */      \
	X(quorum)		/* people are still missing */

enum approval_reason {
#define X(name) APPROVAL_REASON_##name,
	APPROVAL_REASONS(X)
#undef X
};
const char *approval_reason_name(enum approval_reason r); /* "digest_mismatch" */

/* What was put before people, as recorded in approval.request. */
struct approval_pending {
	struct hash action, policy; /* digests, as in the statement */
	struct str owner;	    /* of the run */
	struct str
	    invoker; /* whose login started it, by the policy now; may be the owner, or empty */
	int64_t not_before_us; /* when it was asked */
	int64_t approve_by_us; /* not_before + within */
	int64_t use_within_s;  /* after quorum; 0: until approve_by */
	size_t nslots;
	struct policy_slot slots[POLICY_SLOTS_MAX]; /* asked for at that time */
	bool consumed;
	bool verify; /* only verified signatures count */
};

/* One signature that came in and verified; in order of arrival. */
struct approval_grant {
	struct str person;     /* claimed and looked up again here */
	struct str role;       /* signed for; empty: any role the person holds (tests only) */
	struct sig_pubkey key; /* that verified */
	struct str ns;	       /* namespace it verified in */
	int64_t at_us;	       /* when core took it */
	bool deny;	       /* a signed no */
	bool verified;	       /* by a hardware key that verified the person */
};

struct approval_check {
	const struct approval_pending *pending;
	const struct approval_grant *grants;
	size_t ngrants;
	const struct sig_pubkey
	    *revoked; /* keys withdrawn since, beside those missing from the policy */
	size_t nrevoked;
	const struct hash *action;	  /* digest of what is to be sent now */
	const struct policy *policy;	  /* the active one, its digest is compared */
	const struct policy_input *input; /* the action's facts now; .at is the moment of judging */
};

struct approval_result {
	enum verdict verdict;	     /* allow: armed, and would pass at this moment */
	enum approval_reason reason; /* none with allow */
	bool ended; /* never again: void the request (veto, expired, use_window, used, policy) */
	int64_t quorum_us; /* when the pending slots were filled; 0: not yet */
	int64_t use_by_us; /* last instant of use; 0 before quorum */
	size_t ncounted;   /* grants that count, for policy_eval and the record */
	struct policy_grant counted[APPROVAL_GRANTS_MAX];
	struct decision decision; /* the whole policy judged again at input->at with these grants */
};

/* Never fails; whatever does not fit is not allowed. ret borrows from the check and the policy. */
void approval_judge(const struct approval_check *c, struct approval_result *ret);

#endif
