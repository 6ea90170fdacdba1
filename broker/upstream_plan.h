/*
 * What a server owes for the messages it was sent: the list of terminal replies, counted
 * off as they come. Pure. A reply that is not owed is a protocol error, so that a confused
 * or lying server cannot shift one statement's answer to the next.
 */
#ifndef BROKER_UPSTREAM_PLAN_H
#define BROKER_UPSTREAM_PLAN_H

#include "common/err.h"
#include "common/pgwire.h"

/* PG_ACT's and U_SEND's kind. */
enum act_kind { ACT_QUERY = 1, ACT_SYNC = 2, ACT_FLUSH = 3, ACT_CUT = 4 };

#define UPSTREAM_PLAN_MAX \
	(2 * PGWIRE_UNIT_MESSAGES + 32) /* a Describe owes two; the rest is ours */

struct upstream_plan {
	uint16_t n, at;
	bool copying;  /* inside COPY TO STDOUT */
	bool filling;  /* inside COPY FROM STDIN: the server waits for data */
	bool failed;   /* an ErrorResponse came */
	bool skip;     /* ... and no Sync is owed: the server ignores all until the next one */
	bool executes; /* a Query, Execute or FunctionCall is among them */
	char owed[UPSTREAM_PLAN_MAX];
};

/* Append what the messages in `s` (whole ones) make the server owe. ERR_PROTOCOL: broken or
 * unknown. */
int upstream_plan_add(struct upstream_plan *p, struct str s, struct err *err);
bool upstream_plan_done(const struct upstream_plan *p);

enum upstream_step {
	UPSTREAM_STEP_BAD = 0, /* not owed */
	UPSTREAM_STEP_BODY,    /* belongs to an answer that goes on */
	UPSTREAM_STEP_TAIL,    /* ends a statement, or an error, or ReadyForQuery */
	UPSTREAM_STEP_COPY_IN, /* the server asks for data */
};
/* Count one reply. NoticeResponse, ParameterStatus and NotificationResponse are not counted here.
 */
enum upstream_step upstream_plan_step(struct upstream_plan *p, char type);
/* The end of the data was sent: the statement's own end is owed again. */
void upstream_plan_filled(struct upstream_plan *p);

#endif
