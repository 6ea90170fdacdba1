/*
 * What differs between providers' APIs. A conversation is kept as text, message by message, in
 * the provider's own form: what was sent once is sent again byte for byte, so that a provider's
 * cache of prefixes holds.
 */
#ifndef AGENT_MODEL_PROVIDER_H
#define AGENT_MODEL_PROVIDER_H

#include "agent/model.h"
#include "agent/model_reply.h"
#include "agent/model_sse.h"
#include "common/http.h"

#define MODEL_REQUEST_MAX ((size_t)2 << 20) /* as the broker takes a model's request */

struct model_talk {
	const char *model, *system; /* the prompt stays the same, byte for byte */
	uint64_t max_output;	    /* tokens of one answer; 0: the provider's or our default */
	size_t *said;		    /* where in past each answer of the model begins */
	size_t nsaid, after_task;
	bool last_said;	 /* the newest is one */
	struct buf past; /* messages, commas between */
	struct buf last; /* the newest message or messages */
	struct buf
	    last_marked; /* the same, marked as the end of what may be cached; may be empty */
};

struct model_provider {
	const char *name, *default_base;
	uint64_t context; /* tokens that its models take, where nobody says otherwise */
	/* Where the API lies below a base URL's path ("" or "/x", no slash at its end). */
	void (*path)(const char *base_path, struct buf *out);
	const struct http_field *fields; /* of each request, besides ours */
	size_t nfields;
	void (*task)(struct model_talk *t, struct str task);
	/* The whole body of the next request. */
	void (*request)(const struct model_talk *t, struct buf *out);
	sse_event_fn *event; /* its argument is the struct reply */
	/* The answer as it is said back; nothing when there is nothing in it. */
	void (*said)(struct model_talk *t, const struct reply *r);
	/* Answers to its calls, in order, then a note of ours ("" none). */
	void (*answers)(struct model_talk *t, const struct reply *r, const struct model_ask *ask,
	    struct str note);
	/* A message of ours by itself, behind what is in out. */
	void (*words)(struct buf *out, struct str text);
	/* Type and text of an error answer's body; false: it is not of the provider's form.
	 * *ret_final: the provider says that no try will help (a spend limit). */
	bool (*error)(struct str body, char **ret_type, char **ret_text, bool *ret_final);
};

void model_talk_init(struct model_talk *t);
void model_talk_free(struct model_talk *t);
/* The last message becomes past; the next is to be written where this says. */
struct buf *model_talk_next(struct model_talk *t);
/* The newest is an answer of the model. */
void model_talk_said(struct model_talk *t);
/*
 * Of what is past, all between the task and the model's last `keep` answers is left out, `words`
 * stand there instead (a message, or several). Returns how many answers that were; 0: nothing.
 */
/* One more message of a text alone, in the form that OpenAI's interfaces share; call: whose answer
 * it is, NULL: no call's. */
void model_text_put(struct buf *out, const char *role, struct str text, const char *call);
/* One event of their streams: 1: it was the last; 0: *ret is its JSON. */
int model_event_read(struct str data, struct json_doc **ret, struct err *err);
size_t model_talk_drop(struct model_talk *t, size_t keep, struct str words);
void model_talk_messages(const struct model_talk *t, struct buf *out); /* a JSON array */

/* What a problem+json body (RFC 9457) says, fit for a terminal; the caller frees. */
char *model_problem_text(struct str body);

#endif
