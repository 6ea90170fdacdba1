/* What the model may do: its calls, one after the other. */
#ifndef AGENT_AGENT_TOOLS_H
#define AGENT_AGENT_TOOLS_H

#include "agent/agent_course.h"

/* What came of one call. */
struct tool_done {
	struct buf text;   /* for the record, and with `words` behind it for the model */
	char *words;	   /* how it ended; NULL: nothing to say */
	const char *cause; /* in the record: ok, error, exited, ... */
	int value;
	uint64_t total, kept, duration_us; /* bytes of output, and of it in text */
	bool failed;			   /* it was not done */
};

/* Each call is on the record before it runs, and has one answer. An error ends the run. */
int tools_run(struct course *k, const struct model_turn *t, struct err *err);
/* Seconds for a call that asks for `wanted` (0: it does not): never beyond the run's own. */
uint32_t tools_seconds(const struct course *k, uint64_t wanted, uint64_t usual);
/* The same for a call that waits for people: only the run's end cuts it short. */
uint64_t tools_wait_seconds(const struct course *k, uint64_t wanted);
/* It was not done, and this is why: the call's answer. Always returns 0. */
int tools_refuse(struct tool_done *d, const char *why);
/* Ends what the calls have begun. */
void tools_end(struct course *k);

/* The handlers; an error ends the run. */
typedef int tool_fn(
    struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err);
tool_fn tool_run_code, tool_run_command; /* agent_tool_code.c */
tool_fn tool_ask, tool_wait_approval;	 /* agent_tool_ask.c */
tool_fn tool_read_file, tool_write_file; /* agent_tool_file.c */
tool_fn tool_subagent;			 /* agent_tool_child.c */

#endif
