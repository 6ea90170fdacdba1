/* Requests to AWS to effects. Pure; between files of effects_http. */
#ifndef POLICY_EFFECTS_AWS_H
#define POLICY_EFFECTS_AWS_H

#include "policy/effects_http.h"

/* By the head. Where the body tells the action it is opaque until that is judged. */
void effects_aws(const struct policy_target *t, const struct http_request *r, struct http_view *v);
/* By what the body, or the query string, says (policy/facts.h). */
void effects_aws_facts(
    const struct policy_target *t, const struct json *facts, struct http_view *v);
/* A bare action, "rds:DeleteDBInstance", as rights name it. */
void effects_aws_action(struct str action, struct http_view *v);

/*
 * For which region and service the broker signs: those of the target, by its host name or, where
 * that does not tell, by its lists; the client's own signature must say the same. False: *why,
 * static.
 */
bool effects_aws_scope(const struct policy_target *t, const struct http_request *r,
    struct str *ret_region, struct str *ret_service, const char **why);
/* The one region that a target has; "": it has many, or none is said. Borrowed from it, or static.
 */
struct str effects_aws_region(const struct policy_target *t);
/* Why servers may not agree on what the path names; NULL: they do. Of S3 a key may have a '%'. */
const char *effects_aws_path_fault(const struct policy_target *t, const struct http_request *r);

#endif
