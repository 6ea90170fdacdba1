/*
 * The answers that go back to the model (process: cofferdam-agent). They are what code in the
 * sandbox wrote, and believed by nobody here.
 */
#include "agent/agent_context.h"

#include "common/xalloc.h"

#include "common/banned.h"

void
context_answers_drop(struct course *k)
{
	for (size_t i = 0; i < k->nanswers; i++)
		free((void *)(uintptr_t)k->answers[i].text.p);
	free(k->answers);
	k->answers = NULL;
	k->nanswers = 0;
}
void
context_answer(struct course *k, struct str text, bool failed)
{
	k->answers = xreallocarray(k->answers, k->nanswers + 1, sizeof(*k->answers));
	k->answers[k->nanswers++] =
	    (struct model_answer){.text = {.p = str_dup(text), .n = text.n}, .failed = failed};
}
