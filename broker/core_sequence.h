/*
 * What of one transaction needs people is one request: its statements in their order, shown and
 * signed as one, used as one. A request for one statement is such a sequence of one step.
 */
#ifndef BROKER_CORE_SEQUENCE_H
#define BROKER_CORE_SEQUENCE_H

#include "broker/core_approve.h"

enum core_use {
	CORE_USE_NOT = 0, /* asked for, or approved as part of a whole that was not begun here */
	CORE_USE_FIRST,	  /* armed: the action is its first step */
	CORE_USE_NEXT,	  /* used by this transaction: the action is the step that follows */
};

/* The request that a is a step of, and what may be done with it now; NULL: none. */
struct core_request *core_sequence_find(
    const struct core_from *f, const struct core_action *a, enum core_use *ret_use);
/* What rq has to say of a and of the steps before it in its transaction. */
void core_sequence_fill(
    struct core_request *rq, const struct core_from *f, const struct core_action *a);
/* rq is durable: requests for its first steps alone, which nobody has signed, are of no use. */
void core_sequence_covers(const struct core_request *rq);
#define CORE_COVERED "covered by " /* and the id: why such a request is void */

#endif
