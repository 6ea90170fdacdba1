/*
 * The verifier. Runs in the command line; links no signer. Everything in the directory may have
 * been changed by whoever could write there: signatures are what is believed, and only up to the
 * size they cover. Reads heads first, then segments, then packs, so that a log that is being
 * written to verifies.
 */
#include "audit/verify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/erasure.h"
#include "audit/handover.h"
#include "audit/segment.h"
#include "audit/verify_blobs.h"
#include "audit/verify_pruned.h"
#include "audit/verify_shape.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TOLD_RECORDS 50000
#define STOPPED 1 /* beside 0 and errors; also what blobs_check() says */
#define UNLIKE 2  /* not as signed, up to the head where it was to go on */

struct head {
	uint64_t size;
	struct hash root;
	char name[48];
	char origin[ORIGIN_MAX + 1];
	enum head_from { HEAD_LOG, HEAD_CP, HEAD_RESUME } from;
};

struct verify {
	int logdir;
	const struct verify_ask *ask;
	bool whole;	   /* from record 0, whatever is asked */
	struct vkeys keys; /* those given, and whom they handed over to */
	struct verdict v;
	struct head *head; /* ascending by size */
	size_t nheads, next;
	bool rewritten;
	struct blobs blobs;
	/* leaves of the segment being read */
	struct buf leaves;
	uint64_t leaves_seg;
	size_t leaves_at;
	bool leaves_open, leaves_bad;
	struct shape shape;
	struct erasures *erased;
	struct prunes prunes;
	uint64_t gone; /* pruned records of which there is but the hash */
};

/* A growing array, doubled at each power of two. */
static void *
room(void *p, size_t n, size_t size)
{
	return (n & (n - 1)) == 0 ? xreallocarray(p, n != 0 ? n * 2 : 1, size) : p;
}

/* --- heads --------------------------------------------------------------------------- */

static void
add_head(struct verify *y, const struct checkpoint *cp, const char *name, enum head_from from)
{
	struct head *h;

	y->head = room(y->head, y->nheads, sizeof(*y->head));
	h = &y->head[y->nheads++];
	*h = (struct head){.size = cp->size, .root = cp->root, .from = from};
	(void)snprintf(h->name, sizeof(h->name), "%s", name);
	(void)snprintf(h->origin, sizeof(h->origin), "%s", cp->origin);
}

/* One checkpoint file. What is wrong with it becomes a finding. */
static void
read_head(
    struct verify *y, int dir, const char *file, const char *shown, uint64_t number, bool numbered)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	const struct vkey *key;
	struct checkpoint cp;
	struct err why = {0};
	int r = log_read_file(dir, file, &note, &why);

	if (r == 0)
		r = checkpoint_open(buf_str(&note), &y->keys, &cp, &key, &why);
	if (r == 0 && numbered && cp.size != number)
		r = err_set(&why, ERR_TAMPER, "is for size %" PRIu64, cp.size);
	if (r == 0)
		add_head(y, &cp, shown,
		    numbered && str_has_prefix(str_z(shown), LOG_CP "/") ? HEAD_CP : HEAD_LOG);
	else if (r == ERR_CONFIG)
		(void)snprintf(y->v.config, sizeof(y->v.config), "%s: %s", shown, why.msg);
	else
		verdict_found(&y->v, LOG_KIND_CHECKPOINT, number, number, "%s: %s", shown, why.msg);
}

static int
head_cmp(const void *a, const void *b)
{
	const struct head *x = a, *y = b;

	if (x->size != y->size)
		return x->size > y->size ? 1 : -1;
	return (x->from == HEAD_RESUME) - (y->from == HEAD_RESUME); /* the log's own are named */
}

/* A handover names a head: that is one more to hold. */
static void
take_handover(void *arg, uint64_t number, const struct handover *h, const struct err *why)
{
	struct verify *y = arg;
	char shown[48];

	(void)snprintf(shown, sizeof(shown), LOG_KEY "/%020" PRIu64, number);
	if (h != NULL)
		add_head(y, &h->at, shown, HEAD_LOG);
	else
		verdict_found(&y->v, LOG_KIND_KEY, number, number, "%s: %s", shown, why->msg);
}

static int
read_keys(struct verify *y, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	int r = handovers_follow(y->logdir, &y->keys, take_handover, y, err);

	if (r == 0)
		r = log_or_none(log_files_list(y->logdir, LOG_KEY, "", NULL, &files, err), err);
	verdict_foreign(&y->v, LOG_KEY, &files);
	return r;
}

