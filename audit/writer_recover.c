/*
 * Opening a log that is there: the one path, run at every start. Reads the
 * records that no sealed segment holds (writer_resume.c) and believes only what chains, and what
 * the newest checkpoint signed. An unfinished write at the end is set aside and cut off; anything
 * else that does not fit is refused, and nothing is changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/chain.h"
#include "audit/pack.h"
#include "audit/verify_shape.h"
#include "audit/writer_int.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct recover {
	struct store *s;
	struct checkpoint cp; /* the newest; size 0: none */
	struct tree_range signed_tree;
	/* only a start may follow `bar`, an end or a start nobody signed; `behind` is no start */
	uint64_t bar, behind;
	bool barred, bar_is_open, broken;
	struct shape shape;
	struct log_fault odd; /* the first unsigned record that no writer leaves there */
	/* ciphertexts that records of the last segment refer to */
	struct leaves refs;
	uint64_t seg_first;
	int64_t seg_time_us;
};

/* --- the newest checkpoint ---------------------------------------------------------------- */

static int
open_note(struct store *s, int dir, const char *name, struct checkpoint *cp, struct err *err)
{
	const struct vkey *key;
	struct vkeys keys;
	int r;

	key_trusted(s, &keys);
	buf_reset(&s->note);
	r = log_read_file(dir, name, &s->note, err);
	if (r == 0)
		r = checkpoint_open(buf_str(&s->note), &keys, cp, &key, err);
	if (r == 0)
		key_signed_last(s, key);
	return r;
}

static int
newest_checkpoint(struct recover *v, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	struct store *s = v->s;
	struct checkpoint copy;
	char name[LOG_NAME_SIZE];
	uint64_t number;
	int r = open_note(s, s->logdir, LOG_CHECKPOINT, &copy, err);

	if (r != 0 && r != ERR_NOT_FOUND)
		return err_wrap(err, "refused");
	if (r == ERR_NOT_FOUND)
		copy.size = 0;
	err_clear(err);
	if ((r = log_files_list(s->logdir, LOG_CP, "", NULL, &files, err)) != 0)
		return r;
	number = files.n[0] != 0 ? files.number[0][files.n[0] - 1] : 0;
	if (copy.size > number)
		return err_set(err, ERR_TAMPER,
		    "refused: `checkpoint` is of size %" PRIu64 ", but cp/ ends at %" PRIu64,
		    copy.size, number);
	if (files.n[0] == 0)
		return 0;
	log_name(name, number, "");
	if (open_note(s, s->cpdir, name, &v->cp, err) != 0)
		return err_wrap(err, "refused: cp/%s", name);
	if (v->cp.size != number)
		return err_set(
		    err, ERR_TAMPER, "refused: cp/%s is for size %" PRIu64, name, v->cp.size);
	return 0;
}

/* --- the records ---------------------------------------------------------------------------- */

/*
 * The tail is not signed, so whoever can write to the file can chain to it: what no crash leaves is
 * refused. A writer ends with its log.close, and a start has its log.open signed before it serves.
 */
static void
watch_start(struct recover *v, const struct record *r)
{
	bool open = str_eqz(r->type, "log.open");

	if (v->barred && !v->broken && !record_of_start(r->type)) {
		v->broken = true;
		v->behind = r->seq;
	}
	if (v->broken)
		return;
	if (open)
		v->barred = v->bar_is_open = r->seq >= v->cp.size;
	if (record_ends(r->type)) {
		v->barred = true;
		v->bar_is_open = false;
	}
	if (open || record_ends(r->type))
		v->bar = r->seq;
}

/* What is signed stays; what this start would adopt must be what a crash can leave. */
static void
watch_shape(struct recover *v, const struct record *r, uint64_t segment)
{
	struct log_fault f[SHAPE_FAULTS_MAX];

	if (shape_record(&v->shape, r, segment, f) != 0 && r->seq >= v->cp.size &&
	    v->odd.kind == LOG_KIND_NONE)
		v->odd = f[0];
}

static int
take_record(struct recover *v, const struct chain *c, const struct record *r,
    const struct hash *leaf, struct err *err)
{
	struct store *s = v->s;
	struct hash ct, root;

	if (s->seg_leaves.n == 0 || chain_segment(c) != v->seg_first) {
		v->seg_first = chain_segment(c);
		s->seg_leaves.n = v->refs.n = 0;
		(void)clock_parse(r->time, &v->seg_time_us, NULL);
	}
	leaves_add(&s->seg_leaves, leaf);
	if (pack_ref_ct(r, &ct))
		leaves_add(&v->refs, &ct);
	watch_start(v, r);
	watch_shape(v, r, chain_segment(c));
	if (r->seq >= v->cp.size)
		leaves_add(&s->unsigned_leaves, leaf);
	(void)snprintf(s->last_time, sizeof(s->last_time), "%.*s", STR_ARG(r->time));
	if (s->opts.record != NULL)
		s->opts.record(s->opts.arg, r, chain_tree(c));
	if (chain_size(c) != v->cp.size)
		return 0;
	root = tree_root(chain_tree(c));
	if (!hash_eq(&root, &v->cp.root))
		return err_set(err, ERR_TAMPER,
		    "refused: the checkpoint of size %" PRIu64 " signed other records", v->cp.size);
	v->signed_tree = *chain_tree(c);
	return 0;
}

