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

/* As statements have them: "sha256:<hex>" of a hash, of the log's verifier key. */
void core_sign_sha256(char out[80], const struct hash *h);
void core_sign_broker(char out[80], const struct core *c);

/*
 * Two steps that every signature goes through. The first: a person of the policy (NULL: none), and
 * more than a name. The second: a signature over exactly `bytes`, by one of that person's keys.
 * NULL: so it is; else the reason in one word, and *why in words for the person. With *ret_known,
 * *ret tells which key it was made with, even if it does not count.
 */
const char *core_sign_person(const struct policy *p, struct str person, struct str signature,
    const struct policy_person **ret, struct err *why);
const char *core_sign_verify(const struct policy_person *q, struct str signature, struct str bytes,
    struct sig_sshsig *ret, bool *ret_known, struct err *why);

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
