/*
 * A process that holds one run: its registration at the broker, its sandbox, the listeners, its
 * programs and contexts. Servers whose requests come over many short connections (cofferdam-mcp
 * --listen, cofferdam-sandboxd) start one for each session and reach it from any process of the
 * same user by its id, over a unix socket without a file. Each program and each cell is on the
 * record before it runs, and its result after. The run ends, and nothing of it is left, when the
 * keeper ends for whatever reason, when the server that started it is gone, when the broker ends
 * it, or when its time is over.
 */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

#include "common/buf.h"
#include "common/err.h"
#include "agent/sandbox/sandbox.h"

#define KEEPER_ID_MAX 32	   /* characters of an id; it is also the sandbox's name */
#define KEEPER_PROGRAMS_MAX 64	   /* alive at once */
#define KEEPER_CONTEXTS_MAX 16	   /* open at once */
#define KEEPER_CONNS_MAX 256	   /* processes connected to one keeper */
#define KEEPER_TIME_MAX 86400	   /* seconds */
#define KEEPER_SELF ((uint32_t)-1) /* of struct keeper_ask.as */

struct keeper; /* a connection; one request at a time */

/* All borrowed during keeper_start. */
struct keeper_ask {
	const char *id;	    /* [a-z0-9]{8,32}, not used before; NULL: one is made */
	const char *socket; /* the broker's agent socket */
	const char *agent, *task;
	const char *const *targets; /* names; none: all that the policy has */
	size_t ntargets;
	/* Hosts (case ignored), "*.domain", addresses or names of targets, each of which narrows
	 * the run to those of its targets that fit; NULL: no narrowing. ERR_DENIED names one that
	 * no target of the run is, and what there is. An empty list: no target at all. */
	const char *const *allow;
	size_t nallow;
	bool narrow; /* allow counts, also when it is empty */
	/* The user whose run it is, by a socket that is connected as that user (needs root);
	 * KEEPER_SELF: whoever runs this. */
	uint32_t as;
	struct sandbox_limits limits; /* wall_s is not looked at */
	unsigned may_lack;
	const char *const *env; /* "NAME=value" in addition to the run's; NULL: none */
	bool home;		/* as of struct sandbox_spec */
	uint32_t time_s;	/* until its end, keeper_time changes it; 0: KEEPER_TIME_MAX */
	const char *workspace;	/* becomes /work; NULL: an empty one, gone at the end */
	const struct sandbox_bind *binds;
	size_t nbinds;
	const char *state;     /* the broker's state directory, if its place is known: no */
	bool workspace_unsafe; /* directory may be, hold or lie in it (sandbox_workspace.h) */
	bool time_pauses;      /* then it is paused, not ended */
	uint32_t idle_s;       /* ends when nobody was connected for so long; 0: does not */
};

/*
 * Starts one and waits until code can run. life_fd: the keeper ends when it becomes readable or is
 * at its end (the other end of a pipe that the server alone holds). The keeper is a process of its
 * own session, nobody's child. Errors of broker and sandbox as they are.
 */
int keeper_start(const struct keeper_ask *ask, int life_fd, struct keeper **ret, struct err *err);
/* ERR_NOT_FOUND: there is none (any more) of this user. */
int keeper_open(const char *id, struct keeper **ret, struct err *err);
void keeper_close(struct keeper *k); /* the connection alone; NULL is fine */
DEFINE_AUTO(keeper, struct keeper, keeper_close)

const char *keeper_id(const struct keeper *k);
const char *keeper_run(const struct keeper *k);	  /* the run's name in the log */
const char *keeper_owner(const struct keeper *k); /* "unix:alice" or the person */
int keeper_pid(const struct keeper *k);
/* To be watched while something else is waited for: readable when the keeper is gone. */
int keeper_fd(const struct keeper *k);
/* The sandbox itself, for files, watches, snapshots: what runs no program. sandbox_detach it. */
int keeper_sandbox(struct keeper *k, struct sandbox **ret, struct err *err);
/* JSON object: {"ends_at_ms" (wall clock),"id","limits":{},"owner","paused","run","started_ms",
 * "targets":[{"host","kind","port","target"}]}. */
int keeper_state(struct keeper *k, struct buf *ret, struct err *err);
/* From now on; pauses: at its end it is paused. Of a paused one it counts from its resume. */
int keeper_time(struct keeper *k, uint32_t seconds, bool pauses, struct err *err);
/* ERR_STATE: it is (not) paused. While it is, programs and cells are refused with ERR_STATE. */
int keeper_pause(struct keeper *k, struct err *err);
int keeper_resume(struct keeper *k, uint32_t seconds, struct err *err);
/*
 * From now on only those of its targets that fit (as keeper_ask.allow). What was taken away does
 * not come back. ERR_DENIED: an entry that no target fits; or http targets of which some, not all,
 * would go, since the proxy serves them all.
 */
