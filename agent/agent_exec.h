/* `cofferdam sandbox exec`: one command in a sandbox, without broker, record or targets. */
#ifndef AGENT_AGENT_EXEC_H
#define AGENT_AGENT_EXEC_H

#include "agent/agent_options.h"
#include "agent/sandbox/sandbox.h"

/* Both return an exit status. */
int agent_exec_run(const struct agent_options *o);
/*
 * Runs argv with this process's standard streams passed through. 0, and the program's exit
 * status in *ret_status (128 + signal, 124 time, 125 memory or output, as timeout(1) has it).
 */
int agent_exec_stream(struct sandbox *sb, char *const *argv, const struct agent_options *o,
    sandbox_watch_fn *watch, void *watch_arg, const int *watch_fd, struct sandbox_result *ret,
    int *ret_status, struct err *err);

#endif
