/*
 * Erasure: the keys of runs are destroyed, and with them what was sealed of these runs. The record
 * of it is durable first; a journal beside the keys makes it certain that one follows the other.
 */
#ifndef BROKER_CORE_ERASE_H
#define BROKER_CORE_ERASE_H

#include "broker/core_control.h"

/*
 * Verb of the control socket, for root and the broker's own user alone: {"id"?,"reason","runs",
 * "subject"} to {"destroyed","gone","id","seq"}; id: of an erasure that takes several records.
 */
int core_erase_verb(struct core_call *call, struct err *err);
/* The log is there again: go on with what the journal says was begun. */
void core_erase_settle(struct core *c);
void core_erase_free(struct core *c);

#endif
