/*
 * The store of the decision log: queue, batch, sync, sign, rotate. Runs in the writer alone (and
 * in its tests). What it is handed is core's, and checked in form; the order on disk is blobs,
 * then lines, then the checkpoint. It must never call a record written whose sync has not
 * returned, and never go on after an error of write or sync.
 */
#include "audit/writer_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/pack.h"
#include "audit/writer_int.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CLOCK_STEP_US 1000000
#define SIGN_RECORDS 1000
/* A head costs two syncs: where so many come in less, one is enough. */
#define SIGN_APART_US 50000

static int commit_queued(struct store *s, struct err *err);
static int write_full(struct store *s, struct err *err);

uint64_t
store_size(const struct store *s)
{
	return s->committed.tree.size;
}

const struct tree_range *
store_tree(const struct store *s)
{
	return &s->committed.tree;
}

size_t
store_pending(const struct store *s)
{
	return s->lines.n + s->frames.n;
}

struct store_durable
store_durable(const struct store *s)
{
	return (struct store_durable){s->segdir, s->seg_first, store_size(s)};
}

struct str
store_head(const struct store *s, uint64_t *ret_size)
{
	*ret_size = s->signed_size;
	return buf_str(&s->note);
}

struct hash
store_leaf(const struct store *s)
{
	return s->now.head;
}

uint64_t
store_unsigned(const struct store *s)
{
	return s->committed.tree.size - s->signed_size;
}

bool
store_sign_due(const struct store *s)
{
	return store_unsigned(s) >= SIGN_RECORDS && clock_boot_us() - s->signed_us >= SIGN_APART_US;
}

uint64_t
store_adopted(const struct store *s)
{
	return s->adopted;
}

void
store_last_time(const struct store *s, char out[32])
{
	memcpy(out, s->last_time, sizeof(s->last_time));
}

/* Every error of write or sync ends here; a full disk leaves its own record first. */
static int
dead(struct store *s, int code, struct err *err)
{
	struct err why = {0};

	if (code == ERR_DISK_FULL && !s->full) {
		s->full = true;
		if (write_full(s, &why) != 0)
			(void)err_wrap(err, "log.full could not be written (%.200s)", why.msg);
	}
	s->dead = true;
	return code;
}

static int
check_alive(const struct store *s, struct err *err)
{
	return s->dead
		   ? err_set(err, ERR_STATE, "the log is closed, or dead after an earlier error")
		   : 0;
}

/* --- queueing ------------------------------------------------------------------------- */

int
store_blob(struct store *s, struct str frame, struct err *err)
{
	struct err why = {0};
	size_t len = 0;

	if (blob_frame_len(frame, &len, &why) != 0 || len != frame.n)
		return err_set(err, ERR_INVALID, "blob frame of %zu bytes: %s", frame.n,
		    why.msg[0] != '\0' ? why.msg : "bytes behind it");
	buf_put_str(&s->frames, frame);
	if (buf_over(&s->frames)) {
		s->frames.over = false;
		return err_set(err, ERR_TOO_LARGE, "blobs of one batch over %zu bytes", FRAMES_MAX);
	}
	return 0;
}

static int
check_record(const struct record *r, struct err *err)
{
	struct err why = {0};

	if (!record_src_ok(r->src) || !record_type_ok(r->type) ||
	    (r->run.n != 0 && !record_run_ok(r->run)))
		return err_set(err, ERR_INVALID, "record: src, type or run is not of the form");
	if (r->data.n == 0 || *r->data.p != '{')
		return err_set(
		    err, ERR_INVALID, "record %.*s: data is not an object", STR_ARG(r->type));
	if (canon_check(r->data, &why) != 0)
		return err_set(
		    err, ERR_INVALID, "record %.*s: data: %s", STR_ARG(r->type), why.msg);
	return 0;
}

