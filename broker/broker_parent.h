/*
 * The parent: one table of children, one table of peers. It starts, wires and restarts, keeps
 * spare copies of what a restarted child needs, and parses nothing that comes from an agent.
 */
#ifndef BROKER_BROKER_PARENT_H
#define BROKER_BROKER_PARENT_H

#include <sys/types.h>

#include "broker/broker_config.h"
#include "broker/broker_state.h"
#include "common/ipc.h"
#include "common/loop.h"

#define BROKER_RUN_MAX 200 /* bytes of a run's id */
#define BROKER_PARSERS_MAX 256
#define BROKER_KEPT_MAX 4096 /* spare listeners */
#define BROKER_STOP_MS 5000  /* from P_STOP to SIGKILL */
#define BROKER_DEATHS 10     /* so many in so long, and the restarts slow down */
#define BROKER_DEATHS_MS 10000
#define BROKER_SLOW_MS 5000

struct broker;

struct child {
	struct broker *b;
	struct child *next;
	enum ipc_role role;
	const char *name, *program; /* "front", "cofferdam-front" */
	char *path;
	char run[BROKER_RUN_MAX + 1]; /* of a parser */
	pid_t pid;		      /* 0: not running */
	struct ipc *wire;	      /* NULL: gone */
	bool ready, doomed;	      /* doomed: not to be started again */
	uint64_t born;
	uint64_t deaths[BROKER_DEATHS]; /* times, a ring */
	unsigned death_at, delay;
	struct loop_timer *restart;
	struct loop_timer *linger; /* the wire is gone, the process not yet */
	unsigned log_tokens, log_dropped;
	uint64_t log_time;
};

struct kept {
	struct kept *next;
	int fd;
	uint32_t index;
	char run[BROKER_RUN_MAX + 1];
};

struct broker {
	struct loop *loop;
	struct broker_state state;
	struct broker_config config;
	struct broker_ids ids;
	int control, agent; /* listening sockets, given to core at each start */
	int console;	    /* given to that; -1: there is none */
	int vault_key;	    /* kept open: its source may be readable once only */
	struct child *children;
	struct kept *kept;
	size_t kept_n, parsers_n;
	bool announced, stopping, killed;
	size_t stage;
	struct loop_timer *stop_timer;
};

/* broker_child.c: start, end, restart. */
struct child *broker_child_new(
    struct broker *b, enum ipc_role role, const char *run, struct err *err);
/* The singleton of that role, or a run's parser. NULL: none. */
struct child *broker_child_find(const struct broker *b, enum ipc_role role, struct str run);
void broker_child_start(struct child *c);
/* Kill it for good; it is freed when it has been reaped. */
void broker_child_doom(struct child *c);
void broker_children_free(struct broker *b);
bool broker_child_running(const struct child *c);

/* broker_wires.c: what a new child is sent. */
void broker_wires_configure(struct child *c);
void broker_wires_reload(struct broker *b); /* vault and policy again, on SIGHUP */

/* broker_msg.c: what the children say. */
int broker_msg(struct child *c, uint16_t type, struct rd *body, int *fds, struct err *err);

/* broker_keep.c: spare listeners. */
int broker_keep(
    struct broker *b, struct str run, uint32_t index, int fd, struct err *err); /* takes fd */
/* index NULL: all of the run. */
void broker_keep_drop(struct broker *b, struct str run, const uint32_t *index);
void broker_keep_send(struct broker *b, struct ipc *core);

/* broker_sock.c: a listening unix socket beneath run/, mode 0660. */
int broker_sock_listen(
    const struct broker_state *s, const char *name, uid_t uid, int *ret_fd, struct err *err);

/* broker_notify.c: systemd's readiness protocol; nothing without NOTIFY_SOCKET. */
void broker_notify(const char *state);

/* broker_serve.c: the parent from its first check to its end; returns main()'s exit status. */
int broker_serve(const char *path);

/* broker_stop.c: the orderly end. */
void broker_stop(struct broker *b);
void broker_stop_step(struct broker *b); /* a child has ended */

#endif
