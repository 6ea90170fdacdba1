/* What the model is given back, turn by turn. */
#ifndef AGENT_AGENT_CONTEXT_H
#define AGENT_AGENT_CONTEXT_H

#include "agent/agent_course.h"

/* One more answer to a call of the last turn; copied. */
void context_answer(struct course *k, struct str text, bool failed);
void context_answers_drop(struct course *k);

#endif
