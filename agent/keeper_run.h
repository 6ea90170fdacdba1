/* The keeper from within: its state, for the files of its process alone. */
#ifndef AGENT_KEEPER_RUN_H
#define AGENT_KEEPER_RUN_H

#include "agent/agent_hold.h"
#include "agent/agent_steer.h"
#include "agent/keeper_wire.h"

#define KEEPER_ITEMS_MAX (KEEPER_PROGRAMS_MAX + KEEPER_CONTEXTS_MAX)

/* A program or a context: the process that holds it, and the wire to it. */
struct keeper_item {
	bool context, shared;
	bool ended;	 /* of a program: its result is recorded, and only its listeners are left */
	uint32_t number; /* of a program; 0: not there */
	char id[KEEPER_ID_MAX + 1]; /* of a context */
	pid_t pid;		    /* 0: reaped */
	int wire;
	uint64_t turn;
	char *language; /* of a context */
	char *meta;	/* its JSON for lists */
	struct keeper_item *next;
};

struct keeper_run {
	struct keeper_asked ask;
	struct agent_hold hold;
	struct agent_steer steer; /* what people tell it: stop, pause */
	const char *const *allow; /* NULL: all; else what the run's targets are narrowed to */
	size_t nallow;
	char **narrowed; /* owns what allow is since keeper_narrow */
	pid_t self;
	int listener, life;
	int conns[KEEPER_CONNS_MAX];
	size_t nconns;
	struct keeper_item *items;
	size_t nprograms, ncontexts;
	uint32_t next_number, next_context;
	uint64_t turn;
	int64_t ends_at, left, idle_by; /* as of wire_now_ms; left: of a paused one; 0: none */
	int64_t started_ms;		/* wall clock */
	bool paused, pauses, asked;	/* asked: the end was asked for by a call */
	const char *status;		/* not NULL: it is over, and this is how */
	char *why;
};

/* Takes the order off fd 3, begins the run, serves it to its end. An exit status. */
int keeper_main(void);
void keeper_over(struct keeper_run *k, const char *status, const char *why);

/* --- keeper_serve.c: one request of a caller. False: the connection ends. */
bool keeper_serve(struct keeper_run *k, int conn);
int keeper_serve_pause(struct keeper_run *k, struct err *err);

/* --- keeper_items.c: programs and contexts */
int keeper_is_awake(const struct keeper_run *k, struct err *err); /* ERR_STATE: paused */
int keeper_item_program(
    struct keeper_run *k, struct str body, uint32_t *ret_number, int *ret_stream, struct err *err);
int keeper_item_context(
    struct keeper_run *k, struct str body, char *ret_id, int *ret_stream, struct err *err);
int keeper_item_cell(struct keeper_run *k, struct str body, int *ret_stream, struct err *err);
struct keeper_item *keeper_item_program_find(struct keeper_run *k, uint32_t number);
struct keeper_item *keeper_item_context_find(struct keeper_run *k, struct str id);
/* To its holder; fd -1: none. */
int keeper_item_tell(
    struct keeper_item *i, uint8_t type, const struct buf *body, int fd, struct err *err);
/* A stream's two ends: one for the holder, one for the caller. */
int keeper_item_stream(int *ret_theirs, int *ret_ours, struct err *err);
/* What its holder says. False: it has gone, and with it the item. */
bool keeper_item_hear(struct keeper_run *k, struct keeper_item *i);
void keeper_item_drop(struct keeper_run *k, struct keeper_item *i);
/* That process is gone, and its number may be another's by now: nobody is killed by it any more. */
void keeper_item_reaped(struct keeper_run *k, pid_t pid);
/* What lists say of a program, as JSON; of many or long arguments only the first. NULL: too large.
 */
char *keeper_item_meta(const struct keeper_order *o, uint32_t number, struct err *err);
void keeper_item_list(const struct keeper_run *k, bool contexts, struct buf *ret);

/* --- keeper_allow.c: which targets the run is narrowed to */
bool keeper_allowed(const char *const *allow, size_t n, const struct broker_target *t);
/* ERR_DENIED: an entry that no target of the plan fits. */
int keeper_allow_check(
    const struct broker_plan *p, const char *const *allow, size_t n, struct err *err);
/* Asks the broker which targets there are, and names those that fit in *ask. ret owns the names. */
int keeper_allow_ask(const struct keeper_asked *a, struct broker_ask *ask, char ***ret,
    bool *ret_none, struct err *err);
/* ERR_DENIED: an entry fits what was taken away before. */
int keeper_allow_again(
    const struct keeper_run *k, const char *const *allow, size_t n, struct err *err);
/* Closes what does not fit, and keeps it closed. */
int keeper_allow_apply(struct keeper_run *k, struct err *err);

/* --- holders: in a process of their own, which they never leave */
struct keeper_holder {
	int wire; /* to the keeper */
	struct sandbox *sandbox;
	bool gone; /* the keeper is */
};
_Noreturn void keeper_program_hold(struct keeper_run *k, struct keeper_order *o, uint32_t number,
    uint64_t turn, int wire, int stream);
_Noreturn void keeper_context_hold(
    struct keeper_run *k, const char *language, const char *cwd, int wire, int stream);
/* The new process: nothing of the keeper's but the two, at 3 and 4; ends with it. */
void keeper_holder_enter(int *wire, int *stream, pid_t keeper);
/* On the record, by the keeper. Other messages that come in between are given to `other`. */
typedef void keeper_other_fn(void *arg, struct wire_msg *m);
void keeper_holder_result(struct keeper_holder *h, const struct sandbox_result *r, uint64_t turn,
    const char *context, keeper_other_fn *other, void *arg);
void keeper_holder_refused(struct keeper_holder *h, const char *why, uint64_t turn,
    const char *context, keeper_other_fn *other, void *arg);
/* One frame to a stream; false: nobody is there. While it waits, frames on the keeper's wire are
 * given to `other`; it ends when *stop becomes true. */
bool keeper_holder_send(struct keeper_holder *h, int stream, uint8_t type, const struct buf *body,
    keeper_other_fn *other, void *arg, const bool *stop);
void keeper_ended_put(struct buf *b, const struct sandbox_result *r, enum sandbox_cell_end end,
    const char *name, const char *error, const char *trace);

#endif
