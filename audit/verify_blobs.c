/*
 * Packs against the records that refer into them. Runs in the verifier, without a key: what is in a
 * frame is not looked at, only that it is the one that a record names. Trusts no length in a pack.
 */
#include "audit/verify_blobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit/pack.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct blob_seen {
	struct hash ct;
	uint64_t seq;
	bool found;
};

static int
blob_cmp(const void *a, const void *b)
{
	const struct blob_seen *x = a, *y = b;
	int r = memcmp(x->ct.b, y->ct.b, HASH_LEN);

	return r != 0 ? r : (x->seq > y->seq) - (x->seq < y->seq);
}

static int
blob_seq_cmp(const void *a, const void *b)
{
	const struct blob_seen *x = a, *y = b;

	return (x->seq > y->seq) - (x->seq < y->seq);
}

void
blobs_record(struct blobs *b, const struct record *r)
{
	struct hash ct;

	if (!pack_ref_ct(r, &ct))
		return;
	if ((b->n & (b->n - 1)) == 0) /* full at each power of two */
		b->seen = xreallocarray(b->seen, b->n != 0 ? b->n * 2 : 1, sizeof(*b->seen));
	b->seen[b->n++] = (struct blob_seen){.ct = ct, .seq = r->seq};
}

/* False: no record refers to it. */
static bool
mark_blob(struct blobs *b, const struct hash *ct)
{
	size_t lo = 0, hi = b->n;
	bool any = false;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (memcmp(b->seen[mid].ct.b, ct->b, HASH_LEN) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < b->n && memcmp(b->seen[lo].ct.b, ct->b, HASH_LEN) == 0; lo++)
		b->seen[lo].found = any = true;
	return any;
}

/*
 * Frames and nothing else; but the pack that is being written may end in an unfinished write, which
 * no record refers into.
 */
static int
read_pack(struct blobs *b, int logdir, uint64_t number, uint64_t last_seg, struct verdict *v,
    struct err *err)
{
	struct pack *p = NULL;
	struct str frame;
	struct hash ct;
	uint64_t off = 0;
	bool junk = false;
	int r = pack_open(logdir, number, &p, err);

	while (r == 0 && (r = pack_next(p, &frame, &ct, err)) == 1) {
		junk |= mark_blob(b, &ct) && pack_skipped(p, &off);
		r = b->stop != NULL && *b->stop != 0; /* packs may be larger than all segments */
	}
	if (r == 0 && pack_skipped(p, &off) && (junk || number < last_seg))
		verdict_found(v, LOG_KIND_JUNK, number, number,
		    "pack %" PRIu64 " holds bytes that are no frame, from byte %" PRIu64, number,
		    off);
	pack_free(p);
	return r;
}

int
blobs_check(struct blobs *b, int logdir, uint64_t last_seg, struct verdict *v, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	int r = log_or_none(log_files_list(logdir, LOG_BLOB, LOG_PACK, NULL, &files, err), err);

	if (r != 0)
		return r;
	verdict_foreign(v, LOG_BLOB, &files);
	if (b->n != 0)
		qsort(b->seen, b->n, sizeof(*b->seen), blob_cmp);
	for (size_t i = 0; r == 0 && i < files.n[0]; i++)
		r = read_pack(b, logdir, files.number[0][i], last_seg, v, err);
	if (r != 0)
		return r;
	if (b->n != 0)
		qsort(b->seen, b->n, sizeof(*b->seen), blob_seq_cmp);
	for (size_t i = 0; i < b->n; i++) {
		if (b->seen[i].found)
			v->blobs++;
		else
			verdict_found(v, LOG_KIND_BLOB, b->seen[i].seq, b->seen[i].seq,
			    "content of record %" PRIu64 " is in no pack, or changed",
			    b->seen[i].seq);
	}
	return 0;
}

void
blobs_free(struct blobs *b)
{
	free(b->seen);
}
