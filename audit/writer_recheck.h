/*
 * What the disk holds, read again while the writer lives: all committed records, a few at a time,
 * held against their chain and against the root in the writer's memory. Somebody who changes an old
 * record of a running log is found by that, not only by the next verifier.
 */
#ifndef AUDIT_WRITER_RECHECK_H
#define AUDIT_WRITER_RECHECK_H

#include "audit/chain.h"
#include "audit/writer_store.h"
#include "common/ipc.h"
#include "common/loop.h"

#define RECHECK_PASS_MS 5000

struct recheck;
/*
 * Begins at once, and reads at most a tenth of the time. What is found is logged, recorded
 * (log.damage) and told to core; each place once. logdir and store stay the caller's, and so does
 * the wire that *core is at the time (NULL: none). pass_ms: at least, between two passes.
 */
struct recheck *recheck_new(
    struct loop *loop, int logdir, struct store *s, struct ipc *const *core, uint64_t pass_ms);
void recheck_free(struct recheck *k); /* NULL is fine */
/* Begin the pass anew, which was to end before the record of a prune that is carried out now. */
void recheck_again(struct recheck *k);
/* What is damaged now, for a core that has just come; sends nothing when all is as it was written.
 */
void recheck_tell(const struct recheck *k, struct ipc *core);

#endif