static int
read_heads_in(struct verify *y, const char *sub, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	AUTO_FD int dir = -1;
	int r = log_open_dir(y->logdir, sub, &dir, err);

	if (r == 0)
		r = log_files_list(y->logdir, sub, "", NULL, &files, err);
	if (r != 0)
		return log_or_none(r, err);
	verdict_foreign(&y->v, sub, &files);
	for (size_t i = 0; i < files.n[0]; i++) {
		char name[LOG_NAME_SIZE], shown[48];

		log_name(name, files.number[0][i], "");
		(void)snprintf(shown, sizeof(shown), "%s/%s", sub, name);
		read_head(y, dir, name, shown, files.number[0][i], true);
	}
	return 0;
}

static int
read_heads(struct verify *y, struct err *err)
{
	const struct verify_ask *ask = y->ask;
	AUTO_LOG_FILES struct log_files root = {0};
	int r = read_keys(y, err);

	if (r == 0)
		r = log_root_list(y->logdir, &root, err);
	if (r == 0)
		r = read_heads_in(y, LOG_CP, err);
	if (r == 0)
		r = read_heads_in(y, LOG_WIT, err);
	if (r != 0)
		return r;
	verdict_foreign(&y->v, "the log directory", &root);
	if (faccessat(y->logdir, LOG_CHECKPOINT, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		read_head(y, y->logdir, LOG_CHECKPOINT, LOG_CHECKPOINT, 0, false);
	for (size_t i = 0; i < ask->npins; i++)
		add_head(y, &ask->pins[i].cp, ask->pins[i].name, HEAD_LOG);
	if (ask->resume != NULL)
		add_head(y, &ask->resume->cp, ask->resume->name, HEAD_RESUME);
	if (y->nheads != 0)
		qsort(y->head, y->nheads, sizeof(*y->head), head_cmp);
	return 0;
}

static void
tell_held(const struct verify *y, const struct head *h)
{
	struct checkpoint cp = {.size = h->size, .root = h->root};

	memcpy(cp.origin, h->origin, sizeof(cp.origin));
	y->ask->held(y->ask->arg, h->name, &cp);
}

/* All heads of the size that has been reached. */
static void
check_heads(struct verify *y, uint64_t size, const struct tree_range *tree, struct str time)
{
	const struct head *held = NULL;
	struct hash root;

	if (y->next == y->nheads || y->head[y->next].size != size)
		return;
	root = tree_root(tree);
	for (; y->next < y->nheads && y->head[y->next].size == size; y->next++) {
		const struct head *h = &y->head[y->next];

		if (y->rewritten)
			continue; /* all behind the first difference differ */
		if (!hash_eq(&h->root, &root)) {
			y->rewritten = true;
			verdict_found(&y->v, LOG_KIND_REWRITTEN, y->v.verified,
			    size != 0 ? size - 1 : 0, "%s signed other records up to size %" PRIu64,
			    h->name, size);
			continue;
		}
		y->v.heads += h->from != HEAD_RESUME;
		y->v.verified = size;
		y->v.root = root;
		memcpy(y->v.origin, h->origin, sizeof(y->v.origin));
		(void)snprintf(y->v.time, sizeof(y->v.time), "%.*s", STR_ARG(time));
		if (h->from == HEAD_CP)
			held = h;
	}
	if (held != NULL && y->ask->held != NULL && verdict_clean(&y->v))
		tell_held(y, held);
}

/* --- leaves files ---------------------------------------------------------------------- */

static void
leaves_end(struct verify *y)
{
	if (y->leaves_open && !y->leaves_bad && y->leaves_at != y->leaves.n)
		verdict_found(&y->v, LOG_KIND_LEAVES, y->leaves_seg, y->leaves_seg,
		    "leaves of segment %" PRIu64 " are %zu bytes, must be %zu", y->leaves_seg,
		    y->leaves.n, y->leaves_at);
	y->leaves_open = false;
}

static void
leaves_begin(struct verify *y, const struct chain *c, uint64_t seg)
{
	const struct log_files *f = chain_files(c);
	char name[LOG_NAME_SIZE];
	AUTO_FD int dir = -1;
	struct err why = {0};

	leaves_end(y);
	y->leaves_seg = seg;
	y->leaves_at = 0;
	y->leaves_bad = false;
	buf_reset(&y->leaves);
	y->leaves_open = log_files_has(f, 1, seg);
	if (!y->leaves_open)
		return;
	log_name(name, seg, LOG_LEAVES);
	if (log_open_dir(y->logdir, LOG_SEG, &dir, &why) != 0 ||
	    log_read_file(dir, name, &y->leaves, &why) != 0) {
		verdict_found(&y->v, LOG_KIND_LEAVES, seg, seg, "%s", why.msg);
		y->leaves_open = false;
	}
}

static void
leaves_check(struct verify *y, const struct chain *c, uint64_t seq, const struct hash *leaf)
{
	uint64_t seg = chain_segment(c);

	if (seq == 0 || seg != y->leaves_seg)
		leaves_begin(y, c, seg);
	if (!y->leaves_open)
		return;
	if (!y->leaves_bad && (y->leaves.n - y->leaves_at < HASH_LEN ||
				  memcmp(y->leaves.p + y->leaves_at, leaf->b, HASH_LEN) != 0)) {
		y->leaves_bad = true;
		verdict_found(&y->v, LOG_KIND_LEAVES, seq, seq,
		    "leaves of segment %" PRIu64 " have another hash for record %" PRIu64, seg,
		    seq);
	}
	if (!y->leaves_bad)
		y->leaves_at += HASH_LEN;
}

/* --- what the writer says of itself ----------------------------------------------------------- */

/* All three gone and nothing signed: that is no log, and no finding about one. */
static int
check_dirs(struct verify *y, const struct log_files *seg, struct err *err)
{
	struct log_fault f[SHAPE_FAULTS_MAX];
	size_t n = shape_dirs(y->logdir, f);

	if (seg->n[0] == 0 && y->v.newest == 0)
		return n < SHAPE_FAULTS_MAX ? 0
					    : err_set(err, ERR_NOT_FOUND,
						  "no log is here: neither " LOG_SEG " nor " LOG_CP
						  " nor " LOG_BLOB);
	for (size_t i = 0; i < n; i++)
		verdict_fault(&y->v, &f[i]);
	return 0;
}

static void
check_shape(struct verify *y, const struct record *rec, uint64_t segment)
{
	struct log_fault f[SHAPE_FAULTS_MAX];
	size_t n = shape_record(&y->shape, rec, segment, f);

	for (size_t i = 0; i < n; i++)
		verdict_fault(&y->v, &f[i]);
}

/* --- all ----------------------------------------------------------------------------------- */

static void
chain_end(struct verify *y, const struct chain *c)
{
	const struct log_fault *f = chain_fault(c);
	uint64_t newest = y->v.newest;

	if (f->kind == LOG_KIND_TORN)
		y->v.torn = f->bytes;
	else if (f->kind != LOG_KIND_NONE)
		verdict_found(&y->v, f->kind, f->seq, f->last, "%s", f->text);
	else
		leaves_end(y);
	if ((f->kind == LOG_KIND_NONE || f->kind == LOG_KIND_TORN) && newest > y->v.size)
		verdict_found(&y->v, LOG_KIND_CUT, y->v.size, newest - 1,
		    "the log has %" PRIu64 " records, signed are %" PRIu64, y->v.size, newest);
}

static void
tell(const struct verify *y, const struct chain *c)
{
	const struct log_files *f = chain_files(c);
	size_t at = 0;

	while (at < f->n[0] && f->number[0][at] <= chain_segment(c))
		at++;
	y->ask->told(y->ask->arg, chain_size(c), at, f->n[0]);
}

static void
gone(void *arg, const struct tree_range *tree)
{
	struct verify *y = arg;

	y->gone++;
	check_heads(y, tree->size, tree, STR(""));
}

static void
take(struct verify *y, const struct chain *c, const struct record *rec, const struct hash *leaf)
{
	blobs_record(&y->blobs, rec);
	verdict_adopted(&y->v, rec);
	erasures_record(y->erased, rec);
	prunes_record(&y->prunes, rec);
	if (!chain_is_kept(c)) {
		leaves_check(y, c, rec->seq, leaf);
		check_shape(y, rec, chain_segment(c));
	}
	check_heads(y, chain_size(c), chain_tree(c), rec->time);
	if (y->ask->told != NULL && rec->seq % TOLD_RECORDS == 0)
		tell(y, c);
}

/* What stands beside the segments: packs, and what was kept of those that are gone. */
static int
read_rest(struct verify *y, const struct log_files *seg, struct err *err)
{
	uint64_t first = seg->n[0] != 0 ? seg->number[0][0] : 0;
	int r = blobs_check(
	    &y->blobs, y->logdir, seg->n[0] != 0 ? seg->number[0][seg->n[0] - 1] : 0, &y->v, err);

	if (r == 0)
		r = prunes_check(&y->prunes, y->logdir, first, &y->v, err);
	y->v.kept = first - (y->gone < first ? y->gone : first);
	return r;
}

/* Up to the end, a stop, or the first that does not fit before the head where we go on. */
static int
read_chain(struct verify *y, struct chain *c, const struct chain_signed *sure, struct err *err)
{
	size_t found = y->v.nfaults + y->v.more;
	struct record rec;
	struct hash leaf;
	int r;

	while ((r = chain_next(c, &rec, &leaf, err)) == 1) {
		take(y, c, &rec, &leaf);
		if (y->ask->stop != NULL && *y->ask->stop != 0)
			break; /* r is STOPPED */
		if (chain_size(c) <= sure->size && y->v.nfaults + y->v.more != found)
			return UNLIKE;
	}
	y->v.size = chain_size(c);
	return r == 0 && !chain_signed_fits(c) ? UNLIKE : r;
}

static int
read_records(struct verify *y, struct err *err)
{
	struct chain_signed sure = {.size = 0};
	struct chain *c = NULL;
	int r;

	y->v.newest = y->nheads != 0 ? y->head[y->nheads - 1].size : 0;
	r = log_or_none(chain_open(y->logdir, y->v.newest, &c, err), err);
	if (r == 0 && c == NULL)
		c = chain_of_nothing(y->logdir, y->v.newest);
	if (r == 0)
		r = check_dirs(y, chain_files(c), err);
	if (r != 0) {
		chain_free(c);
		return r;
	}
	if (!y->whole && y->ask->resume != NULL) {
		sure.size = y->v.resumed = y->ask->resume->cp.size;
		sure.root = y->ask->resume->cp.root;
	}
	chain_as_signed(c, &sure);
	verdict_foreign(&y->v, LOG_SEG, chain_files(c));
	chain_on_gone(c, gone, y);
	check_heads(y, 0, chain_tree(c), STR(""));
	r = read_chain(y, c, &sure, err);
	if (r == 0)
		chain_end(y, c);
	if (r == 0)
		r = read_rest(y, chain_files(c), err);
	chain_free(c);
	return r;
}

static int
verify_once(int logdir, const struct vkeys *keys, const struct verify_ask *ask, bool whole,
    struct verdict *ret, struct err *err)
{
	struct verify y = {.logdir = logdir,
	    .ask = ask,
	    .whole = whole,
	    .keys = *keys,
	    .erased = erasures_new(),
	    .leaves = BUF((size_t)256 << 20),
	    .blobs = {.stop = ask->stop},
	    .shape = {.logdir = logdir}};
	int r = read_heads(&y, err);

	if (r == 0)
		r = read_records(&y, err);
	y.v.erased = erasures_runs(y.erased);
	y.v.erasures = erasures_records(y.erased);
	erasures_free(y.erased);
	buf_free(&y.leaves);
	free(y.head);
	blobs_free(&y.blobs);
	prunes_free(&y.prunes);
	if (r == 0 || r == STOPPED)
		*ret = y.v;
	return r;
}

/*
 * The heads that are read first may be older than the record of a prune that takes segments away
 * while they are read: then all is read again. Each time fewer segments are there, so it ends. What
 * was to go on at a head, and does not fit before it, is read from the beginning, once.
 */
int
verify_log_asked(int logdir, const struct vkeys *keys, const struct verify_ask *ask,
    struct verdict *ret, struct err *err)
{
	uint64_t first = log_first(logdir);
	bool whole = ask->resume == NULL, again;
	int r;

	do {
		err_clear(err);
		r = verify_once(logdir, keys, ask, whole, ret, err);
		again = log_first_moved(logdir, &first);
		again = r == UNLIKE || (r != STOPPED && again);
		whole |= again;
	} while (again);
	if (r >= 0 && ask->resume != NULL && whole)
		ret->unlike = ask->resume->cp.size;
	return r;
}
