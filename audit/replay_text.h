/* Content as people read it: start-up parameters, heads, what was said to a model and what it said.
 */
#ifndef AUDIT_REPLAY_TEXT_H
#define AUDIT_REPLAY_TEXT_H

#include "audit/replay_tell.h"

#define REPLAY_TEXT_MAX ((size_t)4 << 20)

/* Borrowed from raw or, where it had to be made, from `out` (of REPLAY_TEXT_MAX). */
struct str replay_text(struct str raw, enum replay_as as, struct buf *out);

#endif
