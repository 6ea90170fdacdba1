/*
 * Which back ends there are. Runs in the supervisor; a name that is not in the table is refused,
 * never replaced by another.
 */
#include "agent/sandbox/backend.h"

#include "common/banned.h"

const struct backend *
backend_find(const char *name)
{
	static const struct backend *const all[] = {
	    &backend_native, &backend_crun, &backend_runc, &backend_runsc};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}
