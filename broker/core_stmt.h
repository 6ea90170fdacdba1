/*
 * What the server has under which name on one connection: prepared statements (of the wire's
 * Parse and of SQL's PREPARE, which share one name space) and portals. An act changes an
 * overlay; the table follows when the server has answered. Where an error leaves it open
 * which of two texts the server holds, the name is unknown until it is made anew.
 */
#ifndef BROKER_CORE_STMT_H
#define BROKER_CORE_STMT_H

#include <sys/queue.h>

#include "broker/core_facts.h"

#define CORE_STMTS_MAX 256 /* names per connection, statements and portals together */
#define CORE_STMTS_BYTES ((size_t)4 << 20) /* of texts and parameters per connection */
#define CORE_NAME_MAX \
	63 /* bytes: the server compares no more (NAMEDATALEN - 1), so longer names would alias */

struct core_stmt {
	unsigned refs;
	char *text;
	size_t n;
	char *types; /* parameter type oids as in Parse: 4 bytes each */
	size_t ntypes_bytes;
	struct core_facts *facts;
};
struct core_stmt *core_stmt_new(struct str text, struct str types, struct core_facts *f);
struct core_stmt *core_stmt_ref(struct core_stmt *s);
void core_stmt_unref(struct core_stmt *s); /* NULL is fine */

enum core_name_kind { CORE_NAME_STMT, CORE_NAME_PORTAL };
struct core_name {
	TAILQ_ENTRY(core_name) link;
	enum core_name_kind kind;
	char *name;
	bool gone;		/* overlay only: closed */
	bool unknown;		/* table only: may be one of several */
	struct core_stmt *stmt; /* a portal of a statement that is not known: NULL */
	char *params;		/* portal: the Bind body behind its two names */
	size_t nparams;
};
TAILQ_HEAD(core_name_list, core_name);

struct core_stmts {
	struct core_name_list table, overlay; /* overlay: in the order of the act */
	size_t n, bytes;		      /* of both */
};
void core_stmts_init(struct core_stmts *s);
void core_stmts_free(struct core_stmts *s);

/* The newest meaning of a name; NULL when the server cannot have it, or ->unknown. */
const struct core_name *core_stmts_get(
    const struct core_stmts *s, enum core_name_kind kind, struct str name);
/* In the overlay. ERR_TOO_LARGE at a ceiling or for a name too long. Takes a reference of st (may
 * be NULL). */
int core_stmts_put(struct core_stmts *s, enum core_name_kind kind, struct str name,
    struct core_stmt *st, struct str params, struct err *err);
void core_stmts_close(struct core_stmts *s, enum core_name_kind kind, struct str name);
void core_stmts_close_all(struct core_stmts *s); /* DEALLOCATE ALL: each statement known */

/* The act went through whole / failed somewhere / was never sent. */
void core_stmts_commit(struct core_stmts *s);
void core_stmts_failed(struct core_stmts *s);
void core_stmts_rollback(struct core_stmts *s);
/* The transaction is over: no portal is left. */
void core_stmts_drop_portals(struct core_stmts *s);

#endif
