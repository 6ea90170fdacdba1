/*
 * What people signed beside the policy: lifts, which take a forbid away from exactly what they
 * name, and overlays, which only forbid. Runs in core and the command line. Whether the object
 * was signed, is used up or withdrawn is core's to know; nothing here lifts "never".
 */
#include "policy/policy_internal.h"

#include "common/banned.h"

static uint32_t
effects_of(const struct policy_input *in)
{
	return in->effects != 0 ? in->effects : EFFECT_opaque;
}

/* --- overlays ------------------------------------------------------------------------ */

/* Empty names all; an attribute that is missing may be the one that is named. */
static bool
may_be(struct str want, struct str have)
{
	return want.n == 0 || have.p == NULL || str_eq(want, have);
}

bool
policy_overlay_binds(const struct policy_overlay *o, const struct policy_input *in)
{
	return (effects_of(in) & o->effects) != 0 && may_be(o->target, in->target) &&
	       may_be(o->env, in->env) && (!in->at.known || in->at.us >= o->from_us);
}

/* --- lifts --------------------------------------------------------------------------- */

/* An exception lifts the one rule that it names, break-glass every rule that says so. */
static bool
lifts_rule(const struct policy_lift *l, const struct rule *rule)
{
	switch (l->kind) {
	case LIFT_EXCEPTION:
		return rule->override == OVERRIDE_EXCEPTION && l->rule.n != 0 &&
		       str_eq(l->rule, rule->id);
	case LIFT_BREAKGLASS: return rule->override == OVERRIDE_BREAKGLASS;
	}
	return false;
}

/* Everything it names must be known to hold: a lift is a permit in this. */
static bool
lifts_action(const struct policy_lift *l, const struct policy_input *in)
{
	if (l->effects == 0 || in->target.n == 0 || !str_eq(l->target, in->target))
		return false;
	if (l->run.n != 0 && (in->run.p == NULL || !str_eq(l->run, in->run)))
		return false;
	return (effects_of(in) & ~(l->effects | EFFECT_SET_DATA)) == 0 && in->at.known &&
	       in->at.us >= l->from_us && in->at.us < l->to_us;
}

static bool
noted(const struct decision *d, struct str id)
{
	for (size_t i = 0; i < d->nlifted; i++)
		if (str_eq(d->lifted[i], id))
			return true;
	return false;
}

bool
policy_lift_note(const struct rule *rule, const struct policy_input *in, struct decision *d)
{
	const struct policy_lift *found = NULL;

	for (size_t i = 0; i < in->nlifts; i++) {
		const struct policy_lift *l = &in->lifts[i];

		if (!lifts_rule(l, rule) || !lifts_action(l, in))
			continue;
		if (noted(d, l->id))
			return true;
		if (found == NULL)
			found = l;
	}
	if (found == NULL || d->nlifted == DECISION_LIFTED_MAX)
		return false;
	d->lifted[d->nlifted++] = found->id;
	return true;
}
