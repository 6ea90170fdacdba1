/*
 * A job: one tool call's work, in a process of its own, so that the hub never waits for broker,
 * sandbox or code. It speaks to the run's keeper and tells the hub in frames of mcp_wire.h.
 */
#ifndef AGENT_MCP_JOB_H
#define AGENT_MCP_JOB_H

#include "agent/keeper.h"
#include "agent/mcp_tools.h"
#include "agent/mcp_wire.h"

#define MCP_HEAD ((size_t)16384) /* of each stream of an execution's output that is told */
#define MCP_TAIL ((size_t)16384)

/* What is to be done; all borrowed, the job has its own copy of all memory. */
struct mcp_order {
	bool begin;		      /* the run, by `ask`; nothing of the below is looked at */
	const struct keeper_ask *ask; /* with an id */
	int life_fd;
	enum mcp_tool_id tool;
	struct mcp_args args;
	const char *keeper;  /* id of the run's keeper */
	const char *context; /* id, or "": one is to be opened */
	struct keeper_caller caller;
};

/*
 * Forks. *ret_fd: frames come there, and MCP_F_STOP may be sent; it ends with the job. A job ends
 * itself when that socket does.
 */
int mcp_job_begin(const struct mcp_order *o, pid_t *ret_pid, int *ret_fd, struct err *err);

/* --- within a job (mcp_job.c, mcp_job_exec.c, mcp_job_file.c, mcp_job_ask.c) */
struct mcp_job {
	const struct mcp_order *o;
	int fd; /* to the hub */
	struct keeper *k;
	bool stop; /* it is to end */
};
/* True once the hub wants it to end. */
bool mcp_job_stopped(struct mcp_job *j);
/* Puts members of the structured result (JSON without its braces); an error becomes the failure. */
typedef int mcp_job_fn(struct mcp_job *j, struct buf *out, bool *failed, struct err *err);
mcp_job_fn mcp_job_code, mcp_job_command;
mcp_job_fn mcp_job_read, mcp_job_write, mcp_job_list;
mcp_job_fn mcp_job_targets, mcp_job_request, mcp_job_approvals, mcp_job_end;

#endif
