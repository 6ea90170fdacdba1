/* How often what rules with a rate ask for was let through; see audit/rates.h. */
#ifndef BROKER_CORE_RATE_H
#define BROKER_CORE_RATE_H

#include "broker/core_decide.h"
#include "common/json.h"

/* Into a->rates, as far as it is known, before `in` (the action's, with its time) is judged. */
void core_rate_fill(const struct core *c, const struct policy_input *in, struct core_action *a);
/* The action is let through: it counts, and its record says for what (a->counted). */
void core_rate_count(struct core *c, const struct policy_input *in, struct core_action *a);
/* `counted` of a decision; nothing where nothing counted. */
void core_rate_jcs(struct jcs *j, const struct policy *p, const struct policy_input *in,
    const struct core_action *a);
/* What the writer tells; false: not of the form. */
bool core_rate_live(struct core *c, const struct json *data);

#endif
