/*
 * The tools that a model is offered: one table, from which every provider's schema is made and by
 * which every call is read. What does not fit it is a fault in words, and the call's answer.
 */
#ifndef AGENT_AGENT_TOOL_H
#define AGENT_AGENT_TOOL_H

#include "common/buf.h"
#include "common/json.h"

#define TOOL_PARAMS_MAX 6

enum tool_id {
	TOOL_NONE = 0,
	TOOL_RUN_CODE,	  /* in a context that stays */
	TOOL_RUN_COMMAND, /* a program by itself */
	TOOL_READ_FILE,
	TOOL_WRITE_FILE,
	TOOL_ASK,
	TOOL_WAIT_APPROVAL,
	TOOL_SUBAGENT, /* a run of its own, with a part of this one's */
	TOOL_FINISH
};

enum tool_type { TOOL_STRING = 1, TOOL_INTEGER };

struct tool_param {
	const char *name, *what;
	enum tool_type type;
	bool required, may_be_empty;
	int64_t min, max;	   /* of an integer */
	const char *const *values; /* of a string, if it is one of few; NULL-terminated */
};

/* The first parameter is what the record keeps as the call's content, the others are its fields. */
struct tool {
	enum tool_id id;
	const char *name, *what;
	struct tool_param params[TOOL_PARAMS_MAX];
};

struct tool_args {
	struct str text[TOOL_PARAMS_MAX];
	int64_t number[TOOL_PARAMS_MAX];
	bool given[TOOL_PARAMS_MAX];
};

size_t tool_count(void);
const struct tool *tool_at(size_t i);
const struct tool *tool_find(struct str name); /* NULL: none */
const struct tool *tool_of(enum tool_id id);
size_t tool_params(const struct tool *t);
/* JSON Schema of the arguments, canonical. */
void tool_schema(const struct tool *t, struct buf *out);
/* *ret borrows from args. NULL, or what is wrong with them; the caller frees. */
char *tool_args_read(const struct tool *t, const struct json *args, struct tool_args *ret);
/* "run_code, read_file, ..."; the caller frees. */
char *tool_names(void);

#endif
