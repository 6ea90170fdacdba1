/*
 * cofferdam-upstream started under the name cofferdam-rerun: answers from a file what was answered
 * when the run was recorded. Then it has no system call to make a socket with, no resolver and no
 * TLS, so that nothing of a run that is run again can reach anything.
 */
#ifndef BROKER_UPSTREAM_RERUN_H
#define BROKER_UPSTREAM_RERUN_H

#include "common/hash.h"
#include "common/ipc.h"
#include "common/rerun.h"

#define RERUN_PROGRAM "cofferdam-rerun"
int rerun_main(void); /* upstream_rerun_hub.c */

/* --- upstream_rerun_answers.c */
struct rerun_entry { /* borrowed from the file */
	enum rerun_kind kind;
	enum rerun_how how;
	bool sent_known, served, ok;
	struct hash sent;
	struct str host, match, tag, sqlstate, message, detail, hint, fields, answer;
	uint32_t port, nfields;
	uint16_t http_status;
	uint64_t rows;
};
struct rerun_answers;
/* Takes fd. ERR_PROTOCOL: not of the form. */
int rerun_answers_read(int fd, struct rerun_answers **ret, struct err *err);
void rerun_answers_free(struct rerun_answers *a);
/* The first entry of that place that was not served and that `is` says yes to; served from now on.
 * NULL: none. */
struct rerun_entry *rerun_answers_next(struct rerun_answers *a, enum rerun_kind kind,
    struct str host, uint32_t port, bool (*is)(const void *arg, const struct rerun_entry *e),
    const void *arg);

/* --- upstream_rerun_hub.c */
struct rerun_conn;
struct rerun_exchange;
struct rerun_hub {
	struct loop *loop;
	struct ipc *core, *front;
	struct rerun_answers *answers;
	struct rerun_conn *conns;
	struct rerun_exchange *exchanges;
	struct {
		uint64_t conn, act;
		int fd; /* -1: none */
	} body;
};
int rerun_hub_wire(struct rerun_hub *h, enum ipc_role peer, int fd, struct err *err);
void rerun_hub_end(struct rerun_hub *h);

/* --- upstream_rerun_pg.c, upstream_rerun_http.c: messages, as the table in rerun_hub.c names them
 */
typedef int rerun_fn(struct rerun_hub *h, struct rd *body, int *fds, struct err *err);
rerun_fn rerun_pg_open, rerun_pg_send, rerun_pg_close, rerun_pg_cancel;
rerun_fn rerun_http_body, rerun_http_send, rerun_http_abort, rerun_http_front;
void rerun_pg_end(struct rerun_hub *h);
void rerun_http_end(struct rerun_hub *h);

#define RERUN_FRAME ((size_t)64 << 10) /* of an answer, on the wire to front */
#define RERUN_MISSING_TEXT "replay: the answer to this was not recorded"

#endif
