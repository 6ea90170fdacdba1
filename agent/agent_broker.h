/*
 * The agent's end of the agent socket: registration of a run, its listeners, its own
 * account of what it does. Blocking; one frame at a time.
 */
#ifndef AGENT_AGENT_BROKER_H
#define AGENT_AGENT_BROKER_H

#include "common/buf.h"
#include "common/err.h"

#define BROKER_TARGETS_MAX 252

enum broker_listen {
	BROKER_LISTEN_NONE = 0,
	BROKER_LISTEN_SANDBOX = 1, /* TCP at `address` and `port`, inside */
	BROKER_LISTEN_LOOP = 2	   /* unix socket of this process */
};

/* kind: postgres, http, proxy or loop; the latter two have no name in the policy. */
struct broker_target {
	char *target, *kind, *host, *address, *database, *user;
	uint16_t port;
	enum broker_listen listen;
	uint32_t index; /* what broker calls it */
	bool fresh;	/* its listener is wanted */
};

/* For the sandbox's environment: a placeholder in a credential's place. */
struct broker_variable {
	char *name, *value;
};

/* A model that the sandbox may ask; key: a placeholder, "" where the target has no credential. */
struct broker_model {
	char *target, *provider, *url, *key;
};
#define BROKER_MODELS_MAX 32

struct broker_plan {
	char *run, *owner, *ca_pem;
	char *words; /* the policy in words, for a model; another when it changes */
	struct broker_target targets[BROKER_TARGETS_MAX];
	size_t ntargets;
	struct broker_variable env[BROKER_TARGETS_MAX];
	size_t nenv;
	struct broker_model models[BROKER_MODELS_MAX]; /* as at the start */
	size_t nmodels;
};

struct broker;
struct agent_steer;
struct broker_ask {
	const char *socket, *agent, *task;
	const char *const *targets; /* none: all that the policy has */
	size_t ntargets;
	const char *parent;	    /* the run whose child this is; NULL: none */
	const char *const *effects; /* that it may have at all; none: all that the policy gives */
	size_t neffects;
	const char *budget;	   /* JSON object of what it will keep to; NULL: none */
	struct agent_steer *steer; /* what people tell it goes there; NULL: nowhere */
	bool loop;		   /* a loop listener is wanted; all model targets join */
	bool wrapped;		   /* models that the sandbox may ask join */
	const uint32_t *as;	   /* the user whose run it is (agent_as.h); NULL: who runs this */
};
/* Connects and registers a run. The plan lives as long as the broker. */
int broker_open(const struct broker_ask *a, struct broker **ret, struct err *err);
/* Ends the wire; without broker_end the core records an end by loss. NULL is fine. */
void broker_free(struct broker *b);
DEFINE_AUTO(broker, struct broker, broker_free)
const struct broker_plan *broker_plan(const struct broker *b);
/* Every entry of the plan that wants a listener gets one before broker_start. */
int broker_listen(struct broker *b, uint32_t index, int fd, struct err *err);
/* `level` is the sandbox's JSON. Returns when the listeners serve. */
int broker_start(struct broker *b, const char *level, struct err *err);
/*
 * Records one event (type model, exec, result or note; fields a canonical JSON object) and waits
 * until it is durable. A core that restarts in between is found again; the event is then sent
 * again. ERR_STATE when the run was ended from outside (broker_killed has the reason).
 */
int broker_event(
    struct broker *b, const char *type, struct str fields, struct str content, struct err *err);
/*
 * The same without waiting: it is durable when the next event is acknowledged, or core was found
 * again with both. At most one; with another it waits.
 */
int broker_event_later(
    struct broker *b, const char *type, struct str fields, struct str content, struct err *err);
/*
 * Called with a new plan while the run lives: makes the listeners of what is fresh, hands them
 * over, and says in *why what could not be made. Its targets and variables then take the old ones'
 * place.
 */
typedef void broker_change_fn(void *arg, const struct broker_plan *next, struct buf *why);
void broker_on_change(struct broker *b, broker_change_fn *fn, void *arg);
/*
 * What the broker refused since the last result that was recorded, a line each, for the model; ""
 * nothing. The caller frees.
 */
char *broker_take_refused(struct broker *b);
/* Of the run's own: verb approval {"id"}; see docs/format-ipc.md. *ret is appended to. */
int broker_query(
    struct broker *b, const char *verb, struct str args, struct buf *ret, struct err *err);
/* status: done, not_done, error or budget:NAME. */
int broker_end(struct broker *b, const char *status, const char *text, struct err *err);
/* The same with what was used, a JSON object; "": not told. */
int broker_end_spent(
    struct broker *b, const char *status, const char *text, const char *spent, struct err *err);
/* For sandbox_exec: the wire, and what to do when it speaks while a program runs. */
const int *broker_fd(const struct broker *b);
bool broker_watch(void *broker);
const char *broker_killed(const struct broker *b); /* NULL: not */
/*
 * Takes what has come, and waits as long as the run is paused. ERR_STATE: it was ended from
 * outside, or stopped by a person, which agent_steer.stop tells apart.
 */
int broker_hold(struct broker *b, struct err *err);

#endif
