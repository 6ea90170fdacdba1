/*
 * Outcomes in doubt: actions that were sent and of which nobody knows whether they happened, until
 * a person has looked and says so (`cofferdam log reconcile`). Kept from the log's live records.
 */
#ifndef BROKER_CORE_DOUBT_H
#define BROKER_CORE_DOUBT_H

#include "broker/core_control.h"

struct core_doubts;

void core_doubt_reset(struct core *c); /* they are told anew */
/* Data of an action that the log shows as sent and without outcome. ERR_TAMPER, ERR_TOO_LARGE. */
int core_doubt_action(
    struct core *c, struct str run, uint64_t seq, const struct json *data, struct err *err);
bool core_doubt_lists(const struct buf *ids, const char *id); /* of CORE_ID_SIZE bytes each */
/* All such are told: each gets an outcome; this process may know better than "unknown". */
void core_doubt_settle(struct core *c);
/* An outcome in doubt (audit/outcome.h), durable as record seq. */
void core_doubt_outcome(struct core *c, struct str run, struct str time, uint64_t seq,
    struct str action, struct str status);
/* Verb: {"action","note","status"} to {"action","by","seq","status"}; status: done, not_done. */
int core_doubt_verb(struct core_call *call, struct err *err);
/* Member "doubts" of the status: how many, and the newest of them. */
void core_doubt_status(struct jcs *j, const struct core *c);

#endif
