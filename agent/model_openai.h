/* OpenAI's Chat Completions and what serves them: requests out, stream in. */
#ifndef AGENT_MODEL_OPENAI_H
#define AGENT_MODEL_OPENAI_H

#include "agent/model_provider.h"

extern const struct model_provider model_openai;
/* As model_provider.error has it; also of Responses. */
bool openai_error(struct str body, char **ret_type, char **ret_text, bool *ret_final);
/* An event of the stream into *reply (a sse_event_fn with it as the argument). */
int openai_event(void *reply, struct str name, struct str data, struct err *err);

#endif
