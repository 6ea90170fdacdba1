/* A model behind a provider's API, by way of the broker. */
#ifndef AGENT_MODEL_REMOTE_H
#define AGENT_MODEL_REMOTE_H

#include "agent/model.h"
#include "agent/model_http.h"

#define MODEL_RETRIES_DEFAULT 2

struct model_remote {
	const char *model;    /* "anthropic:NAME", "openai:NAME" or "openai-responses:NAME" */
	const char *base_url; /* http(s)://HOST[:PORT][/PATH]; NULL: the provider's own */
	const char *task, *system;
	uint64_t retries;
	uint64_t max_output; /* tokens of one answer; 0: a default */
	uint64_t context;    /* tokens that the model takes; 0: as its provider's usually do */
	struct model_http http;
};

/* ERR_INVALID names the option. Does nothing yet; http's pointers must stay good. */
int model_remote_open(const struct model_remote *c, struct model **ret, struct err *err);
/* Only the form of model and base_url. */
int model_remote_check(const char *model, const char *base_url, struct err *err);

#endif
