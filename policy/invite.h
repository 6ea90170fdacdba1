/*
 * An invitation to enrol a passkey at the console: the signed bytes, and who may sign them. Pure;
 * core builds them from its own record, the command line from what core showed. Nobody parses them.
 * What an invitation leads to is a line for the policy; it counts once it stands there.
 */
#ifndef POLICY_INVITE_H
#define POLICY_INVITE_H

#include "policy/policy.h"

#define INVITE_VALID_S 86400

struct invite {
	struct str broker; /* as in an approval statement */
	struct str id;	   /* 26 digits of base32 */
	struct str origin; /* of the console */
	struct str person; /* who is invited: as ids in a policy are */
	int64_t until_us;  /* whole seconds */
	struct str signer;
};
/* ERR_INVALID when a field is empty or too long. */
int invite_bytes(const struct invite *v, struct buf *out, struct err *err);
/* Is it how the policy names people? */
bool invite_person_ok(struct str person);
/* An owner of the policy; where it has none, any of its people. */
bool invite_may_sign(const struct policy *p, struct str signer);

#endif
