/*
 * One client of cofferdam-mcp: its protocol session, its run at the broker, and the executions that
 * go on in it. All in the hub's process; what takes time is a job's (mcp_job.h).
 */
#ifndef AGENT_MCP_CLIENT_H
#define AGENT_MCP_CLIENT_H

#include "common/loop.h"
#include "agent/mcp_job.h"
#include "agent/mcp_session.h"

#define MCP_WORKS_MAX 16 /* executions of one client at once */
#define MCP_KEPT_MAX 32	 /* that ended and were not asked for yet; the oldest go */
#define MCP_CONTEXTS_MAX 16
#define MCP_WAIT_MS 45000 /* a call is answered by then; clients give up after 60 s */

/* Of all clients; borrowed. */
struct mcp_config {
	struct keeper_ask ask; /* id and task are made for each run */
	const char *task;      /* NULL: the client's name */
	uint32_t wait_ms;
};

enum mcp_run_state { MCP_RUN_NONE = 0, MCP_RUN_BEGINS, MCP_RUN_LIVE, MCP_RUN_OVER };

struct mcp_context {
	char *language, *name;
	char id[KEEPER_ID_MAX + 1]; /* "": not open yet */
	bool busy;
};

struct mcp_work;
TAILQ_HEAD(mcp_works, mcp_work);

struct mcp_client {
	struct loop *loop;
	const struct mcp_config *config;
	struct mcp_session *session;
	char *who; /* for the record: a principal, or "" */
	enum mcp_run_state state;
	char keeper[KEEPER_ID_MAX + 1];
	char *why;		 /* of OVER */
	int life;		 /* the run's keeper ends when this is closed */
	struct mcp_work *holder; /* the job that began the run, and sees its end */
	struct mcp_works works;
	size_t nlive, nkept;
	uint64_t numbers;
	struct mcp_context contexts[MCP_CONTEXTS_MAX];
	size_t ncontexts;
	bool ends; /* `end` was asked for: the run's end is no surprise */
};

extern const struct mcp_server mcp_client_server;

/* Its session's owner is the client. */
struct mcp_client *mcp_client_new(
    struct loop *loop, const struct mcp_config *config, const struct mcp_out *out, const char *who);
/* The run ends with it, and `said` goes on the record, a moment later. */
void mcp_client_free(struct mcp_client *c, const char *said);
/* No execution goes on and no call waits. */
bool mcp_client_idle(const struct mcp_client *c);

/* --- mcp_client_run.c */
/* Begins what can be begun: the run, or executions that wait for it or for their context. */
void mcp_client_turn(struct mcp_client *c);
/* The run is gone; executions that need it end. */
void mcp_client_run_over(struct mcp_client *c, const char *why);
void mcp_client_run_end(struct mcp_client *c, const char *said);

/* --- mcp_work.c */
struct mcp_work {
	TAILQ_ENTRY(mcp_work) link;
	struct mcp_client *c;
	char id[16]; /* "x1"; of the run's holder "" */
	enum { MCP_WAITS = 1, MCP_RUNS, MCP_ENDED } state;
	bool stopped;
	struct mcp_order order;
	struct json_doc *doc; /* that its arguments point into */
	char *said[4];	      /* of its call, as order.caller has it */
	struct mcp_context *context;
	struct mcp_call *call; /* that waits for it; NULL: none */
	struct loop_timer *timer;
	struct mcp_wire *wire;
	pid_t pid;
	uint64_t progress;
	bool failed;
	char *result, *failure; /* one of them, once it ended */
};
/* A call becomes an execution; it takes what its arguments point into. */
void mcp_work_new(struct mcp_client *c, enum mcp_tool_id tool, const struct mcp_args *args,
    struct mcp_call *call);
struct mcp_work *mcp_work_find(struct mcp_client *c, struct str id);
/* The call waits for it from now on, up to the limit. */
void mcp_work_wait(struct mcp_work *w, struct mcp_call *call);
/* The call that waits for it does not any more. */
struct mcp_call *mcp_work_leave(struct mcp_work *w);
void mcp_work_stop(struct mcp_work *w);
void mcp_work_begin(struct mcp_work *w);
/* Its result, or its failure in words, to who waits; kept if nobody does. */
void mcp_work_ended(struct mcp_work *w);
void mcp_work_fail(struct mcp_work *w, const char *words);
void mcp_work_free(struct mcp_work *w);

#endif
