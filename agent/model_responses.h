/* OpenAI's Responses and what serves them: requests out, stream in. */
#ifndef AGENT_MODEL_RESPONSES_H
#define AGENT_MODEL_RESPONSES_H

#include "agent/model_provider.h"

extern const struct model_provider model_responses;
/* An event of the stream into *reply (a sse_event_fn with it as the argument). */
int responses_event(void *reply, struct str name, struct str data, struct err *err);

#endif
