/*
 * Carries out an order to prune. Runs in the writer alone, at a start, behind its log.open. The
 * record first, signed; then the files, oldest first, so that what is gone is always a beginning
 * that a record names. Killed anywhere, the next start does it again from its first step. It must
 * never remove what is not sealed, signed and held by leaf hashes that stay, and never do it for
 * anybody but a holder of the log's key.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "audit/prune_order.h"
#include "audit/pruned.h"
#include "audit/writer_int.h"
#include "common/log.h"

#include "common/banned.h"

#define LEAVES_MAX ((size_t)256 << 20)
#define LIVE_KEPT 2 /* of live/: so many of the newest must still fit the segments that stay */

/* --- may it be done? ---------------------------------------------------------------------- */

/* The leaf hashes that stay are those that were signed. */
static int
check_leaves(
    struct store *s, const struct log_files *seg, const struct prune_order *o, struct err *err)
{
	struct tree_range tree = {.size = 0};
	struct hash root;

	while (tree.size < o->to.size) {
		AUTO_BUF struct buf leaves = BUF(LEAVES_MAX);
		char name[LOG_NAME_SIZE];
		int r;

		log_name(name, tree.size, LOG_LEAVES);
		if (!log_files_has(seg, 1, tree.size))
			return err_set(err, ERR_STATE, "%s is not there", name);
		if ((r = log_read_file(s->segdir, name, &leaves, err)) != 0)
			return r;
		if (leaves.n == 0 || leaves.n % HASH_LEN != 0)
			return err_set(err, ERR_TAMPER, "%s has %zu bytes", name, leaves.n);
		for (size_t i = 0; i < leaves.n; i += HASH_LEN) {
			struct hash leaf;

			memcpy(leaf.b, leaves.p + i, HASH_LEN);
			tree_push(&tree, &leaf);
		}
	}
	root = tree_root(&tree);
	if (tree.size != o->to.size || !hash_eq(&root, &o->to.root))
		return err_set(err, ERR_TAMPER,
		    "the leaves up to %" PRIu64 " are not those of the order", o->to.size);
	return 0;
}

static int
check(struct store *s, const struct log_files *seg, const struct prune_order *o, struct err *err)
{
	AUTO_LOG_FILES struct log_files live = {0};
	struct hash kept;
	int r = log_files_list(s->logdir, LOG_LIVE, "", NULL, &live, err);

	if (r != 0)
		return r;
	if (!log_files_has(seg, 0, o->to.size) || o->to.size >= s->seg_first ||
	    o->to.size > s->signed_size)
		return err_set(err, ERR_STATE,
		    "no sealed and signed segment ends at record %" PRIu64, o->to.size);
	if (live.n[0] < LIVE_KEPT || o->to.size > live.number[0][live.n[0] - LIVE_KEPT])
		return err_set(err, ERR_STATE,
		    "record %" PRIu64 " is behind what the next start may need", o->to.size);
	if ((r = check_leaves(s, seg, o, err)) != 0 ||
	    (r = kept_digest(s->logdir, o->from, o->to.size, &kept, err)) != 0)
		return r;
	if (!hash_eq(&kept, &o->kept_sha256))
		return err_set(err, ERR_TAMPER, "what was kept is not what the order says");
	return 0;
}

/* --- the record ------------------------------------------------------------------------------ */

static int
append_prune(struct store *s, const struct prune_order *o, struct err *err)
{
	AUTO_BUF struct buf data = BUF(4096);
	uint64_t seq;
	struct jcs j;

	jcs_init(&j, &data);
	jcs_open(&j, NULL);
	jcs_z(&j, "by", o->by);
	jcs_int(&j, "bytes", (int64_t)o->bytes);
	jcs_int(&j, "from", (int64_t)o->from);
	jcs_open(&j, "kept");
	jcs_int(&j, "records", (int64_t)o->kept);
	jcs_hex(&j, "sha256", o->kept_sha256.b, HASH_LEN);
	jcs_close(&j);
	jcs_z(&j, "reason", o->reason);
	jcs_hex(&j, "root", o->to.root.b, HASH_LEN);
	jcs_int(&j, "segments", (int64_t)o->segments);
	jcs_int(&j, "to", (int64_t)o->to.size);
	jcs_close(&j);
	return store_append(
	    s, "log.prune", STR("operator"), STR(""), buf_str(&data), &seq, NULL, err);
}

