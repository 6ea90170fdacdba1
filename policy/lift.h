/*
 * What people sign beside the policy: emergency freezes, exceptions, break-glass. The signed
 * bytes, what may be asked for, and who must sign. Pure; used by core, which builds the bytes from
 * its own record, and by the command line, which builds them from what core showed. Nobody parses
 * them. docs/format-lift.md is this file in words.
 */
#ifndef POLICY_LIFT_H
#define POLICY_LIFT_H

#include "policy/policy.h"

#define LIFT_REASON_MAX 256 /* bytes of reason, ticket and note */
#define LIFT_WINDOW_MAX_S 86400
#define LIFT_GLASS_MAX_S 3600
#define LIFT_USES_MAX 1000
#define LIFT_ASK_S 600	      /* how long a freeze or break-glass that nobody signs stays open */
#define LIFT_FREEZE_SIGNERS 2 /* distinct people who lift a freeze */

enum lift_kind {
	LIFT_KIND_FREEZE = 0,
	LIFT_KIND_EXCEPTION = LIFT_EXCEPTION,
	LIFT_KIND_BREAKGLASS = LIFT_BREAKGLASS,
};
const char *lift_kind_name(enum lift_kind k); /* "freeze", "exception", "breakglass" */
bool lift_kind_parse(struct str name, enum lift_kind *ret);

/* What a signature says of the object. */
enum lift_decision {
	LIFT_NOTHING = 0,
	LIFT_START,   /* freeze start, exception grant, breakglass start: it is to be in force */
	LIFT_CONFIRM, /* break-glass: a second person agrees */
	LIFT_STOP,    /* freeze lift, exception revoke, breakglass end */
	LIFT_CLOSE,   /* break-glass: another person has reviewed it */
};
/* As the statement and the commands have it: "start", "grant", "lift", ... NULL: not of this kind.
 */
const char *lift_decision_name(enum lift_kind k, enum lift_decision d);
enum lift_decision lift_decision_parse(enum lift_kind k, struct str name);

/* What is asked for. Strings are borrowed; what its kind does not have is empty or 0. */
struct lift {
	enum lift_kind kind;
	struct str id, broker, policy, log_head; /* as in an approval statement */
	struct str rule;			 /* exception */
	struct str target;			 /* freeze: may be empty, all */
	struct str env;				 /* freeze: may be empty, all */
	struct str run;				 /* exception, break-glass: empty, any */
	uint32_t effects;
	int64_t from_us, to_us; /* exception: [from, to), whole seconds */
	int64_t seconds;	/* break-glass: how long, from its signature on */
	int64_t uses;		/* exception */
	struct str ticket;	/* exception */
	struct str reason;
	int64_t sign_by_us; /* whole seconds; who signs to start it must do so by then */
};
/* One signature's part of the statement. */
struct lift_signer {
	enum lift_decision decision;
	struct str role, person;
	struct str note; /* may be empty */
};

/* The bytes that are signed; ERR_INVALID when a field is empty or too long. */
int lift_bytes(const struct lift *l, const struct lift_signer *s, struct buf *out, struct err *err);
/*
 * May this be asked for at now_us? Rule, target, effects, times and texts, all but id, broker,
 * policy, log head, sign_by. The message says what is wrong and what the limit is.
 */
int lift_check(const struct lift *l, const struct policy *p, int64_t now_us, struct err *err);
/*
 * Who must grant an exception: whom the require rules ask for such an action at some time, and one
 * change-manager. False: that is more roles than one requirement can have.
 */
bool lift_slots(const struct policy *p, const struct lift *l,
    struct policy_slot out[POLICY_SLOTS_MAX], size_t *ret_n);
/* May a person with these roles sign this as `role`? For a freeze without roles in the policy:
 * "any". */
bool lift_role_fits(const struct policy *p, const struct lift *l, enum lift_decision d,
    const struct policy_person *q, struct str role);
/* The roles that may, "a, b", for people. False: nobody's role counts, the statement says "any". */
bool lift_roles(
    const struct policy *p, const struct lift *l, enum lift_decision d, struct buf *out);

#endif
