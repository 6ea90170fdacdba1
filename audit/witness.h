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

/* Kept of each log. */
#define WITNESS_PROVEN_MAX 64
#define WITNESS_UNPROVEN_MAX 8

struct ssl_ctx_st;

/* --- witness_state.c ------------------------------------------------------------------ */

/* Lines that whoever can send requests brings about: of each log one a minute. */
struct witness_told {
	uint64_t at_s; /* 0: none yet */
	uint64_t more; /* left out since */
};
struct witness_kept {
	struct witness_told unproven, unkept;
	unsigned turn; /* of what is not proven, once all places are taken */
};
struct witness {
	int dir;
	int lock;
	struct cosigner me;
	struct secret *sk;
	struct witness_kept kept[256]; /* by the first byte of the hash of a log's origin */
};
/* dir stays the caller's. ERR_EXISTS: another process serves it. */
int witness_open(int dir, struct witness *ret, struct err *err);
void witness_close(struct witness *w);
/* The body of an add-checkpoint: HTTP status, content and its type. now_s: what is signed. */
unsigned witness_add(struct witness *w, struct str body, uint64_t now_s, struct buf *out,
    const char **ret_type, struct err *err);

/* A file in a log's directory: whole and durable, or not at all. */
int witness_put_file(int dir, const char *name, struct str text, struct err *err);

/* --- witness_evidence.c --------------------------------------------------------------- */

/* A request that was refused, and what it says against the log (not COSIGN_NOTHING), is kept in
 * the log's directory, or it is said that it is not. */
void witness_keep(struct witness *w, const char *origin, int dir, struct str body,
    enum cosign_evidence what, const char *why, uint64_t now_s);

/* --- witness_http.c ------------------------------------------------------------------- */

struct witness_server;
/* Serves a listening socket, under TLS when ctx is given; takes both. */
struct witness_server *witness_serve(
    struct loop *loop, struct witness *w, int listen_fd, struct ssl_ctx_st *ctx);
void witness_server_free(struct witness_server *s);

#endif
