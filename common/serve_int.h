/* Between the files of serve.h: the listener (serve.c), a worker's connection (serve_conn.c,
 * serve_answer.c) and TLS (serve_tls.c). */
#ifndef COMMON_SERVE_INT_H
#define COMMON_SERVE_INT_H

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "common/serve.h"
#include "common/tlsio.h"

struct ssl_ctx_st;

#define SERVE_ADDRESS_SIZE 64 /* "[v6]:port" and NUL */
#define SERVE_CLIENT_SIZE 72  /* "sha256:", 64 hex digits, NUL */

/* Shared memory: what the listener knows of a worker. */
struct serve_slot {
	_Atomic pid_t pid;
	_Atomic uint64_t waits_us; /* has had no whole request since then; 0: it is at one */
};

struct serve {
	char *url;
	int fd;
	bool loopback;
	uint16_t port;
	size_t max, n;
	struct serve_slot *slots;
	struct ssl_ctx_st *ctx; /* NULL: clear text */
	bool client_ca;
	sigset_t mask; /* as the program had it */
};

struct serve_conn {
	struct tlsio io;
	struct serve_slot *slot;
	bool loopback;			/* came in at a loopback address */
	char peer[SERVE_ADDRESS_SIZE];	/* address alone */
	char local[SERVE_ADDRESS_SIZE]; /* ours, alone */
	uint16_t port;			/* ours */
	char client[SERVE_CLIENT_SIZE];

	struct buf in;	 /* what was read and is not used yet */
	size_t used;	 /* of it, by the run of the body that the handler has in hand */
	struct buf head; /* the request points into it */
	struct http_request rq;
	struct http_reader body;
	bool body_done, expects;

	struct buf fields; /* of the answer to come */
	bool answered, streams, chunked, last, dead;
};

/* serve_tls.c */
int serve_tls_context(const struct serve_config *c, struct ssl_ctx_st **ret, struct err *err);
void serve_tls_context_free(struct ssl_ctx_st *ctx);
/* Server's side of a connection; dies when OpenSSL has no memory. */
void serve_tls_begin(struct ssl_ctx_st *ctx, struct tlsio *io);
void serve_tls_client(const struct tlsio *io, char out[SERVE_CLIENT_SIZE]);

/* serve_conn.c: a worker's whole life with one connection; takes fd. */
void serve_conn_run(struct serve *s, struct serve_slot *slot, int fd, serve_fn *fn, void *arg);
/* Waits until the stream can be read or written to. ERR_TIMEOUT behind `until_us` (clock_boot_us).
 */
int serve_conn_wait(struct serve_conn *c, bool read, uint64_t until_us, struct err *err);

/* serve_answer.c: a refusal of our own, after which the connection ends. */
void serve_refuse(struct serve_conn *c, unsigned status, const char *why);
int serve_continue(struct serve_conn *c, struct err *err); /* "100 Continue" */

#endif
