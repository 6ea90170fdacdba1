/*
 * What was said to a model and what it said, out of the sealed bytes of the exchange: Anthropic
 * Messages, OpenAI Chat Completions and Responses, streamed or not. For people to read; nothing is
 * decided by it.
 */
#ifndef AUDIT_REPLAY_MODEL_H
#define AUDIT_REPLAY_MODEL_H

#include "common/buf.h"

/* A request head with its body: the model, how many messages, and the last of them in full.
 * False: not of a form that is known; out holds nothing then. */
bool replay_model_prompt(struct str exchange, struct buf *out);
/* Of what was streamed: the data of the next event, cut from *left; false: no more. */
bool replay_model_event(struct str *left, struct str *ret);
/* An answer's body. */
bool replay_model_answer(struct str body, struct buf *out);

#endif
