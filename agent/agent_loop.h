/* The loop: model, record, code in the sandbox, record, again; until done or a budget is spent. */
#ifndef AGENT_AGENT_LOOP_H
#define AGENT_AGENT_LOOP_H

#include "agent/agent_broker.h"
#include "agent/agent_prices.h"
#include "agent/agent_steer.h"
#include "agent/model.h"
#include "agent/sandbox/sandbox.h"
#include "agent/transcript.h"

#define LOOP_TURNS_DEFAULT 100
#define LOOP_TIME_DEFAULT 3600
#define LOOP_EXEC_DEFAULT 300 /* seconds for one turn's code */
#define LOOP_HEAD 16384	      /* bytes of output that the model and the record get */
#define LOOP_TAIL 16384

struct loop_end {
	const char *status; /* what A_END takes: done, not_done, error, budget:turns ... */
	char *text, *used;  /* used: what it spent, in words */
	uint64_t tokens_in, tokens_out, cost; /* as struct spent has it */
	uint64_t seen[CALL_LIMITS_MAX];	      /* actions on the targets whose calls are limited */
};

/* A child run, as a model asks for it: nothing in it is more than its parent has. */
struct loop_child {
	const char *task;
	struct str targets, effects;	 /* commas between; empty: all of the parent's */
	uint64_t turns, seconds, tokens; /* tokens 0: no limit */
	uint64_t cost;			 /* millionths; 0: no limit */
};
struct loop_config;
/*
 * Runs one to its end. ERR_*: it could not be begun, and the parent goes on. The caller frees
 * text and used.
 */
typedef int loop_child_fn(void *arg, const struct loop_config *parent, const struct loop_child *c,
    struct loop_end *ret, struct err *err);

struct loop_config {
	struct broker *broker;
	struct sandbox *sandbox;
	char **const *env; /* besides the sandbox's own, looked at for each program */
	struct model *model;
	struct agent_steer *steer; /* NULL: nobody can tell it anything */
	struct transcript out;
	loop_child_fn *child; /* NULL: it can have none */
	void *child_arg;
	const char *task;
	uint64_t max_turns, max_time_s, exec_s; /* 0: the default */
	uint64_t max_tokens;			/* 0: no limit */
	uint64_t max_cost;			/* millionths of the currency; 0: no limit */
	uint64_t max_call_output;		/* bytes; 0: no limit */
	struct prices prices;
};

/* Runs to an end and records it, also when it is an error. The caller frees text and used. */
int agent_loop(const struct loop_config *c, struct loop_end *ret, struct err *err);
/* The fields of an event about a program, canonical JSON. */
void loop_result_fields(const struct sandbox_result *r, uint64_t turn, struct buf *out);

#endif
