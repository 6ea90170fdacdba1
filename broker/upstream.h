/*
 * What the parts of cofferdam-upstream share: its wires and its connections to servers.
 * Upstream connects, proves who the server is, authenticates with the credential that came in
 * U_OPEN and sends exactly what core leased. It holds no policy and never sees a client.
 */
#ifndef BROKER_UPSTREAM_H
#define BROKER_UPSTREAM_H

#include <sys/queue.h>

#include "broker/upstream_plan.h"
#include "broker/upstream_resolve.h"
#include "broker/upstream_scram.h"
#include "common/hash.h"
#include "common/ipc.h"
#include "common/loop.h"
#include "common/secret.h"
#include "common/tlsio.h"

#define UPSTREAM_CONNS_MAX 4096
#define UPSTREAM_OPEN_MS 20000		       /* from U_OPEN to ReadyForQuery */
#define UPSTREAM_MESSAGE_MAX ((size_t)2 << 20) /* a server message that must be read whole */
#define UPSTREAM_IN_MAX (UPSTREAM_MESSAGE_MAX + ((size_t)128 << 10))
#define UPSTREAM_TURN_BYTES                                                                       \
	((size_t)512 << 10)			 /* read from one server before others get a turn \
						  */
#define UPSTREAM_FRAME_BYTES ((size_t)128 << 10) /* of answer in one UF_DATA */
#define UPSTREAM_TAIL_BYTES ((size_t)256 << 10)
#define UPSTREAM_QUEUE_HIGH ((size_t)1 << 20) /* on the wire to front: servers are not read */
#define UPSTREAM_QUEUE_LOW ((size_t)256 << 10)
#define UPSTREAM_BUCKETS 1024

struct upstream_conn;
struct upstream_act;
struct upstream_http;
LIST_HEAD(upstream_conns, upstream_conn);

struct upstream_hub {
	struct loop *loop;
	struct ipc *core, *front;
	struct resolver *resolver;
	struct upstream_http *http; /* NULL: PostgreSQL alone (tests) */
	struct upstream_conns conns[UPSTREAM_BUCKETS];
	size_t nconns;
	struct upstream_conns cancels; /* not sessions: they are not looked up */
	struct upstream_conns dead;    /* ended, freed before the loop sleeps */
	bool throttled;		       /* some connection waits for the wire to front to drain */
	struct upstream_seal *seal;    /* of the exchange that comes next; NULL: none */
	struct upstream_seal *sealing; /* done, and waits for the wire to the writer */
};

enum upstream_state {
	UP_NONE = 0,
	UP_RESOLVING,
	UP_CONNECTING,
	UP_SSL_ASKED,
	UP_HANDSHAKE,
	UP_CANCELLING, /* a connection to cancel a statement: all was said, the end is awaited */
	UP_AUTH,
	UP_STARTING, /* authenticated; parameters until the first ReadyForQuery */
	UP_READY,
	UP_DEAD,
};

/* COPY FROM STDIN, of the act that had it last. */
enum upstream_copy_state {
	COPY_NONE = 0,
	COPY_OPEN,    /* the server waits for data */
	COPY_ENDED,   /* it has the end of the data */
	COPY_STOPPED, /* it has failed the statement; front may not know yet */
};
struct upstream_copy {
	uint64_t act;
	enum upstream_copy_state state;
	size_t credit; /* bytes that front may still send */
};

#define UPSTREAM_KEY_LEN 8 /* BackendKeyData of protocol 3.0: process id, secret */

struct upstream_conn {
	LIST_ENTRY(upstream_conn) link;
	struct upstream_hub *hub;
	uint64_t id;
	enum upstream_state state;
	char *run, *host, *ca; /* ca: PEM */
	uint16_t port;
	bool tls;
	struct secret *password; /* until the exchange begins */
	struct buf startup;
	struct upstream_scram *scram;
	bool scram_done;

	struct resolve *query;
	struct resolve_addr addrs[RESOLVE_ADDRS_MAX];
	size_t naddrs, addr;
	struct tlsio io;
	struct loop_io *ev;
	struct loop_timer *timer, *again;
	char peer[64], cert[HASH_HEX_SIZE];
	struct buf binding;

