/*
 * What the parts of cofferdam-witness share: a directory with its key and, for each log that it
 * knows, that log's keys and the latest head it cosigned. The files are the only state: each
 * request reads them, and is answered when its new head is durable.
 */
#ifndef AUDIT_WITNESS_H
#define AUDIT_WITNESS_H

#include "audit/cosign.h"
#include "common/loop.h"
#include "common/secret.h"

#define WITNESS_EVIDENCE_MAX 64 /* kept of each log */

struct ssl_ctx_st;

/* --- witness_state.c ------------------------------------------------------------------ */

struct witness {
	int dir;
	int lock;
	struct cosigner me;
	struct secret *sk;
};
/* dir stays the caller's. ERR_EXISTS: another process serves it. */
int witness_open(int dir, struct witness *ret, struct err *err);
void witness_close(struct witness *w);
/* The body of an add-checkpoint: HTTP status, content and its type. now_s: what is signed. */
unsigned witness_add(struct witness *w, struct str body, uint64_t now_s, struct buf *out,
    const char **ret_type, struct err *err);

/* --- witness_http.c ------------------------------------------------------------------- */

struct witness_server;
/* Serves a listening socket, under TLS when ctx is given; takes both. */
struct witness_server *witness_serve(
    struct loop *loop, struct witness *w, int listen_fd, struct ssl_ctx_st *ctx);
void witness_server_free(struct witness_server *s);

#endif
