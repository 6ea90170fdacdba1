/*
 * What the parts of cofferdam-core share: its wires, the runs, the connections. One struct
 * core per process (several in a test). Core judges, holds policy, credentials and the CA key;
 * it has no network, and no files once confined but the blob key directory.
 */
#ifndef BROKER_CORE_H
#define BROKER_CORE_H

#include <sys/queue.h>
#include <sys/types.h>

#include "audit/blob.h"
#include "common/ipc.h"
#include "common/jcs.h"
#include "common/loop.h"
#include "common/secret.h"
#include "policy/approval.h"
#include "policy/policy.h"

#define CORE_RUNS_MAX 64
#define CORE_CONNS_MAX 50    /* per run and target, where the policy has no max_connections */
#define CORE_PENDING_MAX 64  /* open requests per run */
#define CORE_ENDED_MAX 256   /* ended requests remembered per run, for links */
#define CORE_REFUSED_MAX 256 /* refused actions remembered per run, for links */
#define CORE_CONTROL_MAX 64  /* people connected at once */
#define CORE_AGENTS_MAX 80
#define CORE_TARGETS_MAX 250		      /* per run */
#define CORE_SLOTS_MAX (CORE_TARGETS_MAX + 2) /* with the proxy and the loop */
#define CORE_PLACE_SIZE 17
#define CORE_ID_SIZE 40	    /* "r-" or "a-" and 26 digits of base32, NUL */
#define CORE_RECORD_MS 1750 /* a record not durable by then is a refusal; within 2 s of asking */
#define CORE_PARSER_MS 5000
#define CORE_RESUME_MS 60000 /* an agent comes back within, after core restarted */
#define CORE_CONTROL_MS 600000

struct core;
struct core_run;
struct core_conn;
struct core_http;
struct core_request;
struct core_ticket;
struct core_ask;
struct core_lift;
struct core_question;
struct core_ca;
struct core_desk;
struct core_logins;
struct rates;
struct succession;
struct vault;

/* Where a peer stands; the request table says in which states a message may come. */
enum core_state {
	CORE_S_OPEN =
	    1, /* front, upstream, parser, person; writer once it has told its live records */
	CORE_S_REPLAY = 2,    /* writer: telling its live records */
	CORE_S_NEW = 4,	      /* agent: nothing said yet */
	CORE_S_PLAN = 8,      /* agent: has its plan, hands over listeners */
	CORE_S_STARTING = 16, /* agent: run.start is being recorded */
	CORE_S_RUN = 32,
	CORE_S_ENDED = 64,
};

struct core_peer {
	TAILQ_ENTRY(core_peer) link; /* agents and people */
	struct core *core;
	struct ipc *wire;
	enum ipc_role role;
	enum core_state state;
	uint64_t seen;		    /* rows of the table already used (once) */
	uint64_t serial;	    /* names a peer across its death */
	size_t nevents;		    /* agent: events that are not durable yet */
	struct core_run *run;	    /* parser, agent */
	uid_t uid;		    /* agent, person */
	char watches[CORE_ID_SIZE]; /* person: the run whose records follow; "" none */
	bool will_watch;	    /* person: that it looks is not durable yet */
	uint64_t left_out;	    /* of those, because it did not read */
	struct loop_timer *timer;
};
TAILQ_HEAD(core_peers, core_peer);

enum core_listen { CORE_LISTEN_NONE = 0, CORE_LISTEN_TCP = 1, CORE_LISTEN_UNIX = 2 };

/* What a run may reach, or one of the two listeners besides (proxy, loop), whose id is "". */
/* Of one that comes or goes while its run lives (core_patch.c). */
enum core_target_state {
	CORE_TARGET_SERVES = 0,
	CORE_TARGET_WAITS,    /* for its listener */
	CORE_TARGET_HELD,     /* it has that, if it needs one, and no record yet */
	CORE_TARGET_RECORDED, /* that is on its way */
	CORE_TARGET_GONE,     /* a free place; host and address stay for its return */
};

struct core_target {
	char *id, *kind, *host, *address, *database, *user;
	char *scheme; /* http, https; "" for other kinds */
	uint16_t port;
	enum core_listen listen;
	int fd;		   /* the run's listening socket; -1 */
	uint32_t listener; /* as front knows it; 0: not told */
	enum core_target_state state;
	char place[CORE_PLACE_SIZE]; /* tells where it leads, and with what: core_plan_place() */
};

/* A change of a run's targets, from the policy to the agent and into the log. */
struct core_patch {
	struct core_ticket *ticket; /* run.targets */
	struct loop_timer *again;   /* it could not be recorded */
	uint64_t serial;	    /* of the last A_TARGETS */
	bool asked;		    /* and A_CHANGED has not come */
	bool look;		    /* the policy may have more for this run */
	bool stale;		    /* the agent knows other targets than there are */
	bool owed;		    /* the log does, too */
	char **gone; /* names not yet recorded as gone; the first `telling` are on their way */
	size_t ngone, telling;
};