int keeper_narrow(struct keeper *k, const char *const *allow, size_t n, struct err *err);
/* An event on the record: type note, model; fields a JSON object of canonical form. */
int keeper_event(
    struct keeper *k, const char *type, struct str fields, struct str content, struct err *err);
/* As broker_query: verbs approval, approvals, standing. And refused: {"refused":[]}, what the
 * broker refused since that was last asked, a line each. Arguments "{}" for none. */
int keeper_query(
    struct keeper *k, const char *verb, struct str args, struct buf *ret, struct err *err);
/* Ends the run and waits until nothing of it is left. status: done, budget or error. */
int keeper_end(struct keeper *k, const char *status, const char *text, struct err *err);

/*
 * --- programs, contexts (keeper_stream.c). A stream is one caller's view of one program or cell;
 * it goes on when its streams are closed (a cell is interrupted when its stream is closed). A
 * program waits for a stream that does not read.
 */
struct keeper_stream;
enum keeper_event_type {
	KEEPER_STARTED = 1, /* number: of the program; of a cell, how many its context has begun */
	KEEPER_OUTPUT,	    /* number: 1, 2 (always 1 of a terminal); bytes */
	KEEPER_DISPLAY, /* number: 1 the value of the cell, 0 shown; bytes: JSON as of sandbox.h */
	KEEPER_ENDED,	/* of a program: cause, value; of a cell: end, cause, and in error_* */
	KEEPER_FAILED,	/* it could not be begun: code and words in bytes */
};
struct keeper_event {
	enum keeper_event_type type;
	uint32_t number;
	struct str bytes;	       /* good until the next call */
	int code;		       /* of FAILED: ERR_* */
	enum sandbox_cause cause;      /* of ENDED */
	int value;		       /* exit status or signal */
	enum sandbox_cell_end end;     /* of a cell */
	uint64_t total, duration_us;   /* bytes it wrote in all */
	struct str name, error, trace; /* of a cell's error; good until the next call */
};

/*
 * Whose call a program or cell is, as its caller names it: stands on the record with what is
 * executed. NULL or "": not said.
 */
#define KEEPER_CALLER_MAX ((size_t)512) /* bytes of each that are recorded */
struct keeper_caller {
	const char *call, *progress, *tool_use, *turn, *execution;
};
/* Of all that this connection begins from now on; borrowed. */
void keeper_caller_set(struct keeper *k, const struct keeper_caller *c);

/* x: argv or language and code, cwd, env, stdin_bytes with pipe_stdin, timeout_s, tty, rows, cols,
 * merge, background are looked at. label: a name of the caller's, may be NULL. */
int keeper_program(struct keeper *k, const struct sandbox_exec *x, const char *label,
    struct keeper_stream **ret, struct err *err);
/* To one that runs: its output from now on, behind STARTED. ERR_NOT_FOUND. */
int keeper_attach(struct keeper *k, uint32_t number, struct keeper_stream **ret, struct err *err);
/* JSON array of the programs alive: {"args":[],"cwd","env":{},"label","number","tty"}. */
int keeper_programs(struct keeper *k, struct buf *ret, struct err *err);
/* By number, for callers without a stream of it. input: bytes, and `close` for its end. */
int keeper_input(struct keeper *k, uint32_t number, struct str bytes, bool close, struct err *err);
int keeper_signal(
    struct keeper *k, uint32_t number, int signal, struct err *err); /* 9: all of it */
int keeper_resize(struct keeper *k, uint32_t number, uint16_t rows, uint16_t cols, struct err *err);

/* ret_id: KEEPER_ID_MAX + 1 bytes. The stream says STARTED when the interpreter is there, then
 * ends. cwd NULL: /work. */
int keeper_context_open(struct keeper *k, const char *language, const char *cwd, char *ret_id,
    struct keeper_stream **ret, struct err *err);
/* The one of this language that callers share; *ret is NULL when it is there already. */
int keeper_context_shared(struct keeper *k, const char *language, char *ret_id,
    struct keeper_stream **ret, struct err *err);
/* JSON array: {"cwd","id","language"}. */
int keeper_contexts(struct keeper *k, struct buf *ret, struct err *err);
int keeper_context_close(struct keeper *k, const char *id, struct err *err);
int keeper_context_restart(struct keeper *k, const char *id, struct err *err);
/* One cell; behind those that were asked for before. timeout_ms 0: none. */
int keeper_cell(struct keeper *k, const char *id, struct str code, uint32_t timeout_ms,
    struct keeper_stream **ret, struct err *err);

/* 0; ERR_TIMEOUT after timeout_ms (-1: never); ERR_UNAVAILABLE: the keeper is gone. Behind ENDED
 * and FAILED nothing comes. */
int keeper_next(struct keeper_stream *s, int timeout_ms, struct keeper_event *ret, struct err *err);
int keeper_stream_fd(const struct keeper_stream *s); /* readable when keeper_next has something */
void keeper_stream_close(struct keeper_stream *s);   /* NULL is fine */
DEFINE_AUTO(keeper_stream, struct keeper_stream, keeper_stream_close)

#endif
