/*
 * What passes behind a 101 cannot be judged piece by piece, so the request for it is judged as all
 * of it: by what the policy says of that protocol on that target. Linked into core and the command
 * line; pure. Must find nothing where the policy says nothing.
 */
#include "policy/effects_upgrade.h"

#include "common/banned.h"

static bool
has_path(const struct policy_target *t, struct str path)
{
	for (size_t i = 0; i < t->nupgrade_paths; i++)
		if (str_eq(t->upgrade_paths[i], path))
			return true;
	return t->nupgrade_paths == 0;
}

const struct policy_upgrade *
effects_upgrade(const struct policy_target *t, const struct http_request *r, const char **ret_why)
{
	struct str protocol;

	*ret_why = "it asks for another protocol, and the target has no `upgrade`";
	if (t == NULL || t->nupgrades == 0)
		return NULL;
	*ret_why = http_upgrade_fault(r, &protocol);
	if (*ret_why != NULL)
		return NULL;
	*ret_why = "it asks for another protocol on a path that is not in the target's "
		   "`upgrade_paths`";
	if (!has_path(t, r->path))
		return NULL;
	for (size_t i = 0; i < t->nupgrades; i++)
		if (http_protocol_is(t->upgrades[i].protocol, protocol))
			return &t->upgrades[i];
	*ret_why = "it asks for another protocol than the target's `upgrade` names";
	return NULL;
}