/* An action that was refused or is waiting, for decision.link and for counting attempts. */
#define CORE_REFUSED_OBJECTS 16 /* names of what it touches, as short hashes; more are left out */
struct core_refused {
	uint64_t seq;
	bool denied;		    /* at once; else `request` tells what became of it */
	unsigned attempt;	    /* refused tries at this in a row before it */
	char request[CORE_ID_SIZE]; /* "" none */
	char target[POLICY_ID_MAX + 1];
	uint8_t nobjects;
	uint64_t objects[CORE_REFUSED_OBJECTS];
};
/* An action that nobody can approve, for `pending`. */
#define CORE_UNMET_MAX 16
#define CORE_UNMET_SHOW 200
struct core_unmet {
	int64_t at_us;
	char action[CORE_ID_SIZE], target[POLICY_ID_MAX + 1];
	uint32_t effects;
	char slots[512], does[CORE_UNMET_SHOW + 1], show[CORE_UNMET_SHOW + 1];
};

#define CORE_EFFECTS_ANY UINT32_MAX
#define CORE_BUDGETS_MAX 8
#define CORE_BUDGET_NAME 24
struct core_budget {
	char name[CORE_BUDGET_NAME];
	uint64_t n;
};
#define CORE_SPOKE_MAX 16 /* people who may give one run words */
struct core_say;
struct core_backlog;

enum core_run_state { CORE_RUN_PLANNED, CORE_RUN_STARTING, CORE_RUN_LIVE, CORE_RUN_ENDING };
TAILQ_HEAD(core_requests, core_request);
TAILQ_HEAD(core_asks, core_ask);
struct core_run {
	TAILQ_ENTRY(core_run) link;
	struct core *core;
	enum core_run_state state;
	char id[CORE_ID_SIZE];
	char *agent, *owner, *login;
	char *task;			/* until run.start is recorded */
	char *said;			/* the agent's last words, for approvers */
	struct hash words;		/* of what its model was last told of the policy */
	struct buf told;		/* refusals that it is still to be told of; core_words.c */
	struct core_question *question; /* NULL: none */
	int64_t last_question;
	size_t untold;		     /* that did not fit */
	struct core_peer *peer;	     /* its agent; NULL when away */
	struct core_peer *parser;    /* NULL: none yet, or dead */
	struct core_asks asks;	     /* statements at the parser, or waiting for it */
	struct secret *key;	     /* of its blobs */
	struct core_target *targets; /* CORE_SLOTS_MAX, for connections point at them */
	size_t ntargets, nconns, nhttps, npending, nended, nstreams;
	bool all;  /* it asked for every target that the policy has, else for these */
	bool loop; /* and for the models */
	char **names;
	size_t nnames;
	uint32_t naddresses; /* given to targets so far, so that none is used for another host */
	struct core_patch patch;
	uint64_t held; /* bytes of HTTP bodies in hand */
	struct core_requests requests;
	struct core_refused refused[CORE_REFUSED_MAX];
	size_t nrefused;	   /* ever; the ring keeps the last */
	struct core_unmet *unmet;  /* CORE_UNMET_MAX; NULL: none yet */
	size_t nunmet;		   /* ever; the ring keeps the last */
	unsigned alarms;	   /* of tries, since it began */
	struct loop_timer *over;   /* it tried too often, and ends */
	unsigned tries;		   /* so often */
	char parent[CORE_ID_SIZE]; /* "": a person started it; core_child.c */
	unsigned depth, nchildren; /* below such a one; children that it ever had */
	uint32_t most;		   /* effects that it may have at all */
	struct core_budget budgets[CORE_BUDGETS_MAX];
	size_t nbudgets;
	int64_t began_us;	  /* when it was registered, of one from the log; else 0 */
	struct loop_timer *until; /* its seconds */
	/* At the root of its kin: who besides the owner told any of them what to do. */
	struct str spoke[CORE_SPOKE_MAX];
	size_t nspoke;
	bool paused;
	char *stopping;		     /* a person said so, in these words; NULL: nobody */
	TAILQ_HEAD(, core_say) says; /* to its agent, by people; core_steer.c */
	size_t nsays, nsteers;
	bool streams;		      /* its agent shows what the broker observes */
	uint64_t left_out;	      /* of what was for its agent, which did not read */
	struct core_backlog *backlog; /* core_watch.c */
	struct loop_timer *timer;
	struct core_ticket *ticket; /* run.start, run.end */
	char *end_status, *end_text;
	char *spent;		     /* what its agent says that it used, JSON; NULL: not said */
	bool parser_asked, recorded; /* recorded: its run.start may be in the log */
	bool seen;		     /* in the live records that the writer is telling */
	bool rebuilt;		     /* from those, which are not all told yet */
};
TAILQ_HEAD(core_runs, core_run);

