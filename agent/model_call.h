/* A call as a model writes it, a name and the text of its arguments, read by the table of tools. */
#ifndef AGENT_MODEL_CALL_H
#define AGENT_MODEL_CALL_H

#include "agent/model.h"

/* *ret borrows from *ret_args; what cannot be read is its fault. An empty text is no arguments. */
void model_call_read(
    struct str name, struct str args, struct model_call *ret, struct json_doc **ret_args);
void model_call_drop(struct model_call *c, struct json_doc **args);

#endif
