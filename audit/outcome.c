/*
 * Which outcomes are in doubt. Part of the library that the writer, core and the command line
 * share: the status, the timeline, the export and what a start is told must never differ in this.
 */
#include "audit/outcome.h"

#include "audit/canon.h"

#include "common/banned.h"

bool
outcome_leaves_doubt(struct str status)
{
	return str_eqz(status, "lost") || str_eqz(status, "unknown");
}

bool
outcome_in_doubt(struct str data)
{
	return outcome_leaves_doubt(canon_plain(canon_get(data, "status"))) &&
	       !str_eqz(canon_get(data, "reads"), "true");
}
