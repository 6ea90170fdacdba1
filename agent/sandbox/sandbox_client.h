/*
 * A caller's connection to a supervisor, for the files of libsandbox alone: requests and their
 * answers by tag. One thread at a time uses a struct sandbox; while one waits for its answer, those
 * for others are kept.
 */
#ifndef AGENT_SANDBOX_SANDBOX_CLIENT_H
#define AGENT_SANDBOX_SANDBOX_CLIENT_H

#include <pthread.h>
#include <sys/types.h>

#include "agent/sandbox/call.h"
#include "agent/sandbox/sandbox.h"
#include "agent/sandbox/wire.h"

#define CLIENT_CREATE_MS 30000
#define CLIENT_ANSWER_MS 15000 /* for what the supervisor does at once */
/* For a program's start: longer than the supervisor waits for pid 1 (super_times.spawn), whose word
 * it is; who gave up first would leave a program that nobody reads. */
#define CLIENT_START_MS 45000
#define CLIENT_PARKED_MAX 1024 /* answers that nobody has asked for yet */

struct sandbox {
	int wire;
	pid_t supervisor; /* a child of this process; 0: none */
	/* A supervisor of this process (sandbox_here.c). As long as it is one of this thread it has
	 * its turns whenever something is waited for: `turn` is not NULL, and turn_fd is readable
	 * when it is to be called. */
	struct super *here;
	void (*turn)(struct sandbox *sb), (*leave)(struct sandbox *sb), (*end)(struct sandbox *sb);
	int turn_fd;
	pthread_t thread; /* once it has one of its own */
	bool threaded, named;
	bool
	    taken; /* a spare: when the wire closes its supervisor ends it, and is not waited for */
	uint32_t tag;
	char *level;
	int listeners[SANDBOX_TARGETS_MAX];
	size_t nlisteners;
	char **env; /* of each exec */
	uint64_t output_max;
	struct client_parked *parked;
	size_t nparked;
	struct wire_ahead ahead; /* between two calls of client_turn no whole one is in it */
	/* Called once when the caller waits for something that takes long, or is done with this
	 * one. NULL: nobody has anything to do then. (sandbox_pool.c) */
	void (*spare)(struct sandbox *sb);
	struct buf order; /* of sandbox_spare.c */
	struct sandbox_pool *pool;
	struct sandbox *pool_next;
};

struct sandbox *client_new(void);
/* The same with environment and output limit of this spec. */
struct sandbox *client_for(const struct sandbox_spec *s);
enum client_hold {
	CLIENT_HOLDS, /* it ends with this process, which waits for it */
	CLIENT_STAYS, /* it outlives this process, whoever's child it is */
	CLIENT_LOOSE, /* the same, at once: as a child that nobody waits for */
};
/* Starts a supervisor of its own. */
int client_supervise(struct sandbox *sb, enum client_hold hold, struct err *err);
/* A supervisor that builds a spare (CALL_SPARE); nobody hears how that goes. */
int client_spare_begin(uint32_t seconds, struct str built_from, struct str spec, struct err *err);
/* CREATE's body; CREATED taken. */
int client_create_body(
    const struct sandbox_spec *s, char *const *env, struct buf *out, struct err *err);
int client_created(struct sandbox *sb, uint32_t tag, size_t ntargets, int ms, struct err *err);
/* All of it: asks the supervisor at the wire. */
int client_create(struct sandbox *sb, const struct sandbox_spec *s, struct err *err);
/* ERR_NOT_FOUND: nobody listens there. */
int client_connect(const char *path, int *ret, struct err *err);
/* Before anything that may take time but is not waiting here: a supervisor of this thread gets one
 * of its own. */
void client_leave(struct sandbox *sb);
/* read(2) and write(2) of what is not ours, and may take time. */
ssize_t client_read(struct sandbox *sb, int fd, void *p, size_t n);
ssize_t client_write(struct sandbox *sb, int fd, const void *p, size_t n);
/* All but the wire and the supervisor. */
void client_free(struct sandbox *sb);
/* Sends `type` with a fresh tag before `body` (may be NULL). */
int client_send(struct sandbox *sb, uint8_t type, const struct buf *body, const int *fds,
    size_t nfds, uint32_t *ret_tag, struct err *err);
/* The same with tag 0: nothing is answered. */
int client_tell(struct sandbox *sb, uint8_t type, const struct buf *body, struct err *err);
/*
 * The answer to `tag`, of type `want` or an error; its body without the tag, its descriptors the
 * caller's. timeout_ms 0: only what is there already; < 0: none. ERR_TIMEOUT; ERR_UNAVAILABLE: the
 * sandbox is gone.
 */
int client_answer(struct sandbox *sb, uint32_t tag, uint8_t want, int timeout_ms,
    struct wire_msg *ret, struct err *err);
/* What is on the wire, one message or several, kept for whoever waits for it; to be called when the
 * wire is readable. */
int client_turn(struct sandbox *sb, struct err *err);
/* True if the answer to `tag` is here. */
bool client_has(const struct sandbox *sb, uint32_t tag);
/* client_send and client_answer with DONE and CLIENT_ANSWER_MS. */
int client_ask(struct sandbox *sb, uint8_t type, const struct buf *body, struct wire_msg *ret,
    struct err *err);

/* --- a program whose pipes this caller holds (sandbox_start.c) ----------------------------------
 */
struct client_started {
	uint32_t tag, proc;
	int out, errs, in; /* -1: none; the caller's; non-blocking. With a tty all are `out` */
};
#define CLIENT_STARTED ((struct client_started){.out = -1, .errs = -1, .in = -1})
int client_exec_check(const struct sandbox *sb, const struct sandbox_exec *x, struct err *err);
int client_start(struct sandbox *sb, const struct sandbox_exec *x, bool spawn,
    struct client_started *ret, struct err *err);
/* Its end, as client_answer: cause, value, times and refused of *ret; the rest is left alone. */
int client_ended(struct sandbox *sb, const struct client_started *s, int timeout_ms,
    struct sandbox_result *ret, struct err *err);
/* Ends it; its client_ended then has this cause. */
void client_kill(struct sandbox *sb, const struct client_started *s, enum sandbox_cause cause);
void client_started_free(struct client_started *s);
#define AUTO_STARTED __attribute__((cleanup(client_started_free)))

/* u8 cause, u32 value, u64 user, system us, peak KiB, str refused: the end of EXITED and WAIT. */
int client_end_read(struct rd *r, struct sandbox_result *ret, struct err *err);

#endif
