/*
 * What the loop asks of a model: the next turn, given what came of the last one. Back ends:
 * model_script (plays a file), model_remote (a provider's API). A back end keeps the
 * conversation itself, in the provider's form; it holds no key: the broker adds that on the way.
 */
#ifndef AGENT_MODEL_H
#define AGENT_MODEL_H

#include "common/buf.h"
#include "common/err.h"
#include "agent/agent_tool.h"

/* What the model wants done; several of one turn are done in order. */
struct model_call {
	const struct tool *tool; /* NULL only with a fault */
	struct tool_args args;
	char *fault; /* NULL; else why it cannot be done: that is its answer */
};

struct model_answer {
	struct str text;
	bool failed; /* was not run */
};

struct model_turn {
	bool done;	  /* words are the closing answer */
	struct str words; /* may be empty */
	const struct model_call *calls;
	size_t ncalls;
	/* Read and written; of those read so many came from, or went into, the provider's cache. */
	uint64_t tokens_in, tokens_out, cache_read, cache_write;
	/* No turn: room was made in the conversation. `words` stand for so many answers of the
	 * model from now on; by_model: it wrote them itself. To be asked again, without answers. */
	size_t left_out;
	bool by_model;
};

struct model_ask {
	const struct model_answer *answers; /* one for each call of the turn before */
	size_t nanswers;
	struct str note;   /* to be told besides; may be empty */
	uint64_t until_us; /* of clock_boot_us: later is ERR_TIMEOUT */
};

struct model {
	const char *name;
	/* Everything in *ret is borrowed until the next call. */
	int (*next)(
	    struct model *m, const struct model_ask *ask, struct model_turn *ret, struct err *err);
	void (*free)(struct model *m);
};

/* Plays a file in the form of docs/model-script.md. */
int model_script_open(const char *path, struct model **ret, struct err *err);
/* The same from memory; `name` stands in messages. */
int model_script_parse(struct str text, const char *name, struct model **ret, struct err *err);
void model_free(struct model *m); /* NULL is fine */
DEFINE_AUTO(model, struct model, model_free)

#endif
