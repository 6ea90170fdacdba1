/*
 * What the parts of cofferdam-front share: its wires, the runs' listeners, the clients'
 * connections. Front reads every byte an agent sends and trusts none; it has no credential, no
 * connect() and no files. What it forwards to core are whole, well-formed messages.
 */
#ifndef BROKER_FRONT_H
#define BROKER_FRONT_H

#include <sys/queue.h>

#include "common/ipc.h"
#include "common/loop.h"
#include "common/pgwire.h"
#include "common/tlsio.h"

#define FRONT_LISTENERS_MAX 4096
#define FRONT_CONNS_MAX 1024   /* past their start-up, per run: then 53300 */
#define FRONT_SOCKETS_MAX 1280 /* per run, start-up included: then closed at once */
#define FRONT_STARTUP_MS 60000 /* from accept to the session */
#define FRONT_LINGER_MS 3000   /* for the client to read the last error */
#define FRONT_IN_MAX ((size_t)2 << 20)
#define FRONT_OUT_HIGH ((size_t)1 << 20) /* beyond: the server is not read */
#define FRONT_OUT_LOW ((size_t)256 << 10)
#define FRONT_OUT_MAX ((size_t)20 << 20)   /* what can come after a pause, and a hold let go */
#define FRONT_CORE_HIGH ((size_t)16 << 20) /* waiting on the wire to core: no more acts */
#define FRONT_CORE_LOW ((size_t)4 << 20)
#define FRONT_BUCKETS 1024

/* PG_ACT's kind. */
enum front_kind { FRONT_QUERY = 1, FRONT_SYNC = 2, FRONT_FLUSH = 3, FRONT_CUT = 4 };

enum front_state {
	FRONT_NONE = 0,
	FRONT_START, /* start-up packets */
	FRONT_LEAF,  /* TLS asked for; the certificate is on its way */
	FRONT_HANDSHAKE,
	FRONT_OPENING, /* core judges the open */
	FRONT_READY,
	FRONT_ACT,     /* one exchange in flight */
	FRONT_CLOSING, /* last words on their way out */
	FRONT_DEAD,
};

struct front_conn;
struct front_listener;
LIST_HEAD(front_conns, front_conn);
LIST_HEAD(front_listeners, front_listener);
TAILQ_HEAD(front_queue, front_conn);

struct front_hub {
	struct loop *loop;
	struct ipc *core, *upstream;
	struct front_listeners listeners;
	size_t nlisteners;
	struct front_conns conns[FRONT_BUCKETS];
	struct front_queue dirty; /* have output to send, or are dead: seen to before each sleep */
	uint64_t last_id;
	bool stalled; /* some connection waits for the wire to core to drain */
};

struct front_listener {
	LIST_ENTRY(front_listener) link;
	struct front_hub *hub;
	uint32_t id;
	char *run, *target, *host;
	int fd;
	struct loop_io *io;
	struct loop_timer *rest; /* no descriptors left: accepting pauses */
	size_t sockets, sessions;
	struct evp_pkey_st *key;
	struct ssl_ctx_st *ctx; /* NULL: no certificate yet */
	bool asked;
};

struct front_conn {
	LIST_ENTRY(front_conn) link;
	TAILQ_ENTRY(front_conn) queue;
	struct front_hub *hub;
	struct front_listener *listener; /* NULL once the connection is closing */
	uint64_t id;
	enum front_state state;
	bool queued;  /* in hub->dirty */
	bool blocked; /* reading has stopped: `in` is full */
	bool shut;    /* our half of the stream is closed */
	bool ssl_asked, gss_asked;
	bool core_knows; /* PG_OPEN sent, and core has not ended it */
	bool counted;	 /* in listener->sessions */
	bool paused;	 /* FU_PAUSE 1 sent */
	struct tlsio io;
	struct loop_io *ev;
	struct loop_timer *timer;

	struct buf in, out;
	size_t in_at, out_at;

	struct buf unit; /* extended messages collected so far */
	size_t nunit;
	enum front_kind kind; /* of the act in flight */
	uint64_t act;
	bool done;	    /* PG_DONE came */
	uint64_t got, want; /* answer bytes of the act */
	struct buf hold;
	struct pgwire_track track;
	char txn;      /* of the last ReadyForQuery */
	bool skip;     /* a refusal stands: the client's messages up to Sync are dropped */
	bool unsynced; /* the server has something of the exchange that no Sync ended */
};

/* --- front_hub.c */
struct front_hub *front_hub_new(struct loop *loop);
void front_hub_free(struct front_hub *h);
int front_hub_wire(struct front_hub *h, enum ipc_role peer, int fd, struct err *err);
void front_hub_core(struct front_hub *h, uint16_t type, const struct buf *body);
void front_hub_upstream(struct front_hub *h, uint16_t type, const struct buf *body);
/* To be looked at before the loop sleeps. */
void front_hub_queue(struct front_conn *c);

/* --- front_listen.c */
int front_listen_add(struct front_hub *h, uint32_t id, struct str run, struct str target,
    struct str host, int fd, struct err *err); /* takes fd */
struct front_listener *front_listen_find(struct front_hub *h, uint32_t id);
/* Listeners of the run (NULL: all) and their connections end. */
void front_listen_drop(
    struct front_hub *h, const struct str *run, const char *sqlstate, const char *message);
/* Sessions past their start-up, of the whole run. */
size_t front_listen_sessions(const struct front_listener *l);
/* True: l->ctx can be used now. False: F_LEAF will come. */
bool front_listen_leaf(struct front_listener *l);
int front_listen_on_leaf(struct front_hub *h, uint32_t id, struct str pem, struct err *err);

/* --- front_conn.c: sockets and buffers */
/* Takes fd. */
void front_conn_new(struct front_listener *l, int fd);
struct front_conn *front_conn_find(struct front_hub *h, uint64_t id);
/* Bytes for the client; from the server when `answer` (then followed for message boundaries). */
void front_conn_put(struct front_conn *c, struct str bytes, bool answer);
/* FATAL, where the stream allows one, then the end. */
void front_conn_fatal(struct front_conn *c, const char *sqlstate, const char *message);
void front_conn_fatal_error(struct front_conn *c, const struct pgwire_error *e);
void front_conn_fail(struct front_conn *c, const struct err *err);
/* The end at once. The object lives on until the loop sleeps. */
void front_conn_end(struct front_conn *c);
/* TLS with the listener's certificate, from here on. */
void front_conn_tls(struct front_conn *c);
/* The session stands: the start-up clock stops. */
void front_conn_started(struct front_conn *c);
/* Input may be handled again: what is buffered, then what the socket holds. */
void front_conn_kick(struct front_conn *c);
/* Before sleep: write, resume the server, free when dead. */
void front_conn_service(struct front_conn *c);

/* --- front_pg.c: the protocol's states */
/* Handle what is in c->in as far as the state allows. */
void front_pg_input(struct front_conn *c);
void front_pg_opened(struct front_conn *c, const struct pgwire_param *params, size_t n);
struct front_refusal {
	uint64_t act;
	uint8_t how;
	struct pgwire_error e;
};
void front_pg_refused(struct front_conn *c, const struct front_refusal *r);
void front_pg_done(struct front_conn *c, uint64_t act, uint64_t bytes);
void front_pg_data(struct front_conn *c, uint64_t act, bool hold, struct str bytes);

#endif
