/*
 * Witnesses, as core knows them: what the writer says of each, and whether enough of them have
 * cosigned a head that covers a record. Where the policy's effect_requires asks for them, an action
 * waits here between its record and its dispatch.
 */
#ifndef BROKER_CORE_WITNESS_H
#define BROKER_CORE_WITNESS_H

#include "broker/core_control.h"

int core_witness_on_told(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
void core_witness_writer_gone(struct core *c); /* what was told of them holds no more */
void core_witness_free(struct core *c);

struct core_append;
/* What the policy asks for before an action with these effects is sent, into its record. */
void core_witness_ask(const struct core *c, uint32_t effects, struct core_append *a);
/* How many the policy in force asks for before an action with these effects; 0: none. */
unsigned core_witness_needed(const struct core *c, uint32_t effects);
/*
 * Why an action that needs so many cannot be sent now, whatever is waited for: too few are
 * configured or answer, or one of them refuses this log. NULL: it can be tried. The caller frees.
 */
char *core_witness_short(const struct core *c, unsigned needed);
/* Have so many cosigned a head that covers record seq, and refuses none of them the log? */
bool core_witness_covers(const struct core *c, unsigned needed, uint64_t seq);
/* Why waiting longer is for nothing: one of them refuses this log. NULL: it is not. */
char *core_witness_refused(const struct core *c, unsigned needed);
/* What to say when the wait was for nothing. The caller frees. */
char *core_witness_missing(const struct core *c, unsigned needed, uint64_t seq);

/* Member "witnesses" of the status. */
void core_witness_status(struct jcs *j, const struct core *c);

#endif
