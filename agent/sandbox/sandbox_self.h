/* What a sandbox takes from the process that builds it, beside its spec. */
#ifndef AGENT_SANDBOX_SANDBOX_SELF_H
#define AGENT_SANDBOX_SANDBOX_SELF_H

#include <stdbool.h>

#include "common/buf.h"

/* Two processes that put the same would build the same sandbox by the same spec, and have the same
 * rights over it. False: it cannot be told here. */
bool sandbox_self_put(struct buf *out);

#endif
