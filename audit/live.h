/*
 * The live records: what core needs to know when it starts, kept in memory as records pass. The
 * last policy.load; run.start, the last run.targets and approval.* of runs that have not ended;
 * actions that were sent and have no outcome; outcomes in doubt that no person has settled; and, as
 * bodies without a root, of type "rate" what counts for rates of rules, of type "refused" what was
 * refused in runs that have not ended.
 */
#ifndef AUDIT_LIVE_H
#define AUDIT_LIVE_H

#include "audit/record.h"
#include "audit/tree.h"

#define LIVE_DOUBTS_MAX 4096 /* older ones are forgotten here; the log has them */
#define LIVE_REFUSED_RUN 256 /* of one run; core remembers as many */
#define LIVE_ALARMS_RUN 16
#define LIVE_REFUSED_NAMES 16
#define LIVE_REFUSED_MAX ((size_t)64 << 10)

struct live;
struct live *live_new(void);
void live_free(struct live *l);
/* Each record once, in order; tree is the one that ends with it. */
void live_record(struct live *l, const struct record *r, const struct tree_range *tree);
size_t live_count(const struct live *l);
/* Oldest first; root is the log's root at the record's seq + 1. */
typedef void live_fn(void *arg, struct str body, const struct hash *root);
/* Everything of it, to be read back by another; false: it cannot be, or is not of the form. */
bool live_save(const struct live *l, struct buf *out);
bool live_restore(struct live *l, struct rd *in);
void live_each(const struct live *l, live_fn *fn, void *arg);

#endif
