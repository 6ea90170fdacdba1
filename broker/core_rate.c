/*
 * Rates of rules (process: core). Counted is what was let through, from when it was judged, and
 * before it is durable, so that what runs at once counts at once. The action's record holds the
 * counts it was judged by, so that a replay judges alike. Without a clock nothing is known.
 */
#include "broker/core_rate.h"

#include "audit/rates.h"

#include "common/banned.h"

static bool
name_of(const struct policy_rate *rate, const struct policy_input *in, struct rate_name *ret)
{
	struct str key = STR_NONE;

	switch (rate->per) {
	case RATE_NONE: break;
	case RATE_RUN: key = in->kin.p != NULL ? in->kin : in->run; break;
	case RATE_OWNER: key = in->owner; break;
	case RATE_AGENT: key = in->agent; break;
	case RATE_TARGET: key = in->target; break;
	}
	*ret = (struct rate_name){.rule = rate->rule,
	    .key = key,
	    .per = str_z(policy_rate_per_name(rate->per)),
	    .over = rate->over,
	    .in_s = rate->in_s};
	return key.p != NULL;
}

/* A COMMIT that stands alone: what it commits was counted as it ran. */
static bool
counts(const struct core_action *a)
{
	return !core_action_only_ends(a);
}

void
core_rate_fill(const struct core *c, const struct policy_input *in, struct core_action *a)
{
	a->nrates = 0;
	for (size_t i = 0; in->at.known && i < policy_rate_total(c->policy); i++) {
		const struct policy_rate *rate = policy_rate_at(c->policy, i);
		struct rate_name name;
		unsigned n;

		if (!policy_rate_concerns(c->policy, i, in) || !name_of(rate, in, &name) ||
		    !rates_count(c->rates, &name, in->at.us, &n))
			continue;
		if (!counts(a) && n != 0)
			n--;
		a->rates[a->nrates++] = (struct policy_rate_count){rate->rule, n};
	}
}

void
core_rate_count(struct core *c, const struct policy_input *in, struct core_action *a)
{
	if (!counts(a))
		return;
	a->counted = true;
	for (size_t i = 0; i < policy_rate_total(c->policy); i++) {
		struct rate_name name;

		if (policy_rate_concerns(c->policy, i, in) &&
		    name_of(policy_rate_at(c->policy, i), in, &name))
			rates_add(
			    c->rates, &name, in->at.us, a->statements != 0 ? a->statements : 1);
	}
}

void
core_rate_jcs(struct jcs *j, const struct policy *p, const struct policy_input *in,
    const struct core_action *a)
{
	bool open = false;

	for (size_t i = 0; a->counted && p != NULL && i < policy_rate_total(p); i++) {
		const struct policy_rate *rate = policy_rate_at(p, i);
		struct rate_name name;

		if (!policy_rate_concerns(p, i, in) || !name_of(rate, in, &name))
			continue;
		if (!open)
			jcs_array(j, "counted");
		open = true;
		jcs_open(j, NULL);
		jcs_int(j, "in", rate->in_s);
		jcs_str_lossy(j, "key", name.key);
		jcs_int(j, "over", rate->over);
		jcs_str(j, "per", name.per);
		jcs_str(j, "rule", name.rule);
		jcs_close(j);
	}
	if (open)
		jcs_array_end(j);
}

bool
core_rate_live(struct core *c, const struct json *data)
{
	return rates_told(c->rates, data);
}
