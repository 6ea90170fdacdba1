/* A context from within: between sandbox_context.c (its interpreter) and sandbox_context_run.c. */
#ifndef AGENT_SANDBOX_SANDBOX_CONTEXT_H
#define AGENT_SANDBOX_SANDBOX_CONTEXT_H

#include "agent/sandbox/sandbox_cell.h"
#include "agent/sandbox/sandbox_client.h"

#define CONTEXT_BEGIN_MS 30000 /* or the time limit of a cell, if that is shorter */
#define CONTEXT_GRACE_MS 2000  /* from the interrupt to the end of the interpreter */
#define CONTEXT_AGAIN_MS 500   /* an interrupt that a child swallowed is repeated */
#define CONTEXT_DRAIN_READS 32 /* as much as the largest pipe that a user may make, twice */
#define CONTEXT_ROOM ((size_t)65536)

/* The driver of a language: how it is started, its text (made from context/driver.*). */
struct context_driver {
	const char *language;
	const char *argv[5]; /* the text becomes the argument behind them */
	const uint8_t *text;
	const size_t *size;
	const char *env[2];
	const char *file; /* what its messages call the file of a cell: shown as "cell" */
};
/* NULL: there is none for this language. */
const struct context_driver *context_driver(const char *language);

struct sandbox_context {
	struct sandbox *sb;
	const struct context_driver *driver;
	char *cwd;
	struct client_started st;
	int wire;	   /* our end of the interpreter's descriptor 10 */
	uint32_t begin_ms; /* for the start of an interpreter */
	bool alive;	   /* an interpreter is there; else the next cell begins one */
	struct cell_reader reader;
	void *reader_arg; /* of the cell that runs */
	uint8_t room[CONTEXT_ROOM];
};

/* For the next start: timeout_ms as a cell has it. */
void context_begin_limit(struct sandbox_context *c, uint32_t timeout_ms);
/* A fresh interpreter, up to its greeting; c->alive on success. */
int context_begin(struct sandbox_context *c, struct err *err);
/* Ends it, if there is one, with this cause, unless it ends by itself within wait_ms: then that is
 * its cause. *ret as client_ended has it. */
void context_end(
    struct sandbox_context *c, enum sandbox_cause why, int wait_ms, struct sandbox_result *ret);

extern const struct cell_ops context_cell_ops; /* sandbox_context_run.c; their arg is the context */

#endif
