/*
 * What the loop asks of a model: the next turn, given the conversation so far. Back ends:
 * model_script (plays a file). A back end holds no key; the broker adds it on the way.
 */
#ifndef AGENT_MODEL_H
#define AGENT_MODEL_H

#include "common/buf.h"
#include "common/err.h"

enum model_role { MODEL_TASK, MODEL_SAID, MODEL_RESULT };

struct model_message {
	enum model_role role;
	struct str text;
};

struct model_turn {
	bool done;		   /* words are the closing answer */
	struct str words;	   /* may be empty */
	struct str language, code; /* language empty: no code this turn */
};

struct model {
	const char *name;
	/* Everything in *ret is borrowed until the next call. */
	int (*next)(struct model *m, const struct model_message *talk, size_t n,
	    struct model_turn *ret, struct err *err);
	void (*free)(struct model *m);
};

/* Plays a file in the form of docs/model-script.md. */
int model_script_open(const char *path, struct model **ret, struct err *err);
/* The same from memory; `name` stands in messages. */
int model_script_parse(struct str text, const char *name, struct model **ret, struct err *err);
void model_free(struct model *m); /* NULL is fine */
DEFINE_AUTO(model, struct model, model_free)

#endif
