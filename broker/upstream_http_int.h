/* Inside of HTTP exchanges, shared by the upstream_http*.c files alone. */
#ifndef BROKER_UPSTREAM_HTTP_INT_H
#define BROKER_UPSTREAM_HTTP_INT_H

#include <curl/curl.h>
#include <sys/queue.h>

#include "broker/upstream.h"
#include "broker/upstream_files.h"
#include "broker/upstream_http.h"
#include "broker/upstream_http_answer.h"
#include "broker/upstream_http_body.h"
#include "broker/upstream_http_tls.h"
#include "broker/upstream_multi.h"
#include "common/secret.h"

#define EXCHANGE_BUCKETS 256

/* The numbers of UH_DONE. */
enum exchange_end {
	END_NONE = 0,
	END_WHOLE = 1,
	END_NO_ANSWER = 2, /* may have been sent */
	END_BROKEN = 3,
	END_BODY = 4, /* not as leased */
	END_NOT_SENT = 5,
};

enum exchange_state { X_RESOLVING = 0, X_RUNNING, X_SEALING, X_DEAD };

/* The forward proxy of a lease. */
struct exchange_proxy {
	enum lease_via kind;
	char *host, *user;
	uint16_t port;
	struct secret *secret; /* NULL: it asks for none */
	struct x509_store_st *store;
	struct curl_slist *fields;
	unsigned layers; /* of TLS, begun on the connection being made: the first is its own */
};

struct exchange {
	LIST_ENTRY(exchange) link;   /* by conn */
	TAILQ_ENTRY(exchange) order; /* while X_SEALING */
	struct upstream_http *h;
	uint64_t conn, act;
	enum exchange_state state;

	/* Of the lease. */
	char *run, *host, *method;
	uint16_t port;
	bool tls, credential, fresh, waits; /* waits: for 100 Continue */
	struct upstream_net nets[UPSTREAM_NETS_MAX];
	size_t nnets;
	struct hash lease, pin; /* pin: of run, place and CA, later of the addresses too */
	struct x509_store_st *store;
	struct buf target;
	struct curl_slist *fields, *resolve, *via;
	struct exchange_proxy proxy;
	struct body *body;
	struct answer *answer;
	struct look *look; /* NULL: its answer goes to front */

	struct stream *stream; /* it asks to switch protocols; NULL: it does not */
	struct files *files; /* it is answered from a directory, not by a server; NULL: it is not */
	struct loop_timer *files_turn;

	/* On its way. */
	struct resolve *query;
	struct resolve_addr addrs[RESOLVE_ADDRS_MAX];
	size_t naddrs;
	CURL *easy;
	char text[CURL_ERROR_SIZE]; /* libcurl's words */
	bool sent;		    /* bytes of the request may have left */
	bool repeated;		    /* a read whose kept connection was gone */
	bool dirty;		    /* the kept connection that was chosen is not fit */
	int fd;			    /* dialled; -1: not, or noted */
	bool hold, throttled, recv_paused, send_paused;
	bool silent; /* its clock ended it */
	bool wake;   /* sending goes on, or ends, when libcurl is not on the stack */
	struct loop_timer *tick, *expect;
	uint64_t active; /* ms, of the last byte */
	char peer[64], cert[HASH_HEX_SIZE];

	/* Its end. */
	enum exchange_end end;
	struct err why;
	struct buf done; /* UH_DONE but for its last string */
	struct buf blob; /* that string */
	bool sealed;
	uint64_t frame_at; /* bytes on the wire to the writer when its frame is there */
};

LIST_HEAD(exchanges, exchange);
TAILQ_HEAD(exchange_queue, exchange);

/* A connection of libcurl's that got to its first request. */
struct upstream_http_sock {
	int fd;
	uint16_t local, peer; /* ports */
	char *run, *host;     /* whose, and of which target */
	uint16_t port;
	const struct exchange *user; /* NULL: kept */
	uint64_t since;		     /* ms, not used */
};

struct upstream_http {
	struct upstream_hub *hub;
	struct upstream_http_times times;
	struct exchanges bucket[EXCHANGE_BUCKETS];
	struct exchange_queue sealing;
	size_t count;
	struct stores *stores;
	struct scrub_sets *scrubs;
	struct loop_timer *sweep; /* of the scrubs, while there are any */
	struct {
		uint64_t conn, act;
		int fd;
	} bodies[UPSTREAM_HTTP_BODIES];
	size_t nbodies;

	struct multi multi;
	struct upstream_http_sock *socks;
	size_t nsocks;
	struct loop_timer *kept; /* while one of them may be */

	const struct upstream_dirs *dirs; /* of reference targets; NULL: none */