static int
judge_end(struct recover *v, const struct chain *c, struct err *err)
{
	const struct log_fault *f = chain_fault(c);

	if (f->kind != LOG_KIND_NONE && f->kind != LOG_KIND_TORN)
		return err_set(err, ERR_TAMPER, "refused: %s at seq %" PRIu64 ": %s",
		    log_kind_name(f->kind), f->seq, f->text);
	if (chain_size(c) < v->cp.size)
		return err_set(err, ERR_TAMPER,
		    "refused: cut: the log has %" PRIu64 " records, signed are %" PRIu64,
		    chain_size(c), v->cp.size);
	/* The first start signs its first batch before it serves. */
	if (v->cp.size == 0 && v->broken)
		return err_set(err, ERR_TAMPER,
		    "refused: the log has %" PRIu64 " records and no checkpoint", chain_size(c));
	if (v->broken)
		return err_set(err, ERR_TAMPER,
		    "refused: record %" PRIu64 " stands behind the %s of the log (record %" PRIu64
		    ")%s",
		    v->behind, v->bar_is_open ? "opening" : "close", v->bar,
		    v->bar_is_open ? ", which no checkpoint covers" : "");
	if (v->odd.kind != LOG_KIND_NONE)
		return err_set(err, ERR_TAMPER, "refused: %s at seq %" PRIu64 ": %s",
		    log_kind_name(v->odd.kind), v->odd.seq, v->odd.text);
	return 0;
}

/* Whoever follows the tree record by record begins anew behind what is not there. */
static void
gone(void *arg, const struct tree_range *tree)
{
	const struct recover *v = arg;

	if (v->s->opts.from != NULL)
		v->s->opts.from(v->s->opts.arg, tree);
}

static int
read_log(struct recover *v, struct chain *c, struct err *err)
{
	struct record rec;
	struct hash leaf;
	int r;

	chain_on_gone(c, gone, v);
	while ((r = chain_next(c, &rec, &leaf, err)) == 1)
		if ((r = take_record(v, c, &rec, &leaf, err)) != 0)
			return r;
	return r != 0 ? r : judge_end(v, c, err);
}

/* --- the torn end ------------------------------------------------------------------------- */

static const char *const torn_suffix[2] = {"", LOG_PACK};

static void
torn_name(char out[64], uint64_t size, unsigned n, int which)
{
	(void)snprintf(out, 64, "%020" PRIu64 "-%u%s", size, n, torn_suffix[which]);
}

