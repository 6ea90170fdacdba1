/* Actions of AWS by name. Pure. */
#ifndef POLICY_AWS_ACTION_H
#define POLICY_AWS_ACTION_H

#include "common/str.h"
#include "policy/effect.h"

struct aws_action {
	uint32_t effects; /* never 0; an unknown one is opaque */
	bool known;
	bool odd;   /* known by another spelling: small and capital letters */
	bool later; /* it lays down what acts at another time */
};
/* service: as in signatures, or as in the names of rights ("cloudwatch"). */
struct aws_action aws_action_find(struct str service, struct str action);
/* Is it a service whose actions are told by method and path? */
bool aws_service_is_rest(struct str service);
/* The service that "PREFIX.ACTION" of X-Amz-Target is of; "" none. */
struct str aws_target_service(struct str prefix);
/*
 * By method and path: what the best fits do, together; *ret_name: one of them, static; *ret_first:
 * the first {NAME} of the path, undecoded. Nothing fits: opaque, not known.
 */
struct aws_action aws_rest_find(struct str service, struct str method, struct str path,
    struct str query, const char **ret_name, struct str *ret_first);

#endif
