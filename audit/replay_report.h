/*
 * A post-incident document on one run: summary, timeline, deciding rules, approvals, what would
 * have stopped it, evidence with proofs, what is not known. From records alone; people write the
 * rest.
 */
#ifndef AUDIT_REPLAY_REPORT_H
#define AUDIT_REPLAY_REPORT_H

#include "audit/replay_doc.h"
#include "audit/replay_page.h"

/* Puts items on what would have stopped this action into d; the caller has the policies. */
typedef void report_stop_fn(void *arg, const struct record *r, struct doc *d);
struct report_opts {
	struct page_opts page;
	bool html;
	report_stop_fn *stop;
	void *arg;
};
struct report;
struct report *report_new(const struct report_opts *o, struct replay_blobs *blobs);
void report_free(struct report *r);
void report_record(struct report *p, const struct record *r); /* each of the log, in order */
/* The whole document. */
void report_end(struct report *p, struct buf *out);

#endif
