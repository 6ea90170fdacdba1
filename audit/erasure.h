/*
 * Which runs' keys were destroyed, as the log says: so that content that cannot be opened any more
 * is called erased, and nothing else is.
 */
#ifndef AUDIT_ERASURE_H
#define AUDIT_ERASURE_H

#include "audit/record.h"

#define ERASURE_RUNS_MAX 1000 /* of one record */

struct erasures;
struct erasures *erasures_new(void);
void erasures_free(struct erasures *e);
DEFINE_AUTO(erasures, struct erasures, erasures_free)
/* Take the record, if it is an erasure. */
void erasures_record(struct erasures *e, const struct record *r);
/* All of a log, as far as its records chain. */
int erasures_read(int logdir, struct erasures **ret, struct err *err);

struct erasure {
	uint64_t seq; /* of the record */
	char time[32];
};
/* The first erasure of that run; NULL: none. */
const struct erasure *erasures_find(struct erasures *e, struct str run);
size_t erasures_records(const struct erasures *e);
size_t erasures_runs(struct erasures *e); /* each once */

#endif
