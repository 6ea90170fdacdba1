/* What the handlers of files share. */
#ifndef AGENT_E2B_FS_H
#define AGENT_E2B_FS_H

#include "agent/e2b.h"

/* Lets go of it: a sandbox is ended by its keeper alone. */
void e2b_sandbox_drop(struct sandbox **sb);
#define AUTO_DETACH __attribute__((cleanup(e2b_sandbox_drop)))
int e2b_stat(struct sandbox *sb, const char *path, struct json_doc **ret, struct err *err);

#endif