/* --- the files ------------------------------------------------------------------------------- */

static int
remove_lines(struct store *s, const struct log_files *seg, uint64_t to, struct err *err)
{
	for (size_t i = 0; i < seg->n[0] && seg->number[0][i] < to; i++) {
		char name[LOG_NAME_SIZE];

		log_name(name, seg->number[0][i], LOG_LINES);
		if (unlinkat(s->segdir, name, 0) != 0 || fsync(s->segdir) != 0)
			return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	}
	return 0;
}

/*
 * The frames that are needed take the place of each pack whose segment is gone; not before, or
 * records would be there and what they name would not.
 */
static int
replace_packs(struct store *s, uint64_t to, struct err *err)
{
	AUTO_LOG_FILES struct log_files kept = {0};
	AUTO_FD int dir = -1;
	int r = log_open_dir(s->logdir, LOG_KEPT, &dir, err);

	if (r == 0)
		r = log_files_list(s->logdir, LOG_KEPT, LOG_LINES, LOG_PACK, &kept, err);
	for (size_t i = 0; r == 0 && i < kept.n[1] && kept.number[1][i] < to; i++) {
		char name[LOG_NAME_SIZE];

		log_name(name, kept.number[1][i], LOG_PACK);
		if (renameat(dir, name, s->blobdir, name) != 0)
			return err_sys(err, ERR_SYSTEM, errno, LOG_KEPT "/%s", name);
	}
	if (r == 0 && (fsync(s->blobdir) != 0 || fsync(dir) != 0))
		return err_sys(err, ERR_SYSTEM, errno, "sync of " LOG_BLOB);
	return r;
}

static int
remove_files(struct store *s, const struct log_files *seg, uint64_t to, struct err *err)
{
	int r = remove_lines(s, seg, to, err);

	if (r == 0)
		r = replace_packs(s, to, err);
	if (r == 0 && (unlinkat(s->logdir, LOG_PRUNE, 0) != 0 || fsync(s->logdir) != 0))
		return err_sys(err, ERR_SYSTEM, errno, LOG_PRUNE);
	return r;
}

/* --- all ------------------------------------------------------------------------------------- */

static int
read_order(struct store *s, struct prune_order *ret, struct err *err)
{
	AUTO_BUF struct buf note = BUF(PRUNE_ORDER_MAX);
	struct vkeys keys;
	int r = log_read_file(s->logdir, LOG_PRUNE, &note, err);

	key_trusted(s, &keys);
	return r != 0 ? r : prune_order_open(buf_str(&note), &keys, ret, err);
}

int
store_prune(struct store *s, struct err *err)
{
	AUTO_LOG_FILES struct log_files seg = {0};
	struct prune_order o;
	struct err why = {0};
	int r;

	if (faccessat(s->logdir, LOG_PRUNE, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	if ((r = log_files_list(s->logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &seg, err)) != 0)
		return r;
	if (read_order(s, &o, &why) != 0 || check(s, &seg, &o, &why) != 0) {
		log_error(
		    "nothing is pruned: %s; `cofferdam log prune --cancel` takes the order away",
		    why.msg);
		return 0;
	}
	if ((r = append_prune(s, &o, err)) != 0 || (r = store_commit(s, err)) != 0 ||
	    (r = store_checkpoint(s, err)) != 0)
		return r;
	if ((r = remove_files(s, &seg, o.to.size, err)) != 0)
		return err_wrap(err, "pruning");
	log_info("%" PRIu64 " segments of the log are pruned, up to record %" PRIu64, o.segments,
	    o.to.size);
	return 0;
}
