/*
 * The supervisor's own state, for its files (super_*.c) alone. One struct super is one sandbox; no
 * state is static, since the command line runs it as a thread. All runs in one loop and nothing
 * in it waits for a caller, for pid 1 or for a pipe; only a back end's own calls may take time.
 */
#ifndef AGENT_SANDBOX_SUPER_STATE_H
#define AGENT_SANDBOX_SUPER_STATE_H

#include "common/loop.h"
#include "agent/sandbox/backend.h"
#include "agent/sandbox/call.h"
#include "agent/sandbox/filter.h"
#include "agent/sandbox/inside.h"
#include "agent/sandbox/wire.h"

#define SUPER_CONNS_MAX 256  /* as many callers as programs */
#define SUPER_CONTROL_MAX 32 /* and so many more that may look, and end things */
#define SUPER_REFUSED_MAX 16 /* and so many that are told that they are too many */
#define SUPER_KEPT_MAX 64    /* ended programs that are still known */
#define SUPER_INSIDE_ROOM (sizeof(struct inside_head) + INSIDE_ANSWER_MAX)
#define SUPER_WAITERS_MAX 512 /* LOGS and WAIT of one connection that are not answered yet */

/* Milliseconds; in super_times.c, so that a test may have shorter ones. */
struct super_times {
	int64_t stuck; /* a peer that takes nothing for so long is given up */
	int64_t ready; /* from the start to INSIDE_READY */
	int64_t spawn; /* from SPAWN to its answer */
	int64_t grace; /* from INSIDE_KILL to the end of the whole sandbox */
	int64_t pause; /* so long deadlines stand still, in all */
};
extern const struct super_times super_times;

/* --- super_queue.c: what is to be sent, to a caller or to pid 1 ----------------------------- */
struct super_item;
struct super_queue {
	struct super_item *first, **last;
	size_t bytes, items;
};
/*
 * Sends head and body as one, at once if it can, else keeps what is left; fds go with the first
 * byte and stay the caller's. 0; -1: the other side is gone, or more than `max` bytes would wait;
 * -ETOOMANYREFS: this user has too many descriptors in flight for these (WIRE_IN_FLIGHT), nothing
 * is sent.
 */
int super_queue_put(struct super_queue *q, int fd, struct str head, struct str body, const int *fds,
    size_t nfds, size_t max);
/* Sends what can be sent now; false: the other side is gone, or cannot be given what waits for it.
 * *ret_moved: anything was taken. */
bool super_queue_flush(struct super_queue *q, int fd, bool *ret_moved);
void super_queue_free(struct super_queue *q);
/*
 * One piece of at most n bytes with its descriptors, of which fds has room for `max`. > 0: bytes;
 * 0: nothing now; < 0: the end, or a peer that sends too many descriptors.
 */
ssize_t super_recv(int fd, void *p, size_t n, int *fds, size_t *nfds, size_t max);
void super_fds_close(int *fds, size_t *nfds);

/* --- a caller (super_conn.c) ------------------------------------------------------------------ */
struct super;
enum super_conn_kind {
	SUPER_WHOLE,
	SUPER_CONTROL, /* over the limit: only what finds out about the sandbox or ends something */
	SUPER_REFUSED, /* over that one, too: its first request is refused */
	SUPER_KINDS,
};
struct super_conn {
	struct super *s;
	struct super_conn *next;
	struct loop_io *io;
	struct loop_timer *stuck;
	struct super_queue out;
	int fd;
	bool known; /* it created or attached */
	bool maker; /* it created */
	enum super_conn_kind kind;
	bool leaving; /* nothing more is read; gone once all is sent */
	bool dead;    /* freed at the end of this turn */
	unsigned waiters;
	uint8_t head[6];
	size_t have; /* of head and body */
	struct buf body;
	int fds[SANDBOX_EXEC_FDS_MAX];
	size_t nfds;
};
void super_conn_new(struct super *s, int fd, enum super_conn_kind kind);
/* A frame: the tag, then `rest` (may be NULL). Borrowed descriptors. False: these could not be
 * sent, and an error is instead. */
bool super_conn_send(struct super_conn *c, uint8_t type, uint32_t tag, const struct buf *rest,
    const int *fds, size_t nfds);
/* CALL_STARTED with descriptors, and CALL_EXITED behind it; false as above, and neither is sent. */
bool super_conn_send_both(struct super_conn *c, uint32_t tag, const struct buf *started,
    const struct buf *exited, const int *fds, size_t nfds);