TAILQ_HEAD(core_lifts, core_lift);
TAILQ_HEAD(core_kept_list, core_kept);
struct core_kept {
	TAILQ_ENTRY(core_kept) link;
	char run[CORE_ID_SIZE];
	uint32_t index;
	int fd;
};

TAILQ_HEAD(core_tickets, core_ticket);
LIST_HEAD(core_conns, core_conn);
LIST_HEAD(core_https, core_http);
LIST_HEAD(core_streams, core_stream);
#define CORE_CONN_BUCKETS 1024

struct core {
	struct loop *loop;
	struct core_peer parent;
	struct core_peer *front, *upstream, *writer, *console;
	struct core_desk *desk; /* sessions of people in their browsers; core_console.c */
	struct core_peers agents, people;
	size_t nagents, npeople;
	uint64_t last_serial;

	char *origin;
	uid_t uid;
	int control_fd, agent_fd, blobkeys_fd, passwd_fd, vault_fd;
	struct acceptor *control_acceptor, *agent_acceptor;
	bool serving;  /* confined */
	bool live;     /* the writer has told its live records: its wire takes appends */
	bool was_live; /* once at least: this process knows what it did not send */
	bool kept_end;
	unsigned stop_turns;

	struct policy *policy;	    /* recorded; NULL: everything is refused */
	struct policy *policy_next; /* loaded, its policy.load not yet durable */
	struct hash live_policy;    /* of the last policy.load in the log */
	bool live_policy_known;
	bool no_policy; /* the parent said that none is active */
	/* The last policy.load of the log, withdrawn since or not: what the next one must follow.
	 */
	bool last_policy_known;
	struct hash last_policy;
	int64_t last_policy_serial;
	unsigned last_policy_owners;	  /* signatures that its successor needs */
	struct policy *policy_before;	  /* that one, where it is not in force; may be another */
	struct succession *signatures;	  /* beside policy_next; NULL: none came */
	char *policy_refused;		  /* content of a record that is still to be written */
	int64_t last_us;		  /* the clock never goes behind it */
	struct rates *rates;		  /* core_rate.c */
	struct core_offhost *offhost;	  /* NULL: nothing was told or waits */
	struct core_witnesses *witnesses; /* NULL: nothing was told */
	struct core_logins *logins;
	struct vault *vault;
	struct secret *vault_key, *fp_key;
	struct core_ca *ca;
	struct secret *ca_key; /* until the CA is loaded */
	char *ca_pem;
	struct secret *policy_blob_key;
	struct core_erase *erase; /* under way; NULL: none */
	struct core_ticket *policy_ticket;
	struct hash policy_recording;
	char vkey_hash[HASH_HEX_SIZE]; /* of the log's verifier key line */
	uint64_t log_size;

	struct core_lifts lifts; /* what people signed beside the policy */
	struct core_runs runs;
	size_t nruns;
	struct core_kept_list kept;
	struct core_conns conns[CORE_CONN_BUCKETS];
	struct core_https https[CORE_CONN_BUCKETS];
	size_t nhttps;
	struct core_streams streams; /* behind a 101, or to be; core_http_stream.c */
	struct loop_timer *streams_timer;
	uint64_t held; /* bytes of HTTP bodies in hand */
	uint32_t last_listener;
	uint64_t last_ask;

	struct core_tickets tickets;	 /* appended, not yet durable; oldest first */
	struct core_tickets unsent;	 /* outcomes that must still get into the log */
	struct core_tickets unwitnessed; /* durable, and waiting for cosignatures */
	size_t ntickets;
	uint64_t last_ticket;
	struct loop_timer *ticket_timer;
	/* ids of actions (CORE_ID_SIZE each); doubt_more: run, seq of each, and does it only
	 * read; core_doubt.c */
	struct buf doubt, doubt_more, not_sent;
	struct core_doubts *doubts; /* core_doubt.c; NULL: none */
	char *log_damage;	    /* of the log on disk, as the writer found; NULL: none */
};

struct core *core_new(struct loop *loop);
void core_free(struct core *c);

/* The instant of judging, by the active policy's clock rule; never behind an earlier one. */
struct instant core_now(struct core *c);
/* prefix and 26 random base32 digits. */
void core_id(char out[CORE_ID_SIZE], const char *prefix);
/* Queue a frame for a peer that may be gone (NULL). */
void core_send(const struct core_peer *p, uint16_t type, const struct buf *body);

/* Proc callbacks, see common/proc.h; arg is the struct core. (core_boot.c) */
int core_boot_config(void *arg, const struct json *config, struct err *err);
int core_boot_fd(void *arg, struct str name, int fd, struct err *err);
int core_boot_wire(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err);
int core_boot_go(void *arg, struct err *err);
int core_boot_serve(void *arg, struct err *err);
void core_boot_stop(void *arg);
ipc_msg_fn core_boot_parent_msg;

#endif