/* Line and state of one record; the caller has made room. */
static int
queue(struct store *s, struct record *r, struct hash *ret_root, struct err *err)
{
	char time[CLOCK_TEXT_SIZE];
	int64_t us = clock_wall_us();
	struct hash leaf;

	clock_format(us, time);
	r->time = str_z(time);
	r->mono = clock_boot_us();
	r->seq = s->now.tree.size;
	r->batch = s->now.batch;
	r->prev = s->now.head;
	buf_reset(&s->body);
	record_body(&s->body, r);
	if (buf_over(&s->body))
		return err_set(err, ERR_TOO_LARGE, "record %.*s: BODY over %zu bytes (data is %zu)",
		    STR_ARG(r->type), RECORD_BODY_MAX, r->data.n);
	r->body = buf_str(&s->body);
	record_line(&s->lines, r->body, &leaf);
	tree_push(&s->now.tree, &leaf);
	s->now.head = leaf;
	leaves_add(&s->seg_leaves, &leaf);
	leaves_add(&s->unsigned_leaves, &leaf);
	memcpy(s->last_time, time, sizeof(time));
	if (s->seg_time_us == 0)
		s->seg_time_us = us;
	if (s->opts.record != NULL)
		s->opts.record(s->opts.arg, r, &s->now.tree);
	if (ret_root != NULL)
		*ret_root = tree_root(&s->now.tree);
	return 0;
}

static bool
segment_is_full(const struct store *s)
{
	return s->seg_size != 0 &&
	       (s->seg_size >= s->opts.segment_max || s->pack_size >= s->opts.pack_max ||
		   clock_wall_us() - s->seg_time_us >= s->opts.segment_age_us);
}

/* Between batches: sign, seal, go on in a new file that says what it continues. */
static int
rotate(struct store *s, struct err *err)
{
	AUTO_BUF struct buf data = BUF(1024);
	struct hash root = tree_root(&s->committed.tree), live;
	struct record r = {.src = STR("broker"), .type = STR("log.segment")};
	bool saved;
	struct jcs j;
	int e;

	if ((e = store_checkpoint(s, err)) != 0)
		return e;
	if ((e = files_seal_segment(s, err)) != 0 || (e = resume_put(s, &live, &saved, err)) != 0 ||
	    (e = files_new_segment(s, s->committed.tree.size, err)) != 0)
		return dead(s, e, err);
	jcs_init(&j, &data);
	jcs_open(&j, NULL);
	if (saved)
		jcs_hex(&j, "live", live.b, HASH_LEN);
	jcs_z(&j, "origin", signer_vkey(s->signer)->name);
	jcs_hex(&j, "root", root.b, HASH_LEN);
	jcs_int(&j, "size", (int64_t)s->committed.tree.size);
	jcs_close(&j);
	r.data = buf_str(&data);
	s->new_segment = true;
	return queue(s, &r, NULL, err);
}

/*
 * The wall clock was set: order is by seq and stays what it was, but whoever reads times must know.
 * Slewing stays below what is told; suspend moves both clocks.
 */
static int
note_clock(struct store *s, struct err *err)
{
	AUTO_BUF struct buf data = BUF(256);
	struct record r = {.src = STR("broker"), .type = STR("clock.step")};
	int64_t off = clock_wall_us() - (int64_t)clock_boot_us();
	int64_t by = s->clock_off_us != 0 ? off - s->clock_off_us : -s->clock_back_us;
	struct jcs j;

	if (!s->serving)
		return 0;
	s->clock_off_us = off;
	s->clock_back_us = 0;
	if (by < CLOCK_STEP_US && by > -CLOCK_STEP_US)
		return 0;
	jcs_init(&j, &data);
	jcs_open(&j, NULL);
	jcs_int(&j, "by_us", by);
	jcs_close(&j);
	r.data = buf_str(&data);
	return queue(s, &r, NULL, err);
}

int
store_append(struct store *s, const char *type, struct str src, struct str run, struct str data,
    uint64_t *ret_seq, struct hash *ret_root, struct err *err)
{
	struct record r = {.type = str_z(type), .src = src, .run = run, .data = data};
	int e = check_alive(s, err);

	if (e == 0)
		e = check_record(&r, err);
	if (e == 0 && s->lines.n + RECORD_LINE_MAX > STORE_BATCH_MAX)
		e = commit_queued(s, err);
	if (e == 0 && s->lines.n == 0) {
		s->now.batch = s->now.tree.size;
		if (segment_is_full(s))
			e = rotate(s, err);
	}
	if (e == 0)
		e = note_clock(s, err);
	if (e == 0)
		e = queue(s, &r, ret_root, err);
	if (e == 0)
		*ret_seq = r.seq;
	return e;
}

/* --- committing ------------------------------------------------------------------------- */

