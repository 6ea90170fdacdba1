/* A program inside with this process's own standard streams, or its terminal. */
#ifndef AGENT_SANDBOX_SANDBOX_STREAMS_H
#define AGENT_SANDBOX_SANDBOX_STREAMS_H

#include "agent/sandbox/sandbox.h"

struct sandbox_streams {
	struct sandbox_exec x; /* argv, cwd, env, timeout_s, head, tail, tty, watch as wanted */
	bool end_unread; /* end it when nobody reads what it writes, as a pipe's signal would */
};

/*
 * 0, and the exit status in *ret_status as timeout(1) has it: 128 + signal, 124 time, 125 memory,
 * output or disk, 126 the sandbox went away. With x.tty the terminal at standard input is raw
 * meanwhile, follows its size, and is as before afterwards, also after SIGINT, SIGTERM, SIGHUP and
 * SIGQUIT: these end the program, and the status says so.
 */
int sandbox_streams_run(struct sandbox *sb, struct sandbox_streams *s, struct sandbox_result *ret,
    int *ret_status, struct err *err);
int sandbox_streams_status(const struct sandbox_result *r);

#endif
