/*
 * PostgreSQL protocol 3.0 as bytes: framing, the start-up packets, what one front-end
 * message must look like, and building the few messages the broker makes itself. Pure;
 * used by front (hostile clients), upstream (servers) and core. Layouts: PostgreSQL 15
 * documentation 55.7 (message formats) and 55.8 (error fields).
 */
#ifndef COMMON_PGWIRE_H
#define COMMON_PGWIRE_H

#include "common/buf.h"
#include "common/err.h"

#define PGWIRE_STARTUP_MAX 10000 /* bytes, as PostgreSQL's MAX_STARTUP_PACKET_LENGTH */
#define PGWIRE_STARTUP_PARAMS 64
#define PGWIRE_MESSAGE_MAX ((size_t)1 << 20)  /* one client message, type and length included */
#define PGWIRE_UNIT_BYTES ((size_t)512 << 10) /* collected extended messages: cut beyond this */
#define PGWIRE_UNIT_MESSAGES 256
#define PGWIRE_HOLD_MAX ((size_t)8 << 20) /* answer bytes withheld for one act */
#define PGWIRE_V3 0x00030000u

enum pgwire_startup_kind {
	PGWIRE_STARTUP_NONE = 0,
	PGWIRE_STARTUP_SSL,
	PGWIRE_STARTUP_GSS,
	PGWIRE_STARTUP_CANCEL,
	PGWIRE_STARTUP_V3,
};
struct pgwire_param {
	struct str key, value;
};
struct pgwire_startup {
	enum pgwire_startup_kind kind;
	uint32_t version; /* V3: as sent, e.g. 0x00030002 */
	uint32_t cancel_pid;
	struct str cancel_key; /* borrowed; of any length that protocol 3.2 allows */
	size_t n;
	struct pgwire_param
	    params[PGWIRE_STARTUP_PARAMS]; /* borrowed; "_pq_." ones are in options */
	size_t noptions;
	struct str options[PGWIRE_STARTUP_PARAMS]; /* names of protocol extensions asked for */
};
/*
 * One start-up packet at the head of `in`: its length in bytes, 0 when more is needed, or
 * an error (ERR_PROTOCOL, ERR_TOO_LARGE, ERR_UNSUPPORTED: not version 3).
 */
int pgwire_startup_parse(struct str in, struct pgwire_startup *ret, struct err *err);

struct pgwire_msg {
	char type;
	struct str whole; /* type, length, body */
	struct str body;
};
/* One typed message at the head of `in`: 1, 0 when more is needed, or an error; `max` bounds it
 * whole. */
int pgwire_next(struct str in, size_t max, struct pgwire_msg *ret, struct err *err);
/* 0 when the type is a front-end one (Q P B D E C S H F X d c f p) and the body is exactly of its
 * layout. */
int pgwire_check_frontend(const struct pgwire_msg *m, struct err *err);

/* Where in a stream of whole messages we are, when the bytes come in any pieces. */
struct pgwire_track {
	size_t left; /* of the body */
	uint8_t head[5];
	uint8_t nhead;
};
/* False when a length is impossible. */
bool pgwire_track_add(struct pgwire_track *t, struct str bytes);
bool pgwire_track_boundary(const struct pgwire_track *t);

struct pgwire_error {
	struct str severity, sqlstate, message, detail,
	    hint; /* severity: 'V', or 'S' of old servers */
};
/* Body of an ErrorResponse or NoticeResponse. */
int pgwire_error_parse(struct str body, struct pgwire_error *ret, struct err *err);
/* Empty detail or hint: no such field. NULs in the texts end them. */
void pgwire_put_error(struct buf *b, const char *severity, const struct pgwire_error *e);
void pgwire_put_notice(struct buf *b, struct str message); /* of SQLSTATE 00000 */

void pgwire_put_ready(struct buf *b, char txn);
void pgwire_put_auth_ok(struct buf *b);
void pgwire_put_parameter(struct buf *b, struct str key, struct str value);
void pgwire_put_key_data(struct buf *b, uint32_t pid, uint32_t key);
void pgwire_put_negotiate(struct buf *b, const struct str *options, size_t n);
void pgwire_put_ssl_request(struct buf *b);
/* `key` as BackendKeyData had it: process id and secret. */
void pgwire_put_cancel(struct buf *b, struct str key);
void pgwire_put_startup(struct buf *b, const struct pgwire_param *params, size_t n);
void pgwire_put_sasl_first(struct buf *b, const char *mechanism, struct str data);
void pgwire_put_sasl(struct buf *b, struct str data);
void pgwire_put_query(struct buf *b, struct str sql);
void pgwire_put_parse(struct buf *b, struct str name, struct str sql);
/* Parse, Bind, Execute, Close of a named statement and portal: leaves the client's unnamed ones
 * alone. */
void pgwire_put_own_statement(struct buf *b, struct str name, struct str sql);
/*
 * The same with parameters: `types` raw type numbers of a Parse, `values` a Bind's formats and
 * values as they stand there; the result comes as text.
 */
void pgwire_put_own_bound(
    struct buf *b, struct str name, struct str sql, struct str types, struct str values);
void pgwire_put_sync(struct buf *b);
void pgwire_put_flush(struct buf *b);
void pgwire_put_copy_data(struct buf *b, struct str data);
void pgwire_put_copy_done(struct buf *b);
void pgwire_put_copy_fail(struct buf *b, struct str why);
void pgwire_put_terminate(struct buf *b);

/* "DELETE 12" -> "DELETE", 12; "INSERT 0 3" -> "INSERT", 3; a tag without a count: false. */
bool pgwire_tag_rows(struct str tag, struct str *ret_verb, uint64_t *ret_rows);
/* A string up to and including its NUL at the head of r; r->bad when there is none. */
struct str pgwire_rd_z(struct rd *r);

#endif
