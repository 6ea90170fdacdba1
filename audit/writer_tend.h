/*
 * What the writer does to its log besides writing: reads it again (audit/writer_recheck.h) and
 * prunes it when that was ordered (audit/writer_prune.h).
 */
#ifndef AUDIT_WRITER_TEND_H
#define AUDIT_WRITER_TEND_H

#include "audit/writer_store.h"
#include "common/ipc.h"
#include "common/loop.h"

struct tend;
typedef void tend_commit_fn(void *arg); /* commit what is queued, and sign it */
struct tend *tend_new(struct loop *loop, int logdir, struct store *s, struct ipc *const *core,
    tend_commit_fn *commit, void *arg);
void tend_free(struct tend *t);
void tend_tell(
    const struct tend *t, struct ipc *core); /* a new core: what is known; t may be NULL */

#endif
