/*
 * May one bundle follow another? The serial rises, and where the bundle before says who owns the
 * policy, enough of them have signed that this one follows that one. Pure; used by core, which
 * enforces it, and by the command line, which says so beforehand.
 */
#ifndef POLICY_SUCCESSION_H
#define POLICY_SUCCESSION_H

#include "policy/policy.h"

#define SUCCESSION_NAMESPACE "cofferdam-policy"
#define SUCCESSION_STATEMENT_MAX ((size_t)2048)
#define SUCCESSION_SIGNATURES_MAX 64
#define SUCCESSION_FILE_MAX ((size_t)512 << 10)

/* The bytes that an owner signs: printable ASCII, one line a field, LF. */
struct succession_step {
	struct str policy, author, signer; /* author: empty for none */
	int64_t serial;
	struct hash bundle, before;
};
void succession_step_put(const struct succession_step *s, struct buf *out);
void succession_statement(
    const struct policy *next, const struct hash *before, struct str signer, struct buf *out);

struct succession_signature {
	struct str person, armored;
};
/* What stands beside a bundle, read from its file. */
struct succession {
	struct hash before, bundle;
	size_t n;
	struct succession_signature sig[SUCCESSION_SIGNATURES_MAX];
	struct json_doc *doc; /* what the strings are borrowed from */
};
void succession_free(struct succession *s);
#define AUTO_SUCCESSION __attribute__((cleanup(succession_free)))
/* `ret` may be freed after an error as well. */
int succession_parse(struct str text, struct succession *ret, struct err *err);
void succession_put(const struct succession *s, struct buf *out);

/* Does this one signature count for the step? ERR_SIGNATURE says why not. */
int succession_counts(const struct policy *before, const struct policy *next,
    const struct succession_signature *s, struct err *err);
/*
 * 0: `next` may follow `before`. The same bundle always may. ERR_DENIED says what is missing, and
 * whose signatures did not count and why.
 */
int succession_check(const struct policy *before, const struct policy *next,
    const struct succession_signature *sig, size_t n, struct err *err);

#endif
