/*
 * An HTTP/1.1 server for programs that a person starts (cofferdam-mcp, cofferdam-sandboxd): a
 * listener that forks a worker for each connection. A worker reads one request at a time, strictly
 * (common/http.h), and blocks, always with a deadline, so a handler is straight code; it may stream
 * its answer and learns when its client has gone. What one worker does, however it ends, touches
 * no other; what must outlive a connection is begun by the listener (struct serve_hook).
 */
#ifndef COMMON_SERVE_H
#define COMMON_SERVE_H

#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/http.h"

#define SERVE_HEAD_MAX ((size_t)32768)
#define SERVE_WORKERS_DEFAULT 128
#define SERVE_WORKERS_MAX 1024
/* Milliseconds; what comes in between prolongs nothing. */
#define SERVE_REQUEST_MS 15000 /* TLS, or the first byte of a head, to its last */
#define SERVE_IDLE_MS 60000    /* between requests */
#define SERVE_STALL_MS 30000   /* a body that does not go on, an answer that is not taken */

/* All borrowed until serve_close. */
struct serve_config {
	const char *listen;	/* "ADDRESS:PORT", "[V6]:PORT", ":PORT" is 127.0.0.1; port 0: any */
	const char *option;	/* what messages call it: "--listen" */
	const char *cert, *key; /* PEM files. Without them only loopback addresses are served */
	const char *client_ca;	/* PEM: clients must have a certificate of these; needs cert */
	size_t workers; /* at once; 0: the default. One more ends who has been idle longest */
};

/* Runs in the listener, beside its connections. Any may be NULL; fd -1: none. */
struct serve_hook {
	int fd; /* when readable, ready is called: to fork what outlives a connection */
	void (*ready)(void *arg);
	/* In a child that ready forks, first of all: serve_forked. */
	void (*reaped)(void *arg, pid_t pid, int status); /* a child that is no worker */
	void *arg;
};

struct serve;
struct serve_conn;
/* ERR_INVALID, ERR_CONFIG name the option or file. Clear text beyond loopback is refused. */
int serve_open(const struct serve_config *c, struct serve **ret, struct err *err);
/* "http://127.0.0.1:8931": with the port that was really bound. */
const char *serve_url(const struct serve *s);
bool serve_is_tls(const struct serve *s);
void serve_close(struct serve *s);
DEFINE_AUTO(serve, struct serve, serve_close)

/*
 * One request, in a worker: it must be answered (500 else). What is left of its body is dropped.
 * Its fn is called again for the connection's next request. A worker dies with the listener.
 */
typedef void serve_fn(void *arg, struct serve_conn *c);
/* Until SIGTERM or SIGINT, which end the workers too: 0. */
int serve_run(
    struct serve *s, serve_fn *fn, void *arg, const struct serve_hook *hook, struct err *err);

/* Signals as they were, the listening socket closed. */
void serve_forked(const struct serve *s);

/* --- in a worker ------------------------------------------------------------------- */

/* Good until the handler returns. */
const struct http_request *serve_request(const struct serve_conn *c);
struct str serve_field_get(const struct serve_conn *c, const char *name); /* "": it is not there */
const char *serve_peer(const struct serve_conn *c);			  /* its address, as text */
/* Under client_ca: "sha256:" and the fingerprint of the client's certificate in hex; else "". */
const char *serve_client(const struct serve_conn *c);

/* The whole body into *ret, up to max bytes. ERR_TOO_LARGE, ERR_SYNTAX, ERR_TIMEOUT,
 * ERR_UNAVAILABLE (the client has gone). Answers "100 Continue" where it is waited for. */
int serve_body(struct serve_conn *c, size_t max, struct buf *ret, struct err *err);
/* The next run of it, borrowed until the next call; 1: that was the last (it may be empty), 0:
 * there is more. Errors as above; the caller counts. */
int serve_body_next(struct serve_conn *c, struct str *ret, struct err *err);

/* A field of the answer that comes next; before serve_answer or serve_stream. */
void serve_field(struct serve_conn *c, const char *name, struct str value);
/* The connection ends behind the answer. */
void serve_last(struct serve_conn *c);
/* A whole answer. `type` NULL: no content type. All of these: ERR_UNAVAILABLE, ERR_TIMEOUT when the
 * client does not take it; the connection is over then, whatever the handler does. */
int serve_answer(
    struct serve_conn *c, unsigned status, const char *type, struct str content, struct err *err);
/* An answer of unknown length, each piece sent at once; serve_end ends it well. A handler that
 * returns without serve_end cuts the connection, so that the client sees it was not whole. */
int serve_stream(struct serve_conn *c, unsigned status, const char *type, struct err *err);
int serve_put(struct serve_conn *c, struct str piece, struct err *err);
int serve_end(struct serve_conn *c, struct err *err);
bool serve_answered(const struct serve_conn *c); /* it was begun */

/*
 * The client closed its side, or the connection broke. To be asked when serve_fd is readable (under
 * TLS that may mean nothing); bytes of a next request are kept for it.
 */
bool serve_gone(struct serve_conn *c);
int serve_fd(const struct serve_conn *c);

#endif
