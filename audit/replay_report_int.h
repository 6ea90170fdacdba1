/* Inside of replay_report*.c alone. */
#ifndef AUDIT_REPLAY_REPORT_INT_H
#define AUDIT_REPLAY_REPORT_INT_H

#include "audit/replay_report.h"
#include "audit/replay_tell.h"

enum part { PART_TIME, PART_APPROVALS, PART_STOP, PART_PROOFS, PARTS };

struct report {
	struct report_opts o;
	struct replay_blobs *blobs;
	struct told told;
	struct buf text[PARTS], task;
	struct doc part[PARTS];
	uint64_t between, sealed; /* records left out; contents that cannot be read */
	uint64_t *key;		  /* actions that are told */
	size_t nkeys, keys_cap;
	size_t doubt;
};
/* replay_report_frame.c: what stands around the parts */
void report_top(const struct report *p, struct doc *d);
void report_rules(const struct report *p, struct doc *d);
void report_evidence(const struct report *p, struct doc *d);
void report_unknown(const struct report *p, struct doc *d);
void report_head(const struct report *p, struct buf *out);

#endif
