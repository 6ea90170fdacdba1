/* The hub from within: between e2b_hub.c (descriptors, entries) and e2b_hub_calls.c. */
#ifndef AGENT_E2B_HUB_INT_H
#define AGENT_E2B_HUB_INT_H

#include <sys/queue.h>

#include "agent/e2b_hub.h"
#include "common/acceptor.h"

#define CALLERS_MAX (SERVE_WORKERS_MAX + 8)

struct sandbox_entry {
	struct e2b_entry e;
	int keeper; /* a connection that says when the keeper is gone; -1: not there yet */
	struct loop_io *keeper_io;
	struct e2b_hub *hub;
	int caller; /* the worker that makes it, until it is there; -1 */
	struct sandbox_entry *next;
};

/* A worker. */
struct hub_caller {
	LIST_ENTRY(hub_caller) link;
	struct e2b_hub *hub;
	int fd;
	struct loop_io *io;
};

struct e2b_hub {
	struct e2b_config *c;
	struct serve_hook hook;
	struct loop *loop;  /* turned by the hook */
	int listener, life; /* life: the end that nobody reads */
	struct acceptor *acceptor;
	LIST_HEAD(hub_callers, hub_caller) callers;
	size_t ncallers;
	struct sandbox_entry *first, **last; /* by serial */
	size_t n;
	uint64_t serial;
};

struct sandbox_entry *hub_find(struct e2b_hub *h, struct str id); /* NULL: none */
void hub_drop(struct e2b_hub *h, struct sandbox_entry *s);
/* From now on its keeper's end is its own. */
void hub_keeper_watch(struct sandbox_entry *s);
/* So many random bytes in base32; the caller frees. */
char *hub_random(size_t bytes);
/* One message of a worker. */
void hub_answer(struct e2b_hub *h, int caller, struct str message);

#endif
