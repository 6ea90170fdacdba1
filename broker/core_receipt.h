/*
 * Receipts that go back with answers: of an action's record, once that is durable
 * (audit/receipt.h has their form).
 */
#ifndef BROKER_CORE_RECEIPT_H
#define BROKER_CORE_RECEIPT_H

#include "audit/receipt.h"
#include "broker/core_record.h"

struct core_act;
/* Of a record that is durable, whatever else became of it; else none (size 0). */
struct receipt core_receipt_of(const struct core_ack *ack);
/* The text; nothing where there is none. */
void core_receipt_put(const struct core *c, const struct receipt *r, struct buf *out);
/* As PG_DONE has them, u32 count and texts: of all actions of an exchange, if its client asked. */
void core_receipt_list(const struct core_act *act, struct buf *out);

#endif
