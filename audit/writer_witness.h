/*
 * The writer's side of witnesses (C2SP tlog-witness): which heads they cosigned, kept as wit/SIZE;
 * what they refuse, kept as evidence/NN. The courier carries requests and answers; what is asked is
 * made here and what comes back is believed only as far as it verifies.
 */
#ifndef AUDIT_WRITER_WITNESS_H
#define AUDIT_WRITER_WITNESS_H

#include "audit/cosign.h"
#include "audit/writer_follow.h"
#include "common/json.h"
#include "common/loop.h"

struct witnesses;

/* The array "witnesses" of the writer's configuration: key lines. */
int witnesses_config(const struct json *list, struct cosigners *ret, struct err *err);
/*
 * Reads what they cosigned so far; before the store is opened. logdir stays the caller's, and so
 * does the wire to core, which comes and goes. *ret stays as it is without keys, or if it is open.
 */
int witnesses_open(struct loop *loop, int logdir, const struct cosigners *keys,
    struct ipc *const *core, struct witnesses **ret, struct err *err);
void witnesses_free(struct witnesses *w); /* NULL is fine */
/* The store's callbacks: where it begins to read, and each record. */
void witnesses_from(struct witnesses *w, const struct tree_range *from);
void witnesses_record(struct witnesses *w, const struct record *r);
/* The store is open: from now on they are asked. Both stay the caller's. */
void witnesses_serve(struct witnesses *w, struct store *s, struct follow *f);
/* A newer head is signed. urgent: somebody waits for it. */
void witnesses_signed(struct witnesses *w, bool urgent);
/* The courier's wire came or went. */
void witnesses_wire(struct witnesses *w, bool up);
/* The body of a W_CARRIED. */
int witnesses_carried(struct witnesses *w, struct rd *body, struct err *err);
/* What core is told, again: for one that has just come. */
void witnesses_tell(const struct witnesses *w);

#endif
