/*
 * HTTP exchanges with servers: one request that core leased each, by libcurl on our loop, the
 * answer to front, the account of it to core. (conn, act) names an exchange on all wires.
 */
#ifndef BROKER_UPSTREAM_HTTP_H
#define BROKER_UPSTREAM_HTTP_H

#include "broker/upstream_files.h"
#include "common/buf.h"
#include "common/err.h"

#define UPSTREAM_HTTP_MAX 1024	     /* exchanges at once */
#define UPSTREAM_HTTP_BODIES 256     /* sealed bodies whose request has not come yet */
#define UPSTREAM_HTTP_IDLE_CONNS 64L /* connections kept open */
#define UPSTREAM_CA_FILE "/etc/ssl/certs/ca-certificates.crt"

struct upstream_hub;
struct upstream_http;

/* Directories of reference targets, by the names that broker.json gives them. */
#define UPSTREAM_DIRS_MAX 64
struct upstream_dirs {
	struct upstream_dir {
		char name[UPSTREAM_DIR_NAME_MAX + 1];
		int fd;
	} v[UPSTREAM_DIRS_MAX];
	size_t n;
};

/* Milliseconds. */
struct upstream_http_times {
	unsigned connect; /* from UH_SEND until the request can be written */
	unsigned first;	  /* from the last byte of the request to the first of the answer */
	unsigned idle;	  /* between bytes, while front takes them */
	unsigned expect;  /* for 100 Continue; then the body is sent all the same */
	unsigned keep;	  /* a connection that nobody uses */
	unsigned stream;  /* without a byte of a stream behind a 101, in either direction */
	unsigned half;	  /* the same once its client has ended */
	unsigned settle;  /* that a stream's bytes wait for more, since they may begin a secret */
};
#define UPSTREAM_HTTP_TIMES                             \
	((struct upstream_http_times){.connect = 20000, \
	    .first = 600000,                            \
	    .idle = 300000,                             \
	    .expect = 1000,                             \
	    .keep = 30000,                              \
	    .stream = 3600000,                          \
	    .half = 30000,                              \
	    .settle = 50})

/* Before confinement, once in a process. The hub must outlive it. */
int upstream_http_new(
    struct upstream_hub *hub, const char *ca_file, struct upstream_http **ret, struct err *err);
void upstream_http_free(struct upstream_http *h); /* NULL is fine */
/* They must outlive it. */
void upstream_http_dirs(struct upstream_http *h, const struct upstream_dirs *dirs);
void upstream_http_times(struct upstream_http *h, const struct upstream_http_times *times);

/* A message of core or front; takes fds[0] when it needs it. *ret_taken: it was one of these. */
int upstream_http_message(struct upstream_http *h, uint16_t type, struct rd *body, int *fds,
    bool *ret_taken, struct err *err);
/* A frame to the writer; false: there is no wire. ret_at: for seal_left. */
bool seal_frame(struct upstream_http *h, struct str frame, uint64_t *ret_at);
/* It has left this process. False also where the wire was lost: no record may name it. */
bool seal_left(const struct upstream_http *h, uint64_t at);
void upstream_http_writer(struct upstream_http *h, int fd); /* the wire to the writer; takes fd */
/* A wire is gone: nobody is left to ask or to answer. */
void upstream_http_end_all(struct upstream_http *h, const char *why);
void upstream_http_before_sleep(struct upstream_http *h);

/* System calls that HTTP needs confined, NULL last; those of PostgreSQL and the resolver too. */
extern const char *const upstream_syscalls[];

#endif
