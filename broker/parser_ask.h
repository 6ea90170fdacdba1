/* One question of core to the parser process, and what a question may cost. */
#ifndef BROKER_PARSER_ASK_H
#define BROKER_PARSER_ASK_H

#include "common/ipc.h"

/* Of the processor; over it the process dies, and core refuses the text. The sanitizers make it
 * slower. */
#ifdef MODE_SANITIZED
#define PARSER_TEXT_MS 1000
#else
#define PARSER_TEXT_MS 200 /* per text */
#endif
#define PARSER_BODY_MS (5 * PARSER_TEXT_MS) /* per body, which may be 16 MiB */
#define PARSER_STALL_MS 4000		    /* of the wall's clock, for either; core waits longer */
#define PARSER_STACK ((size_t)64 << 20)
#define PARSER_STACK_LEAST ((size_t)8 << 20)
#define PARSER_MEMORY ((size_t)512 << 20)
#define PARSER_CPU_S 300 /* of the whole life of the process; the parent starts another */

enum { PARSER_OK = 0, PARSER_INVALID = 1, PARSER_TOO_COMPLEX = 2 }; /* X_FACTS status */
enum {
	PARSER_DIALECT_POSTGRESQL = 1, /* X_ASK */
	PARSER_DIALECT_GRAPHQL = 2,    /* X_ASK: a query string; X_BODY */
	PARSER_DIALECT_FORM = 3,       /* X_BODY */
	PARSER_DIALECT_K8S = 4,	       /* X_BODY */
	PARSER_DIALECT_GIT = 5,	       /* X_BODY: the start of a push */
	PARSER_DIALECT_AWS = 6,	       /* X_ASK: a query string; X_BODY */
	PARSER_DIALECT_MCP = 7,	       /* X_BODY */
	PARSER_DIALECT_REDIS = 8,      /* X_ASK */
	PARSER_DIALECT_COUNT = 9,      /* X_ASK: SQL, and the answer is a query that counts */
};

/* Stack, and the clock's signal; before anything is parsed. */
int parser_limits_early(struct err *err);
/* Kills this process once `ms` of its processor time, or PARSER_STALL_MS, are over; 0: it does not.
 */
int parser_clock(unsigned ms, struct err *err);
/* Memory and CPU time; before seccomp, after the last descriptor came. */
int parser_limits(struct err *err);
/* ipc_msg_fn of the wire to core: X_ASK and X_BODY in, X_FACTS out. */
int parser_ask(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err);

#endif
