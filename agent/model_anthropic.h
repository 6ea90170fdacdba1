/* Anthropic's Messages API and what serves it: requests out, stream in. */
#ifndef AGENT_MODEL_ANTHROPIC_H
#define AGENT_MODEL_ANTHROPIC_H

#include "agent/model_provider.h"

extern const struct model_provider model_anthropic;
/* An event of the stream into *reply (a sse_event_fn with it as the argument). */
int anthropic_event(void *reply, struct str name, struct str data, struct err *err);

#endif
