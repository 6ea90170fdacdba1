/*
 * What the parts of cofferdam-front share: its wires, the runs' listeners, the clients'
 * connections, and what a protocol must be able to do. Front reads every byte an agent sends and
 * trusts none; it has no credential, no connect() and no files. What it forwards to core are
 * whole, well-formed messages.
 */
#ifndef BROKER_FRONT_H
#define BROKER_FRONT_H

#include <sys/queue.h>

#include "broker/front_tls.h"
#include "common/ipc.h"
#include "common/loop.h"
#include "common/tlsio.h"

#define FRONT_LISTENERS_MAX 4096
#define FRONT_CONNS_MAX 1024		 /* in use, per run: then refused with a reason */
#define FRONT_SOCKETS_MAX 1280		 /* per run, start-up included: then closed at once */
#define FRONT_OUT_HIGH ((size_t)1 << 20) /* beyond: the server is not read */
#define FRONT_OUT_LOW ((size_t)256 << 10)
#define FRONT_OUT_MAX ((size_t)20 << 20)   /* what can come after a pause, and a hold let go */
#define FRONT_CORE_HIGH ((size_t)16 << 20) /* waiting on a wire: nothing more is sent */
#define FRONT_CORE_LOW ((size_t)4 << 20)
#define FRONT_SPOOL_MAX ((size_t)256 << 20) /* bytes of bodies kept for core, in all */
#define FRONT_SPOOL_RUN_MAX ((size_t)64 << 20)
#define FRONT_BUCKETS 1024

struct front_conn;
struct front_http;
struct front_leaf;
struct front_listener;
struct front_pg;
LIST_HEAD(front_conns, front_conn);
LIST_HEAD(front_listeners, front_listener);
TAILQ_HEAD(front_leaves, front_leaf);
TAILQ_HEAD(front_queue, front_conn);

/* Why all of a sudden it is over. */
enum front_why {
	FRONT_RUN_ENDED = 1,
	FRONT_CORE_LOST,
	FRONT_UPSTREAM_LOST, /* only where something of it is there */
	FRONT_STOPPING,
	FRONT_NO_LEAF, /* core has no certificate for the name */
	FRONT_REVOKED, /* the target is not the run's any more */
};

/* A protocol. The connection's bytes and timers are front_conn.c's, its meaning is in here. */
struct front_proto {
	const char *alpn; /* the one protocol name that is agreed to */
	bool sni;	  /* a name must be asked for, and be the leaf's */
	size_t in_max;
	bool stalls; /* a client that reads nothing for clocks.stall is given up */
	void (*start)(struct front_conn *c);
	void (*free)(struct front_conn *c);
	/* Is the socket to be read? */
	bool (*reads)(const struct front_conn *c);
	/* Takes what it can of front_conn_in(), by c->in_at. */
	void (*input)(struct front_conn *c);
	/* The client sends no more; false, or NULL: it is gone. */
	bool (*eof)(struct front_conn *c);
	/* TLS stands. */
	void (*secured)(struct front_conn *c);
	/* Says why as far as the stream allows, then the end. */
	void (*over)(struct front_conn *c, enum front_why why);
	/* What front_conn_deadline() said is past. */
	void (*timeout)(struct front_conn *c);
	/* The client does not read (on), or does again: the server is to wait, or to go on. */
	void (*pause)(struct front_conn *c, bool on);
	/* The connection ends now, for whatever reason: core is told what it must know. */
	void (*gone)(struct front_conn *c);
};

/* Milliseconds. */
struct front_clocks {
	uint64_t startup; /* from accept to the session, and for a TLS handshake */
	uint64_t linger;  /* for the client to read the last words */
	uint64_t stall;	  /* without a byte that the client reads */
	uint64_t head;	  /* of an HTTP request, from its first byte to its last */
	uint64_t idle;	  /* between HTTP requests */
	uint64_t body;	  /* without a byte of an HTTP body that is waited for */
};

struct front_hub {
	struct loop *loop;
	struct front_clocks clocks;
	struct ipc *core, *upstream;
	struct front_listeners listeners;
	size_t nlisteners;
	struct front_leaves leaves; /* least recently made first */
	size_t nleaves;
	struct front_conns conns[FRONT_BUCKETS];
	struct front_queue dirty; /* have output to send, or are dead: seen to before each sleep */
	uint64_t last_id;
	bool stalled; /* some connection waits for a wire to drain */
};

struct front_msg {
	uint16_t type; /* 0 ends a table */
	int (*fn)(struct front_hub *h, struct rd *body, int *fds, struct err *err);
};

/* What a listener speaks: F_LISTEN's numbers. */
enum front_speaks {
	FRONT_POSTGRESQL = 1,
	FRONT_HTTP = 2,
	FRONT_HTTPS = 3,
	FRONT_PROXY = 4,
	FRONT_LOOP = 5, /* HTTP on a unix socket, outside the sandbox */
};

struct front_listener {
	LIST_ENTRY(front_listener) link;
	struct front_hub *hub;
	const struct front_proto *proto;
	uint32_t id;
	enum front_speaks kind;
	char *run, *target, *host;
	uint16_t port;
	int fd;
	struct acceptor *acceptor;
	size_t sockets, sessions, spooled;
	uint64_t cancels_since; /* PostgreSQL: cancel requests in the second from then */
	unsigned cancels;
};

