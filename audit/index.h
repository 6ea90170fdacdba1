/*
 * The index of a log: an SQLite file beside it, made from it and from nothing else. It may be
 * deleted at any time, lag, or have been forged: it only says where to look, and what is found
 * there is judged by its own line. Records are indexed in blocks of INDEX_BLOCK, each once and
 * whole; the newest ones, not yet a block, are read from the log at each query.
 *   block(n, tmin, tmax, leaf, places)   times in us; leaf of the last record; u32 offset each
 *   post(block, term, bits)              u16 numbers in the block, or a bitmap of 512 bytes
 */
#ifndef AUDIT_INDEX_H
#define AUDIT_INDEX_H

#include "audit/index_terms.h"
#include "audit/reader.h"

#define INDEX_BLOCK 4096u
#define INDEX_TERMS_MAX 32 /* in one query */

struct index;
/* Told now and then: records read so far, and the number that is read next. */
typedef void index_progress_fn(void *arg, uint64_t done, uint64_t seq);
struct index_watch {
	index_progress_fn *fn; /* NULL: nobody wants to know */
	void *arg;
};

/*
 * Opens or makes the file. What is no index of this log, of another version, or damaged, is made
 * anew (*ret_anew, may be NULL). One that lags is brought up to date, block by block, each
 * durable before the next few; ERR_TAMPER: the log does not read on, what is before it is indexed.
 */
int index_open(const char *path, int logdir, struct index **ret, bool *ret_anew, struct err *err);
int index_update(struct index *x, int logdir, const struct index_watch *w, struct err *err);
void index_close(struct index *x);
DEFINE_AUTO(index, struct index, index_close)
/*
 * 0 if nothing is lost when an index is put there: no file, an empty one, or one that says it is an
 * index of ours, of any version and state. ERR_CONFIG names any other.
 */
int index_may_replace(const char *path, struct err *err);
/* Takes the file away, with what SQLite keeps beside it; no error if it is not there. */
int index_remove(const char *path, struct err *err);

struct index_query {
	/* One of each kind's values must be in the record, of INDEX_TEXT all. */
	size_t n;
	struct {
		enum index_kind kind;
		struct str value;
	} term[INDEX_TERMS_MAX];
	int64_t from_us, to_us; /* both inclusive; 0 and INT64_MAX: any */
	uint64_t first, last;	/* seq, both inclusive */
	bool oldest;		/* ascending */
	uint64_t limit;		/* 0: none */
};
/* False ends the query. */
typedef bool index_show_fn(void *arg, const struct record *r, const struct hash *leaf);

struct index_found {
	uint64_t shown, looked; /* records shown, lines read for it */
	bool more;		/* the limit ended it */
};
/*
 * Every record shown was read from the log, by hash and number, is what the record behind it
 * follows, and matches by its own words. So is every one that the index names and that is not. x
 * NULL: the whole log is read. ERR_STATE: the index does not fit the log (make it anew);
 * ERR_TAMPER: the log itself does not read on at the place that the message names; what is before
 * it has been searched.
 */
int index_query(struct index *x, int logdir, const struct index_query *q, index_show_fn *fn,
    void *arg, struct index_found *ret, struct err *err);

#endif
