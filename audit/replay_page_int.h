/* Inside of replay_page*.c alone. */
#ifndef AUDIT_REPLAY_PAGE_INT_H
#define AUDIT_REPLAY_PAGE_INT_H

#include "audit/replay_page.h"
#include "audit/replay_tell.h"

struct page {
	struct page_opts o;
	struct replay_blobs *blobs;
	replay_out_fn *out;
	void *arg;
	struct told told;
	struct buf b;
	size_t doubt;	 /* the next to be shown */
	int64_t last_us; /* of the record before; INT64_MIN: none */
	bool *in;	 /* beside bands: the record before was within */
	char day[11];	 /* of the record before */
};
/* Everything above the records. */
void page_top(struct page *p);
void page_axis(struct page *p);
/* What opens beneath a record: its bytes, its content in full, its proof. */
void page_proof(struct page *p, const struct record *r, struct str raw, bool whole);
void page_link(struct buf *b, uint64_t seq); /* to a record */
void page_clock(struct buf *b, int64_t us);  /* YYYY-MM-DD hh:mm:ss */
void page_span(struct buf *b, int64_t us);   /* "2 min 3 s" */

#endif
