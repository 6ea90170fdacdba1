/*
 * The decision path of one run as one self-contained page: a time axis, lanes, freeze windows,
 * contradictions, and of each record its bytes and its proof. No network, no script but its own.
 */
#ifndef AUDIT_REPLAY_PAGE_H
#define AUDIT_REPLAY_PAGE_H

#include "audit/replay_scan.h"

typedef void replay_out_fn(void *arg, struct str text);

/* A freeze, as far as it concerns the run. */
struct replay_band {
	int64_t from_us, to_us;
	char *name;
};
struct page_opts {
	const struct replay_scan *scan; /* with proofs */
	const struct replay_band *bands;
	size_t nbands;
	const char *bands_why; /* NULL, or why the policy's windows are not known */
	struct str verdict;    /* on the log, as verdict_put has it */
	bool holds;	       /* nothing is wrong with it */
	struct str checkpoint; /* the note that covers it; empty: none */
	const char *origin;
	uint64_t verified;
	unsigned lines; /* of each content; 0: all */
	size_t bytes;	/* of each content in full; 0: all */
};
struct page;
struct page *page_new(
    const struct page_opts *o, struct replay_blobs *blobs, replay_out_fn *out, void *arg);
void page_free(struct page *p);
void page_record(struct page *p, const struct record *r); /* each of the log, in order */
void page_end(struct page *p);

#endif