/* Copy what stands behind off to torn/, durably; then cut it off. Safe to be killed anywhere. */
static int
set_aside(struct store *s, int fd, int which, uint64_t off, struct err *err)
{
	AUTO_BUF struct buf bytes = BUF((size_t)1 << 30);
	char name[64];
	struct stat st;
	size_t n = 0;
	int r;

	if (fstat(fd, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "torn end");
	if ((uint64_t)st.st_size <= off)
		return 0;
	if ((uint64_t)st.st_size - off > bytes.max)
		return err_set(err, ERR_TAMPER, "refused: torn end of %" PRIu64 " bytes, limit %zu",
		    (uint64_t)st.st_size - off, bytes.max);
	r = log_pread(
	    fd, buf_grow(&bytes, (size_t)st.st_size - off), (size_t)st.st_size - off, off, &n, err);
	if (r != 0)
		return r;
	for (unsigned i = 0; i < 1000; i++) {
		torn_name(name, s->now.tree.size, i, which);
		if (faccessat(s->torndir, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
			break;
	}
	if (files_replace(s->torndir, name, buf_str(&bytes), 0400, err) != 0)
		return err_wrap(err, "setting the torn end aside");
	if (ftruncate(fd, (off_t)off) != 0 || fdatasync(fd) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "cutting off the torn end");
	return 0;
}

/* What was set aside at this very size, by this start or by one that was killed after it. */
static int
find_aside(struct store *s, struct recovered *ret, struct err *err)
{
	for (int which = 0; which < 2; which++) {
		for (unsigned i = 0; i < 1000; i++) {
			AUTO_BUF struct buf bytes = BUF((size_t)1 << 30);
			char name[64];
			int r;

			torn_name(name, s->now.tree.size, i, which);
			r = log_read_file(s->torndir, name, &bytes, err);
			if (r == ERR_NOT_FOUND)
				break;
			if (r != 0)
				return r;
			ret->bytes[which] = bytes.n;
			ret->sha256[which] = hash_sha256(buf_str(&bytes));
		}
	}
	err_clear(err);
	return 0;
}

static bool
is_referenced(const struct recover *v, const struct hash *ct)
{
	for (size_t i = 0; i < v->refs.n; i++)
		if (hash_eq(&v->refs.p[i], ct))
			return true;
	return false;
}

/*
 * The pack's end. Frames are synced before the lines that name them, so a frame that a record
 * names is whole; what is broken with none of those behind it is an unfinished write.
 */
static int
mend_pack(struct recover *v, struct err *err)
{
	struct pack *p = NULL;
	struct str frame;
	struct hash ct;
	uint64_t off = 0;
	int r = pack_open(v->s->logdir, v->seg_first, &p, err);

	while (r == 0 && (r = pack_next(p, &frame, &ct, err)) == 1) {
		r = 0;
		if (pack_skipped(p, &off) && is_referenced(v, &ct))
			r = err_set(err, ERR_TAMPER,
			    "refused: pack %" PRIu64 " is damaged at byte %" PRIu64
			    ", before content that a record names",
			    v->seg_first, off);
	}
	if (r == 0 && pack_skipped(p, &off))
		r = set_aside(v->s, v->s->pack, 1, off, err);
	pack_free(p);
	return r;
}

/* --- going on ------------------------------------------------------------------------------ */

static int
open_last(struct recover *v, const struct chain *c, struct err *err)
{
	const struct log_files *f = chain_files(c);
	struct store *s = v->s;
	char name[LOG_NAME_SIZE];
	struct stat st;
	int r;

	v->seg_first = f->number[0][f->n[0] - 1];
	log_name(name, v->seg_first, LOG_LINES);
	if ((r = log_open_file(s->segdir, name, O_RDWR, &s->seg, err)) != 0)
		return r;
	s->seg_first = v->seg_first;
	if ((chain_fault(c)->kind == LOG_KIND_TORN &&
		(r = set_aside(s, s->seg, 0, chain_fault(c)->off, err)) != 0) ||
	    (r = files_unseal_segment(s, err)) != 0)
		return r;
	log_name(name, v->seg_first, LOG_PACK);
	if ((r = log_open_file(s->blobdir, name, O_RDWR | O_CREAT, &s->pack, err)) != 0 ||
	    (r = files_sync(s->blobdir, name, err)) != 0 || (r = mend_pack(v, err)) != 0)
		return r;
	s->seg_time_us = v->seg_time_us;
	if (fstat(s->seg, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "segment");
	s->seg_size = (uint64_t)st.st_size;
	if (fstat(s->pack, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "pack");
	s->pack_size = (uint64_t)st.st_size;
	/* What the last process wrote but did not see synced counts from here on: sync it now. */
	if (fdatasync(s->seg) != 0 || fdatasync(s->pack) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sync of the last segment");
	return 0;
}

static int
resume(struct recover *v, struct chain *c, struct recovered *ret, struct err *err)
{
	const struct log_files *f = chain_files(c);
	struct store *s = v->s;
	int r;

	s->now.tree = *chain_tree(c);
	s->now.head = *chain_head(c);
	s->now.batch = s->now.tree.size;
	/* An empty last segment: leaves were of the one before it. */
	if (f->n[0] != 0 && f->number[0][f->n[0] - 1] == s->now.tree.size)
		s->seg_leaves.n = v->refs.n = 0;
	s->committed = s->now;
	s->committed_leaves = s->seg_leaves.n;
	s->signed_size = v->cp.size;
	s->adopted = s->now.tree.size - v->cp.size;
	s->published = 0; /* write `checkpoint` again in any case */
	signer_resume(s->signer, &v->signed_tree);
	if (f->n[0] == 0)
		return files_new_segment(s, 0, err);
	if ((r = open_last(v, c, err)) != 0)
		return r;
	return find_aside(s, ret, err);
}

/*
 * Begin at the last segment whose first record is signed and names what everything before it came
 * to. The checkpoint then vouches for it: its root can be reached from no other tree.
 */
static int
skip_sealed(struct recover *v, struct chain *c, struct err *err)
{
	struct resume from;
	int r = resume_find(v->s, v->cp.size, &from, err);

	if (r != 0 || from.tree.size == 0)
		return r;
	if (!chain_skip(c, &(struct chain_from){from.tree, from.head}))
		return err_set(err, ERR_TAMPER, "refused: no segment begins at record %" PRIu64,
		    from.tree.size);
	if (v->s->opts.from != NULL)
		v->s->opts.from(v->s->opts.arg, &from.tree);
	v->barred = from.of_start;
	v->bar = from.tree.size - 1;
	return resume_check_skipped(v->s, chain_files(c), from.tree.size, err);
}

int
store_recover(struct store *s, struct recovered *ret, struct err *err)
{
	struct recover v = {.s = s, .shape = {.logdir = s->logdir}};
	struct chain *c = NULL;
	int r = newest_checkpoint(&v, err);

	v.barred = v.cp.size == 0; /* the first record, too, is a start's */
	if (r == 0)
		r = chain_open(s->logdir, v.cp.size, &c, err);
	if (r == 0)
		r = skip_sealed(&v, c, err);
	if (r == 0)
		r = read_log(&v, c, err);
	if (r == 0)
		r = resume(&v, c, ret, err);
	chain_free(c);
	free(v.refs.p);
	return r;
}
