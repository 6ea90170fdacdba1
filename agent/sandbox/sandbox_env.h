/* The environment that programs in a sandbox begin with. */
#ifndef AGENT_SANDBOX_SANDBOX_ENV_H
#define AGENT_SANDBOX_SANDBOX_ENV_H

#include "agent/sandbox/sandbox.h"

/* NULL-terminated "NAME=value"; of spec->env the last of a name wins, also over ours. The caller
 * frees each and the list. */
char **sandbox_env_make(const struct sandbox_spec *spec);
/* One of ours, as HOME or SSL_CERT_FILE. */
bool sandbox_env_is_own(struct str name);

#endif