static int
write_queued(struct store *s, struct err *err)
{
	int r = files_current(s, err);

	if (r == 0 && s->frames.n != 0 &&
	    (r = files_append(s->pack, buf_str(&s->frames), s->pack_size, err)) != 0)
		return err_wrap(err, "pack");
	if (r == 0 && s->lines.n != 0 &&
	    (r = files_append(s->seg, buf_str(&s->lines), s->seg_size, err)) != 0)
		return err_wrap(err, "segment");
	return r;
}

static void
committed(struct store *s)
{
	s->seg_size += s->lines.n;
	s->pack_size += s->frames.n;
	s->committed = s->now;
	s->committed_leaves = s->seg_leaves.n;
	buf_reset(&s->lines);
	buf_reset(&s->frames);
}

/* Forget the queued batch: nothing of it was acknowledged. */
static int
drop_queued(struct store *s, struct err *err)
{
	size_t n = s->seg_leaves.n - s->committed_leaves;

	if (ftruncate(s->seg, (off_t)s->seg_size) != 0 ||
	    ftruncate(s->pack, (off_t)s->pack_size) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "taking back a batch");
	s->now = s->committed;
	s->seg_leaves.n -= n;
	s->unsigned_leaves.n -= n;
	buf_reset(&s->lines);
	buf_reset(&s->frames);
	return 0;
}

/* The disk is full: the ballast makes room for the one record that says so. */
static int
write_full(struct store *s, struct err *err)
{
	struct record r = {.src = STR("broker"), .type = STR("log.full"), .data = STR("{}")};
	int e = drop_queued(s, err);

	if (e != 0)
		return e;
	if (unlinkat(s->logdir, LOG_BALLAST, 0) != 0 && errno != ENOENT)
		return err_sys(err, ERR_SYSTEM, errno, "ballast");
	if ((e = files_sync(s->logdir, "the log directory", err)) != 0)
		return e;
	if ((e = files_unseal_segment(s, err)) != 0)
		return e;
	s->opts.record = NULL; /* the live set ends with this process */
	s->now.batch = s->now.tree.size;
	if ((e = queue(s, &r, NULL, err)) != 0 || (e = write_queued(s, err)) != 0)
		return e;
	committed(s);
	return store_checkpoint(s, err);
}

static int
commit_queued(struct store *s, struct err *err)
{
	int r = write_queued(s, err);

	if (r != 0)
		return dead(s, r, err);
	committed(s);
	return 0;
}

int
store_commit(struct store *s, struct err *err)
{
	int r = check_alive(s, err);

	if (r != 0 || store_pending(s) == 0)
		return r;
	if ((r = commit_queued(s, err)) != 0 || !s->new_segment)
		return r;
	/* At once: a start can begin at this segment only when its first record is signed. */
	s->new_segment = false;
	r = store_checkpoint(s, err);
	return r != 0 ? r : resume_tidy(s, err);
}

int
store_checkpoint(struct store *s, struct err *err)
{
	uint64_t size = s->committed.tree.size;
	struct hash root = tree_root(&s->committed.tree);
	char name[LOG_NAME_SIZE];
	size_t n = s->unsigned_leaves.n - (s->seg_leaves.n - s->committed_leaves);
	int r = check_alive(s, err);

	if (r != 0 || size == s->signed_size)
		return r;
	buf_reset(&s->note);
	r = signer_sign(s->signer, s->unsigned_leaves.p, n, size, &root, &s->note, err);
	if (r != 0)
		return dead(s, r, err);
	s->unsigned_leaves.n -= n; /* the signer has them now, whatever becomes of the file */
	memmove(s->unsigned_leaves.p, s->unsigned_leaves.p + n,
	    s->unsigned_leaves.n * sizeof(struct hash));
	log_name(name, size, "");
	r = files_replace(s->cpdir, name, buf_str(&s->note), 0440, err);
	if (r != 0)
		return dead(s, err_wrap(err, "checkpoint"), err);
	s->signed_size = size;
	s->signed_us = clock_boot_us();
	return 0;
}

int
store_publish(struct store *s, struct err *err)
{
	int r = check_alive(s, err);

	if (r != 0 || s->published == s->signed_size)
		return r;
	r = files_replace(s->logdir, LOG_CHECKPOINT, buf_str(&s->note), 0440, err);
	if (r != 0)
		return dead(s, r, err);
	s->published = s->signed_size;
	return 0;
}
