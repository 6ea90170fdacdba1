/* What the parts of model_remote share. */
#ifndef AGENT_MODEL_REMOTE_INT_H
#define AGENT_MODEL_REMOTE_INT_H

#include "agent/model_provider.h"
#include "agent/model_remote.h"
#include "agent/model_url.h"

struct remote {
	struct model model; /* first: the vtable's object is this one */
	const struct model_provider *provider;
	struct model_http http;
	struct model_url url;
	char *name, *task, *system, *path;
	uint64_t retries;
	struct model_talk talk;
	struct reply reply; /* the newest answer */
	struct buf words;
	struct model_call *calls; /* of it */
	struct json_doc **args;	  /* that the calls borrow from */
	size_t ncalls;
	struct buf note; /* goes with the next answers */
	bool begun;
	uint64_t asked;	  /* bytes of the request */
	uint64_t context; /* tokens that the model takes */
	uint64_t known;	  /* tokens of the conversation up to the last answer */
	bool shortened;	  /* since the last answer; not twice */
	bool full;	  /* the provider says that it is larger than the context */
};

/* One request with all that the talk has, tried again as it may be; its answer is r->reply. */
int remote_send(struct remote *r, uint64_t until_us, struct err *err);
/* Tokens of the last exchange. */
void remote_usage(const struct remote *r, struct model_turn *ret);

/* --- model_compact.c ------------------------------------------------------------- */

/* Is the conversation, with what is to be sent now, near the end of what the model takes? */
bool remote_is_long(const struct remote *r);
/*
 * Makes room: the model itself writes down what matters, and that stands in the place of all but
 * its last answers. *ret tells what was left out. False: there is nothing to leave out.
 */
bool remote_compact(struct remote *r, uint64_t until_us, struct model_turn *ret);

#endif
