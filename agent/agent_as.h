/* A connection to a unix socket as another user: who is at its other end is told so. */
#ifndef AGENT_AGENT_AS_H
#define AGENT_AGENT_AS_H

#include <stdint.h>

#include "common/err.h"

/* As ipc_connect; `as` NULL: as this process. Else root connects as that user, whatever the
 * socket's mode, and is root again. ERR_DENIED: not root. */
int agent_as_connect(const char *path, const uint32_t *as, int *ret_fd, struct err *err);

#endif
