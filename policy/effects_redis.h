/* Redis commands (redis/redis-doc commands.json, protocol RESP) to effects. Pure. */
#ifndef POLICY_EFFECTS_REDIS_H
#define POLICY_EFFECTS_REDIS_H

#include "common/json.h"
#include "policy/effect.h"
#include "policy/resource.h"

struct redis_view {
	uint32_t effects;    /* of all commands together: MULTI is judged as a whole; never 0 */
	unsigned statements; /* commands but MULTI, EXEC and their like; at least 1 */
	const char *fault;   /* why it is opaque or invalid; NULL */
	struct resources resources; /* keys; "*" where no position tells them */
};
/* By what the parser found (policy/facts.h). Not of the closed form: opaque. */
void effects_redis(const struct json *facts, struct redis_view *ret);

#endif