enum front_phase {
	FRONT_OPEN = 1,
	FRONT_LEAF,  /* the certificate is on its way; what comes now belongs to the handshake */
	FRONT_CLEAR, /* the last bytes in clear are on their way out */
	FRONT_HANDSHAKE,
	FRONT_CLOSING, /* last words on their way out */
	FRONT_DEAD,
};

struct front_conn {
	LIST_ENTRY(front_conn) link;
	TAILQ_ENTRY(front_conn) queue;
	struct front_hub *hub;
	struct front_listener *listener; /* NULL once the connection is closing */
	const struct front_proto *proto;
	struct front_pg *pg; /* the protocol's own */
	struct front_http *http;
	uint64_t id;
	enum front_phase phase;
	bool queued;  /* in hub->dirty */
	bool blocked; /* reading has stopped: `in` is full */
	bool stalled; /* waits for a wire to drain */
	bool ended;   /* the client sends no more */
	bool shut;    /* our half of the stream is closed */
	bool counted; /* in listener->sessions */
	bool paused;  /* proto->pause told */
	struct tlsio io;
	struct front_tls_peer peer; /* what the handshake must agree with */
	struct str clear;	    /* static: goes out before the handshake */
	struct loop_io *ev;
	struct loop_timer *timer;
	uint64_t fires, deadline, moved; /* of timer; 0: none; when the client last read */
	struct buf in, out;
	size_t in_at, out_at;
};

/* --- front_hub.c */
struct front_hub *front_hub_new(struct loop *loop);
void front_hub_free(struct front_hub *h);
int front_hub_wire(struct front_hub *h, enum ipc_role peer, int fd, struct err *err);
void front_hub_core(struct front_hub *h, uint16_t type, const struct buf *body);
void front_hub_upstream(struct front_hub *h, uint16_t type, const struct buf *body);
/* To be looked at before the loop sleeps. */
void front_hub_queue(struct front_conn *c);
/* The peer behind that wire is behind: c is kicked when it has caught up. */
bool front_hub_busy(struct front_conn *c, const struct ipc *wire);
int front_hub_malformed(struct err *err);

/* --- front_listen.c */
struct front_listener_spec {
	uint32_t id;
	uint8_t proto; /* as in F_LISTEN */
	struct str run, target, host;
	uint16_t port;
};
int front_listen_add(struct front_hub *h, const struct front_listener_spec *s, int fd,
    struct err *err); /* takes fd */
struct front_listener *front_listen_find(struct front_hub *h, uint32_t id);
/* Listeners of the run (NULL: all) and their connections end. */
void front_listen_drop(struct front_hub *h, const struct str *run, enum front_why why);
/* That listener (0: none) and its connections end, and the run's tunnels to that place. */
void front_listen_revoke(
    struct front_hub *h, struct str run, uint32_t id, struct str host, uint16_t port);
/* One more connection of the run in use; false: there are FRONT_CONNS_MAX. */
bool front_listen_count(struct front_conn *c);

/* So many bytes more are kept for that connection; false: too many are already. */
bool front_listen_spool(struct front_listener *l, size_t n);
void front_listen_unspool(struct front_listener *l, size_t n);

/* --- front_leaf.c: keys and certificates, one for each run and host */
/* NULL: front_conn_leaf() will be called for all that have this host. */
struct ssl_ctx_st *front_leaf_get(struct front_listener *l, const char *host);
int front_leaf_on(
    struct front_hub *h, uint32_t listener, struct str host, struct str pem, struct err *err);
/* Of the run, or (NULL) all. */
void front_leaf_drop(struct front_hub *h, const struct str *run);

/* --- front_conn.c: sockets and buffers */
/* Takes fd. */
void front_conn_new(struct front_listener *l, int fd);
/* Of that protocol and not closing; NULL: no such connection. */
struct front_conn *front_conn_find(
    struct front_hub *h, uint64_t id, const struct front_proto *proto);
/* What has come and was not taken. */
struct str front_conn_in(const struct front_conn *c);
void front_conn_put(struct front_conn *c, struct str bytes);
/* The end once what was put is out, and in a way that lets the client read it. */
void front_conn_close(struct front_conn *c);
/* The end at once. The object lives on until the loop sleeps. */
void front_conn_end(struct front_conn *c);
/* The end at once, and so that the client sees the stream break off, if need be by a reset. */
void front_conn_cut(struct front_conn *c, bool reset);
/* TLS under that name as soon as its certificate is there, behind `clear` (static). */
void front_conn_secure(struct front_conn *c, const char *host, struct str clear);
/* The certificate came; NULL: there is none. */
void front_conn_leaf(struct front_conn *c, struct ssl_ctx_st *ctx);
/* proto->timeout in so many ms, instead of what was set before; 0: not at all. */
void front_conn_deadline(struct front_conn *c, uint64_t ms);
/* Input may be handled again: what is buffered, then what the socket holds. */
void front_conn_kick(struct front_conn *c);
/* Before sleep: write, resume the server, free when dead. */
void front_conn_service(struct front_conn *c);

#endif