void super_conn_done(struct super_conn *c, uint32_t tag);
void super_conn_error(struct super_conn *c, uint32_t tag, int code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void super_conn_drop(struct super_conn *c);
void super_conns_sweep(struct super *s);
size_t super_conns_count(const struct super *s);
size_t super_conns_kind(const struct super *s, enum super_conn_kind kind);

/* --- programs (super_exec.c, super_order.c, super_log.c, super_wait.c)
 * ---------------------------- */
enum super_exec_state { SUPER_ASKED, SUPER_RUNS, SUPER_ENDED };
struct super_exec {
	struct super *s;
	struct super_exec *next;
	uint32_t proc, tag;
	struct super_conn *conn; /* who hears of its end; NULL: nobody */
	enum super_exec_state state;
	unsigned flags; /* of enum inside_flags */
	bool spawned;
	bool tied;   /* to its caller: ends when that goes */
	bool orphan; /* its caller went away: its end is kept for others */
	bool alone;  /* no other ran in its time */
	bool left;   /* ended, but something that it started still runs (INSIDE_KEEP) */
	enum sandbox_cause killed;
	int64_t deadline, kill_by, answer_by; /* by super_clock; 0: none */
	int64_t started_ms;		      /* since 1970 */
	uint64_t ooms;
	char *argv; /* JSON array, cut */
	/* of its end */
	enum sandbox_cause cause;
	uint32_t value;
	struct inside_exited end;
	char *refused; /* NULL: none */
	int given[3];  /* our ends of what goes in with the order (backend.pipes_in) */
	size_t ngiven;
	const int
	    *unsent; /* borrowed: streams of a STARTED that goes with its EXITED; NULL: none */
	size_t nunsent;
	/* of a spawned one */
	int out[2], in;
	struct loop_io *io[2];
	uint8_t *ring;
	size_t ring_cap;
	uint64_t total; /* bytes of output so far */
};
struct super_order {
	unsigned flags;
	bool tied;
	uint32_t timeout_ms;
	struct buf frame; /* of INSIDE_SPAWN, without head */
	char *argv;
};
/* sandbox_exec_encode -> INSIDE_SPAWN; proc names the file of the code. */
int super_order_make(struct str body, uint32_t proc, struct super_order *ret, struct err *err);
void super_order_free(struct super_order *o);

void super_exec_start(struct super_conn *c, uint32_t tag, struct rd *r, int *fds, size_t nfds);
struct super_exec *super_exec_find(struct super *s, uint32_t proc);
size_t super_execs_alive(const struct super *s);
void super_exec_started(struct super_exec *x, int *fds, size_t nfds);
/* Both at once: whoever waits for it gets them as one. */
void super_exec_ran(struct super_exec *x, int *fds, size_t nfds, const struct inside_exited *end);
void super_exec_failed(struct super_exec *x, int errnum, struct str text);
void super_exec_exited(struct super_exec *x, const struct inside_exited *end);
/* Nothing of what it left is there any more. */
void super_exec_emptied(struct super_exec *x);
/* Its EXITED shall have this cause; the first one stands. */
void super_exec_kill(struct super_exec *x, enum sandbox_cause cause);
/* The sandbox is gone: all that are alive are answered. */
void super_execs_lost(struct super *s, enum sandbox_cause cause, bool oom);
void super_execs_orphan(struct super *s, const struct super_conn *c);
/* A hold has begun or ended: what has not begun has time again. */
void super_execs_held(struct super *s);
void super_execs_sweep(struct super *s);
void super_execs_free(struct super *s);
/* Memory kills so far, for a program that begins now (super_cause.c). */
uint64_t super_ooms_begin(struct super *s);
/* The cause of its end with this wait status. */
enum sandbox_cause super_cause_find(const struct super_exec *x, int status);
/* u8 cause, u32 value, u64 user, u64 system, u64 peak, str refused */
void super_exec_end_put(const struct super_exec *x, struct buf *out);

void super_log_begin(struct super_exec *x);
void super_log_drain(struct super_exec *x); /* what is in the pipes now */
void super_log_close(struct super_exec *x); /* pipes; the ring stays */
/* From *first on, at most max bytes; *first and *next become what was given. */
void super_log_get(
    const struct super_exec *x, uint64_t *first, uint64_t *next, size_t max, struct buf *out);

/* --- waiting requests (super_wait.c) -------------------------------------------------------------
 */
void super_wait_logs(struct super_conn *c, uint32_t tag, struct rd *r);
void super_wait_end(struct super_conn *c, uint32_t tag, struct rd *r);
void super_waiters_wake(struct super_exec *x);
void super_waiters_lost(struct super_exec *x); /* it is not known any more */
void super_waiters_drop(struct super *s, const struct super_conn *c);

/* --- pid 1 (super_inside.c) --------------------------------------------------------------------
 */
/* A copy in which all but printable ASCII is '?'; the caller frees. */
char *super_printable(struct str s);
void super_inside_begin(struct super *s);
void super_inside_end(struct super *s);
/* 0; -1: it takes nothing any more, the sandbox has been ended; -ETOOMANYREFS as super_queue_put.
 */
int super_inside_send(struct super *s, uint16_t type, uint32_t proc, uint32_t a, struct str body,
    const int *fds, size_t nfds);

/* --- names (super_name.c) ----------------------------------------------------------------------
 */
/* ERR_EXISTS: another supervisor has it. */
int super_name_take(const char *name, struct super_name *ret, struct err *err);
/* The listening socket; nobody can connect before. */
int super_name_listen(const struct super_name *n, int *ret_fd, struct err *err);
void super_name_free(struct super_name *n); /* socket first */

/* --- spares (super_spare.c) -------------------------------------------------------------------
 */
struct super_spare;
void super_spare_create(struct super_conn *c, uint32_t tag, struct rd *r);
void super_spare_take(struct super_conn *c, uint32_t tag, struct rd *r);
/* It is there for a taker, and for nothing else but to be looked at and ended. */
bool super_spare_waits(const struct super *s);
/* Its name; "": it is none, or none any more. */
const char *super_spare_name(const struct super *s);
/* Begins the one that replaces it, once: when its taker takes long, or is done with it. */
void super_spare_next(struct super *s);
/* By these two texts of the kernel: memory is for those who work. Not there: enough. */
bool super_room_is_short(const char *meminfo, const char *pressure);
/* It is not replaced. */
void super_spare_last(struct super *s);
void super_spare_free(struct super *s);

/* --- time (super_time.c) -------------------------------------------------------------------------
 */
/* Milliseconds that stand still while paused. Deadlines are by this clock. */
int64_t super_clock(const struct super *s);
int64_t super_wall_ms(void); /* since 1970, for people */
void super_time_pause(struct super *s, bool on);
void super_time_arm(struct super *s); /* before each sleep */

/* super_pipes.c: streams of a program of a back end that hands none out. All ends in `inner` are
 * the caller's, up to 3; ours go to x. */
int super_pipes_make(struct super_exec *x, int *inner, size_t *ret_n, struct err *err);

/* --- the sandbox (super_run.c, super_box.c, super_level.c, super_network.c)
 * ------------------------ */
enum super_state { SUPER_NEW, SUPER_STARTING, SUPER_LIVE, SUPER_PAUSED, SUPER_DEAD };
struct super {
	struct loop *loop;
	struct super_spec spec;
	struct backend_box box;
	struct super_conn *conns;
	struct super_exec *execs; /* newest first */
	struct super_exec *dead_execs;
	struct super_waiter *waiters;
	bool process, over; /* over: ends when all is sent */
	bool untied;	    /* the maker of a tied one is gone */
	enum super_state state;
	char *why; /* DEAD: for people */
	char *level, *facts;
	/* the creator, until it is answered */
	struct super_conn *creator;
	uint32_t create_tag;
	/* the one whose HOLD it is */
	struct super_conn *holder;
	/* pid 1 */
	struct loop_io *inside_io, *pid_io, *notify_io;
	struct super_queue inside_out;
	char *in;		 /* SUPER_INSIDE_ROOM: what has come and is not served yet */
	size_t have, served;	 /* of it; of that, what goes with the frame that is served */
	struct inside_head head; /* of the first frame in it, and its body */
	const char *answer;
	int inside_fds[3]; /* of the first frame in it that names any */
	size_t inside_nfds;
	uint32_t next_proc;
	uint64_t ooms; /* at the last end that asked for it */
	bool ooms_known;
	struct filter_counts *refused;
	/* names */
	struct super_spare *spare; /* NULL: it was not built as one */
	struct super_name name;
	int listener;
	struct loop_io *listener_io;
	/* time, by super_clock; 0: none */
	struct loop_timer *timer;
	int64_t timer_at, ready_by, deadline, linger_by, inside_by;
	int64_t paused_since, paused_ms; /* by boot time */
	int64_t paused_wall_ms;		 /* when it was paused, for people */
	int64_t created_ms;
};
/* Begins what the spec says; the creator hears of it, if there is one. */
void super_begin(struct super *s, struct str spec);
/* Nobody finds it any more; the name is still held. */
void super_listener_close(struct super *s);
/* The other side is this user. */
bool super_peer_is_own(int fd);
/* Ends everything, whatever the state; programs that ran are answered with `cause`. */
void super_end(struct super *s, enum sandbox_cause cause, const char *why);
/* INSIDE_READY: the creator is answered. */
void super_ready(struct super *s);
/* INSIDE_FATAL, or a start that failed otherwise. */
void super_start_failed(struct super *s, int code, const char *text);
void super_create(struct super_conn *c, uint32_t tag, struct rd *r);
void super_attach(struct super_conn *c, uint32_t tag, struct rd *r);
/* One request, already framed; false: the caller broke the rules. */
bool super_call(struct super_conn *c, uint8_t type, struct str body, int *fds, size_t nfds);

void super_box_pause(struct super_conn *c, uint32_t tag, bool on);
void super_network(struct super_conn *c, uint32_t tag, struct rd *r);
void super_level_make(struct super *s, struct buf *out);
void super_inspect(struct super *s, struct buf *out);
void super_procs(struct super *s, struct buf *out);
/* Answers the refused calls that wait for it. */
void super_notify_turn(struct super *s);

#endif