	struct buf in, out;
	size_t in_at, out_at;
	size_t body_left; /* of a message that is passed on as it comes */
	bool body_tail;	  /* ... and where to */
	bool paused, throttled;

	struct buf params; /* list items for U_OPENED */
	uint32_t nparams;
	bool utf8, scs; /* as last reported */
	char txn;	/* I T E, of the last ReadyForQuery */
	bool skip;	/* the client's next Sync ends an error; nothing before it is sent */
	bool executed;	/* something ran since the last ReadyForQuery */
	struct upstream_act *act;
	struct upstream_copy copy;
	uint64_t own; /* counts names of own statements */

	uint8_t key[UPSTREAM_KEY_LEN]; /* the server's, to cancel with; stays in this process */
	bool has_key;
	struct upstream_conn *cancel; /* the connection that cancels what this session runs */
	bool cancels;		      /* this is such a connection, no session */
	bool said;		      /* ... and its request was given to the socket */
	struct upstream_conn *of;     /* ... and whose; NULL once that has ended */
	uint64_t of_act;
};

/*
 * A text from outside, fit for a record: UTF-8, cut at a character within max - 1 bytes, NUL
 * behind it. Other encodings (errors before the session's is set) are not shown.
 */
void upstream_text(struct str s, char *out, size_t max);

/* --- upstream_hub.c: wires and lookup */
struct upstream_hub *upstream_hub_new(struct loop *loop, struct resolver *resolver);
void upstream_hub_free(struct upstream_hub *h);
int upstream_hub_wire(struct upstream_hub *h, enum ipc_role peer, int fd, struct err *err);
struct upstream_conn *upstream_hub_find(struct upstream_hub *h, uint64_t id);
/* Send when that wire stands; else the frame is dropped: its connections are being closed. */
void upstream_hub_core(struct upstream_hub *h, uint16_t type, const struct buf *body);
void upstream_hub_front(struct upstream_hub *h, uint16_t type, const struct buf *body);

/* --- upstream_conn.c: addresses, sockets, TLS, buffers */
struct upstream_open { /* U_OPEN, read; all borrowed */
	uint64_t id;
	struct str run, host, address, database, user, ca, secret;
	uint32_t port;
	uint8_t tls;
	struct pgwire_param params[PGWIRE_STARTUP_PARAMS];
	size_t nparams;
};
/* Starts to connect. On error nothing is left; the caller answers U_OPENED. The secret is copied.
 */
int upstream_conn_open(struct upstream_hub *h, const struct upstream_open *o, struct err *err);
/* The same in two steps, for a second connection to where there is one. */
struct upstream_conn *upstream_conn_new(struct upstream_hub *h, const struct upstream_open *o);
/* To the next address, if there is one: *err is cleared when that one is under way. */
void upstream_conn_next(struct upstream_conn *c, struct err *err);
/* Bytes to the server, sent as far as the socket takes them. */
void upstream_conn_send(struct upstream_conn *c, struct str bytes);
void upstream_conn_pause(struct upstream_conn *c, bool on);
void upstream_conn_resume(struct upstream_conn *c);
/*
 * The end: an act in flight is answered U_DONE "lost"; then, told core by U_OPENED (not yet open)
 * or U_GONE. sqlstate NULL: core knows already (U_CLOSE). The object lives on until the loop
 * sleeps.
 */
void upstream_conn_end(struct upstream_conn *c, const char *sqlstate, const char *message);
void upstream_conn_bury(struct upstream_hub *h);

/* --- upstream_auth.c: from the first byte to the first ReadyForQuery */
int upstream_auth_startup(struct upstream_conn *c, const struct upstream_open *o, struct err *err);
int upstream_auth_message(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err);
/* ParameterStatus at any time: the pinned ones must stay. */
int upstream_auth_parameter(struct upstream_conn *c, struct str body, struct err *err);

/* --- upstream_pg.c: what servers send */
/* Everything in c->in that can be handled now. Returns an error to end the connection with. */
int upstream_pg_pump(struct upstream_conn *c, struct err *err);

#endif
