/* What the model is told of its place, its run and the rules. */
#ifndef AGENT_AGENT_PROMPT_H
#define AGENT_AGENT_PROMPT_H

#include "agent/agent_course.h"

/*
 * The system prompt: the same bytes for all of a run. `words` are the broker's, made from the
 * policy. The caller frees.
 */
char *prompt_make(const struct loop_config *c, const char *words);
/* What the model is to be told besides, with its next answers: rules that have changed. NULL:
 * nothing. The caller frees. */
char *prompt_note(struct course *k);

#endif