	struct ipc *writer;
	uint64_t writer_bytes; /* sent on that wire so far */
};

/* --- upstream_http.c */
/*
 * The end of an exchange, from outside libcurl's callbacks: what is open is closed, front and core
 * are told. The object lives on until the loop sleeps.
 */
void exchange_end(struct exchange *x, enum exchange_end end, const char *why);
/* From inside: what the transfer, which the caller makes fail, ends with. The first one stays. */
void exchange_fail(struct exchange *x, enum exchange_end end, const struct err *err);
/* From here on it is found, and has so long to connect. */
void exchange_add(struct exchange *x);

/* --- upstream_http_open.c: from a lease to a transfer; takes fd. look: UH_LOOK */
void exchange_open(struct upstream_http *h, const struct upstream_lease *l, int fd, bool look);

/* --- upstream_http_files.c: answers from a directory */
void exchange_files_begin(struct exchange *x, const struct upstream_lease *l);
void exchange_files_resume(struct exchange *x);
void exchange_files_drop(struct exchange *x);

/* --- upstream_http_stream.c: requests for another protocol, without libcurl's HTTP */
struct stream *stream_new(void);
void stream_free(struct stream *s); /* NULL is fine */
/* Its own: libcurl would close a connection that it does not use itself for another transfer's
 * sake. NULL: there is none. */
struct multi *stream_multi(struct exchange *x);
/* It is connected: the request goes out. */
void stream_begin(struct exchange *x);
/* Its socket is not looked at any more, before libcurl closes it. */
void stream_drop(struct exchange *x);
/* What waited for front goes on. */
void stream_resume(struct exchange *x);
/* Front sent what it may not. */
void stream_over(struct exchange *x, const char *why);
unsigned stream_limit(const struct exchange *x); /* ms that it may be silent now */
uint8_t stream_ended(const struct exchange *x);	 /* as UH_DONE has it */

/* --- upstream_http_look.c: answers for core alone */
struct look *look_new(void);
void look_free(struct look *k);					  /* NULL is fine */
void look_take(void *arg, uint16_t type, const struct buf *body); /* answer_send_fn */
/* More than a look may have: nothing else is read. */
bool look_is_over(const struct look *k, struct err *err);
void look_tell(const struct exchange *x); /* UH_LOOKED */

/* --- upstream_http_send.c: one transfer */
int transfer_start(struct exchange *x, struct err *err);
void transfer_drop(struct exchange *x);
/* libcurl says it is over. */
void transfer_done(struct exchange *x, CURLcode result);
/* Pauses as they are wanted now. */
void transfer_resume(struct exchange *x);
void transfer_credit(struct exchange *x);
/* Those it may dial, without ports, "," between them, and a zero byte. */
void transfer_put_addresses(const struct exchange *x, struct buf *out);
/* An option of its libcurl handle: whether that takes it. */
#define SET(x, option, value) (curl_easy_setopt((x)->easy, (option), (value)) == CURLE_OK)

/* --- upstream_http_proxy.c: the way through the lease's forward proxy */
/* pin: what connections are kept under. False: libcurl does not take it. */
bool proxy_set(struct exchange *x, const char *pin);
/* It failed before the proxy had let it through. */
bool proxy_failed(const struct exchange *x);
/* ... and why, in words for the record and the client. */
void proxy_explain(const struct exchange *x, CURLcode result, struct buf *out);

/* --- upstream_http_sock.c: which sockets its connections have */
void sock_note(const struct exchange *x, int fd, uint16_t local, uint16_t peer); /* ports */
/* The exchange is over, or goes on with another one: what it used is kept for so long as `keep`
 * says, then ended; libcurl alone would look at it when the next transfer begins. */
void sock_release(const struct exchange *x);
int sock_close(void *h, curl_socket_t fd);
/* UH_FORGET: none of these is used again. host as the policy has it, "*.NAME" of a wildcard. */
void sock_forget(struct upstream_http *h, struct str run, struct str host, uint16_t port);
/*
 * A kept connection on which bytes or an end have come since is no place for a request: what an
 * origin said unasked would be taken for the answer, and so on with each that follows.
 */
bool sock_is_clean(const struct exchange *x, uint16_t local, uint16_t peer);

/* --- upstream_http_loop.c: libcurl, with memory that is wiped */
int transfers_init(struct upstream_http *h, struct err *err);
void transfers_free(struct upstream_http *h);

/* --- upstream_http_seal.c: the writer and the last word to core */
void seal_begin(struct exchange *x);
/* Sends UH_DONE of those whose frame has left. */
void seal_settle(struct upstream_http *h);
void seal_writer(struct upstream_http *h, int fd);

#endif
