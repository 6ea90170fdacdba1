/*
 * A log's signing key hands over to the next one: a note signed by both, kept in the log as
 * key/<size>. Whoever trusts the old key follows it to the new, and no further back or forth than
 * it says. docs/format-log.md 5. Nothing here can sign.
 */
#ifndef AUDIT_HANDOVER_H
#define AUDIT_HANDOVER_H

#include "audit/checkpoint.h"

#define LOG_KEY "key" /* in the log directory; absent while no key has changed */
#define HANDOVER_MAX ((size_t)4096)
#define HANDOVER_REASON_MAX 256

struct handover {
	struct checkpoint at; /* the old key's last head, the new key's first may be the same */
	struct vkey old;      /* .last: the last size at which it is believed */
	struct vkey next;     /* .first: at.size */
	char reason[HANDOVER_REASON_MAX + 1]; /* why the old one was revoked; "": it was not */
};
/* The lines that are signed. */
void handover_text(struct buf *out, const struct handover *h);
/*
 * Whole in itself: of the form, and signed by both keys. Says nothing about who trusts them.
 * ERR_TAMPER.
 */
int handover_open(struct str note, struct handover *ret, struct err *err);

/* h: believed, and keys say so now; NULL: key/<number> is not, why tells, and no later one is read.
 */
typedef void handover_fn(
    void *arg, uint64_t number, const struct handover *h, const struct err *why);
/*
 * From keys that are trusted to those that they handed over to. Ranges only become narrower; a note
 * by keys that are not among them is passed over. Fails when the directory cannot be read.
 */
int handovers_follow(int logdir, struct vkeys *keys, handover_fn *fn, void *arg, struct err *err);

#endif
