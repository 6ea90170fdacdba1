/* Signatures of people over requests. */
#ifndef BROKER_CORE_SIGN_H
#define BROKER_CORE_SIGN_H

#include "broker/core_control.h"
#include "policy/statement.h"

/* Strings that a statement of rq borrows. */
struct core_statement {
	struct statement s;
	char broker[80], action[80], policy[80];
	struct buf effects;
};
/* decision: approve, deny, revoke. Free with core_sign_statement_free. */
void core_sign_statement(const struct core_request *rq, const char *decision, struct str role,
    struct str person, struct core_statement *ret);
void core_sign_statement_free(struct core_statement *st);

/*
 * Signatures that came back from the log, of requests under the policy in force: those that
 * verify count, a request with one that does not is void.
 */
void core_sign_check_log(struct core *c);

/* Verbs approve, deny, revoke: {"id","person","role","signature"}. */
int core_sign_approve(struct core_call *call, struct err *err);
int core_sign_deny(struct core_call *call, struct err *err);
int core_sign_revoke(struct core_call *call, struct err *err);

#endif
