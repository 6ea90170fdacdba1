/* Collecting output: used by sandbox_exec alone. */
#ifndef AGENT_SANDBOX_SANDBOX_RESULT_H
#define AGENT_SANDBOX_SANDBOX_RESULT_H

#include "agent/sandbox/sandbox.h"

void sandbox_result_init(struct sandbox_result *r, size_t head, size_t tail);
/* Counts all of s and keeps what belongs to the first `head` or the last `tail` bytes. */
void sandbox_result_add(struct sandbox_result *r, struct str s, size_t head, size_t tail);
void sandbox_result_end(struct sandbox_result *r, size_t tail);

#endif
