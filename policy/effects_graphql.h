/* Facts of GraphQL requests (policy/facts.h) to effects. Pure; between files of effects_http. */
#ifndef POLICY_EFFECTS_GRAPHQL_H
#define POLICY_EFFECTS_GRAPHQL_H

#include "common/json.h"
#include "policy/policy.h"

struct graphql_view {
	uint32_t effects;  /* of all requests of a batch together; never 0 */
	unsigned requests; /* at least 1 */
	bool changes;	   /* one of them is a mutation */
	const char *fault; /* why one is opaque, static; NULL: none is */
};
/* What is not in the closed form is opaque. */
void effects_graphql(
    const struct policy_target *t, const struct json *facts, struct graphql_view *ret);

#endif
