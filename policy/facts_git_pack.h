/* How many commits a pack has (git/git gitformat-pack). Runs in cofferdam-parser alone. */
#ifndef POLICY_FACTS_GIT_PACK_H
#define POLICY_FACTS_GIT_PACK_H

#include "common/str.h"

struct git_pack {
	unsigned commits; /* by their own type, or that of the base within the pack */
	bool exact; /* false: it has deltas of objects that are not in it, whose type cannot be told
		     */
};
/*
 * id: bytes of an object id, 20 or 32. False: the pack is not whole, or malformed, or inflates to
 * more than 16 MiB; then nothing is known.
 */
bool facts_git_pack(struct str pack, size_t id, struct git_pack *ret);

#endif
