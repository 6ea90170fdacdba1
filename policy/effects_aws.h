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

#endif
