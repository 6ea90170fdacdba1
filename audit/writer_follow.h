/*
 * The writer's wire to the courier, which reads along: durable records by sequence, of the types it
 * asks for, a bounded piece at each question. Nobody waits for it: between two pieces the writer
 * does its own work.
 */
#ifndef AUDIT_WRITER_FOLLOW_H
#define AUDIT_WRITER_FOLLOW_H

#include "audit/writer_store.h"
#include "common/ipc.h"

#define FOLLOW_READERS 16
#define FOLLOW_PATTERNS 64
#define FOLLOW_START UINT64_MAX /* "from the size at the writer's start" */

struct follow;
struct witnesses;
/* What has left the machine, as the courier says: the body of a W_DELIVERED. */
typedef void follow_took_fn(void *arg, const struct buf *body);

/* logdir, store and witnesses (NULL: none) stay the caller's. */
struct follow *follow_new(struct loop *loop, int logdir, const struct store *s,
    follow_took_fn *took, void *arg, struct witnesses *witnesses);
void follow_free(struct follow *f); /* NULL is fine */
/* The courier's new wire; takes fd. */
void follow_wire(struct follow *f, int fd);
/* A W_CARRY for the courier, if it is there. */
void follow_carry(struct follow *f, const struct buf *body);
/* More records are durable. */
void follow_committed(struct follow *f);
/* What the courier has said so far, again: for a core that has just come. */
void follow_tell(const struct follow *f);

#endif
