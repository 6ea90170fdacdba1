/* Requests to the Kubernetes API to effects. Pure; between files of effects_http. */
#ifndef POLICY_EFFECTS_K8S_H
#define POLICY_EFFECTS_K8S_H

#include "policy/effects_http.h"

/* By the head; its path has no fault. Sets the effects, and what is wanted of the body. */
void effects_k8s(const struct policy_target *t, const struct http_request *r, struct http_view *v);
/* Adds what the body says (policy/facts.h). Not of the closed form: opaque. */
void effects_k8s_body(const struct json *facts, struct http_view *v);

#endif
