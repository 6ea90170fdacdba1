/*
 * Carries out an order to prune. Runs in the writer alone, while it serves, a step at a time. The
 * order is checked first; then its record is made durable and signed; then the files go, oldest
 * first, so that what is gone is always a beginning that a signed record names. Killed anywhere,
 * the next writer does it again from its first step. It must never remove what is not sealed,
 * signed and held by leaf hashes that stay, never do it for anybody but a holder of the log's key,
 * and never stop the log because something cannot be removed.
 */
#include "audit/writer_prune.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/prune_order.h"
#include "audit/pruned.h"
#include "audit/writer_int.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define STEP_LEAVES 2048 /* hashed in one step: about a millisecond */
#define LIVE_KEPT 2	 /* of live/: so many of the newest must still fit the segments that stay */

typedef int phase_fn(struct prune *p, struct err *err);

/* Which file an order was: another one is looked at anew. */
struct which {
	dev_t dev;
	ino_t ino;
	struct timespec changed;
};

struct prune {
	struct store *s;
	phase_fn *phase; /* NULL: no order is being carried out */
	struct which is, refused;
	struct prune_order o;
	struct log_files seg, packs;
	/* leaves of segments that go */
	struct tree_range tree;
	int fd;
	uint64_t first, off;
	struct hash some[STEP_LEAVES];
	struct kept_sum *kept;
	uint64_t seq; /* of its record */
	size_t at;    /* segment or pack */
	int keptdir;
	uint64_t to;
};

static bool
same(const struct which *a, const struct which *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->changed.tv_sec == b->changed.tv_sec &&
	       a->changed.tv_nsec == b->changed.tv_nsec;
}

static void
end(struct prune *p)
{
	p->phase = NULL;
	log_files_free(&p->seg);
	log_files_free(&p->packs);
	kept_sum_free(TAKE_PTR(p->kept));
	cleanup_close_fd(&p->fd);
	cleanup_close_fd(&p->keptdir);
}

/* Said once for each order; the log goes on as it is. */
static int
refuse(struct prune *p, const struct err *why)
{
	log_error("nothing %sis pruned: %s; `cofferdam log prune --cancel` takes the order away",
	    p->at != 0 ? "more " : "", why->msg);
	p->refused = p->is;
	end(p);
	return PRUNE_IDLE;
}

/* --- the files ------------------------------------------------------------------------------- */

static int
order_done(struct prune *p, struct err *err)
{
	struct store *s = p->s;

	if ((unlinkat(s->logdir, LOG_PRUNE, 0) != 0 && errno != ENOENT) || fsync(s->logdir) != 0)
		return err_sys(err, ERR_SYSTEM, errno, LOG_PRUNE);
	log_info("%" PRIu64 " segments of the log are pruned, up to record %" PRIu64, p->o.segments,
	    p->o.to.size);
	end(p);
	return PRUNE_IDLE;
}

/*
 * The frames that are needed take the place of each pack whose segment is gone; not before, or
 * records would be there and what they name would not.
 */
static int
replace_pack(struct prune *p, struct err *err)
{
	struct store *s = p->s;
	char name[LOG_NAME_SIZE];
	struct err why = {0};

	if (p->at < p->packs.n[1] && p->packs.number[1][p->at] < p->o.to.size) {
		log_name(name, p->packs.number[1][p->at], LOG_PACK);
		p->at++;
		if (renameat(p->keptdir, name, s->blobdir, name) == 0)
			return PRUNE_MORE;
		(void)err_sys(&why, ERR_SYSTEM, errno, LOG_KEPT "/%s", name);
		return refuse(p, &why);
	}
	if (fsync(s->blobdir) != 0 || (p->keptdir >= 0 && fsync(p->keptdir) != 0))
		return err_sys(err, ERR_SYSTEM, errno, "sync of " LOG_BLOB);
	p->phase = order_done;
	return PRUNE_MORE;
}

static int
begin_packs(struct prune *p, struct err *err UNUSED)
{
	struct store *s = p->s;
	struct err why = {0};
	int r = log_open_dir(s->logdir, LOG_KEPT, &p->keptdir, &why);

	if (r == 0)
		r = log_files_list(s->logdir, LOG_KEPT, LOG_LINES, LOG_PACK, &p->packs, &why);
	if (r != 0 && r != ERR_NOT_FOUND)
		return refuse(p, &why);
	p->at = 0;
	p->phase = replace_pack;
	return PRUNE_MORE;
}

static int
remove_lines(struct prune *p, struct err *err)
{
	struct store *s = p->s;
	char name[LOG_NAME_SIZE];
	struct err why = {0};

	if (s->signed_size <= p->seq)
		return PRUNE_COMMIT;
	if (p->to < p->o.to.size) {
		p->to = p->o.to.size; /* a step before anything is gone */
		return PRUNE_MORE;
	}
	if (p->at == p->seg.n[0] || p->seg.number[0][p->at] >= p->o.to.size) {
		p->phase = begin_packs;
		return PRUNE_MORE;
	}
	log_name(name, p->seg.number[0][p->at], LOG_LINES);
	if (unlinkat(s->segdir, name, 0) != 0 && errno != ENOENT) {
		(void)err_sys(&why, ERR_SYSTEM, errno, LOG_SEG "/%s", name);
		return refuse(p, &why);
	}
	p->at++;
	return fsync(s->segdir) == 0 ? PRUNE_MORE
				     : err_sys(err, ERR_SYSTEM, errno, "sync of " LOG_SEG);
}

/* --- the record ------------------------------------------------------------------------------ */

static int
append_record(struct prune *p, struct err *err)
{
	const struct prune_order *o = &p->o;
	AUTO_BUF struct buf data = BUF(4096);
	struct jcs j;
	int r;

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
	r = store_append(
	    p->s, "log.prune", STR("operator"), STR(""), buf_str(&data), &p->seq, NULL, err);
	if (r != 0)
		return r;
	p->at = 0;
	p->phase = remove_lines;
	return PRUNE_COMMIT;
}

/* --- may it be done? ------------------------------------------------------------------------- */

static int
check_kept(struct prune *p, struct err *err UNUSED)
{
	struct err why = {0};
	struct hash is;
	int r = p->kept == NULL
		    ? kept_sum_new(p->s->logdir, p->o.from, p->o.to.size, &p->kept, &why)
		    : 0;

	if (r == 0)
		r = kept_sum_more(p->kept, &is, &why);
	if (r == 1)
		return PRUNE_MORE;
	if (r == 0 && !hash_eq(&is, &p->o.kept_sha256))
		r = err_set(&why, ERR_TAMPER, "what was kept is not what the order says");
	if (r != 0)
		return refuse(p, &why);
	p->phase = append_record;
	return PRUNE_MORE;
}

static int
leaves_open(struct prune *p, struct err *err)
{
	char name[LOG_NAME_SIZE];

	p->first = p->tree.size;
	p->off = 0;
	log_name(name, p->first, LOG_LEAVES);
	if (!log_files_has(&p->seg, 1, p->first))
		return err_set(err, ERR_STATE, "%s is not there", name);
	return log_open_file(p->s->segdir, name, O_RDONLY, &p->fd, err);
}

/* Some of the leaf hashes that stay: 1 there are more, 0 they are all read. */
static int
leaves_some(struct prune *p, struct err *err)
{
	size_t n = 0;
	int r;

	if (p->fd < 0 && p->tree.size >= p->o.to.size)
		return 0;
	if (p->fd < 0 && (r = leaves_open(p, err)) != 0)
		return r;
	if ((r = log_pread(p->fd, p->some, sizeof(p->some), p->off, &n, err)) != 0)
		return r;
	if (n % HASH_LEN != 0 || p->off + n == 0)
		return err_set(err, ERR_TAMPER, "%020" PRIu64 LOG_LEAVES " has %" PRIu64 " bytes",
		    p->first, p->off + n);
	p->off += n;
	for (size_t i = 0; i < n / HASH_LEN; i++)
		tree_push(&p->tree, &p->some[i]);
	if (n == 0)
		cleanup_close_fd(&p->fd);
	return 1;
}

/* They must be those that were signed. */
static int
check_leaves(struct prune *p, struct err *err UNUSED)
{
	struct err why = {0};
	struct hash root;
	int r = leaves_some(p, &why);

	if (r == 1)
		return PRUNE_MORE;
	root = tree_root(&p->tree);
	if (r == 0 && (p->tree.size != p->o.to.size || !hash_eq(&root, &p->o.to.root)))
		r = err_set(&why, ERR_TAMPER,
		    "the leaves up to %" PRIu64 " are not those of the order", p->o.to.size);
	if (r != 0)
		return refuse(p, &why);
	p->phase = check_kept;
	return PRUNE_MORE;
}

static int
check_place(const struct prune *p, struct err *err)
{
	AUTO_LOG_FILES struct log_files live = {0};
	const struct store *s = p->s;
	uint64_t to = p->o.to.size;
	int r = log_files_list(s->logdir, LOG_LIVE, "", NULL, &live, err);

	if (r != 0)
		return r;
	if (!log_files_has(&p->seg, 0, to) || to >= s->seg_first || to > s->signed_size)
		return err_set(
		    err, ERR_STATE, "no sealed and signed segment ends at record %" PRIu64, to);
	if (live.n[0] < LIVE_KEPT || to > live.number[0][live.n[0] - LIVE_KEPT])
		return err_set(err, ERR_STATE,
		    "record %" PRIu64 " is behind what the next start may need", to);
	return 0;
}

static int
read_order(struct prune *p, struct err *err)
{
	AUTO_BUF struct buf note = BUF(PRUNE_ORDER_MAX);
	struct vkeys keys;
	int r = log_read_file(p->s->logdir, LOG_PRUNE, &note, err);

	key_trusted(p->s, &keys);
	return r != 0 ? r : prune_order_open(buf_str(&note), &keys, &p->o, err);
}

static int
begin(struct prune *p)
{
	struct err why = {0};

	p->at = 0;
	p->tree = (struct tree_range){0};
	if (read_order(p, &why) != 0 ||
	    log_files_list(p->s->logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &p->seg, &why) != 0 ||
	    check_place(p, &why) != 0)
		return refuse(p, &why);
	/* Of one whose lines are gone the record is signed: what was begun is finished. */
	p->phase = p->seg.number[0][0] >= p->o.to.size ? begin_packs : check_leaves;
	return PRUNE_MORE;
}

/* --- all ------------------------------------------------------------------------------------- */

static bool
is_there(const struct prune *p, struct which *ret)
{
	struct stat st;

	if (fstatat(p->s->logdir, LOG_PRUNE, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	*ret = (struct which){st.st_dev, st.st_ino, st.st_ctim};
	return true;
}

int
prune_step(struct prune *p, struct err *err)
{
	struct which now = {0};
	bool there = is_there(p, &now);
	int r;

	if (p->phase != NULL && p->phase != order_done && (!there || !same(&now, &p->is))) {
		log_info("pruning stops where it is: its order was taken away");
		end(p);
	}
	if (p->phase == NULL) {
		p->is = now;
		return there && !same(&now, &p->refused) ? begin(p) : PRUNE_IDLE;
	}
	r = p->phase(p, err);
	return r < 0 ? err_wrap(err, "pruning") : r;
}

uint64_t
prune_to(const struct prune *p)
{
	return p->to;
}

struct prune *
prune_new(struct store *s)
{
	struct prune *p = xcalloc(1, sizeof(*p));

	p->s = s;
	p->fd = p->keptdir = -1;
	return p;
}

void
prune_free(struct prune *p)
{
	if (p == NULL)
		return;
	end(p);
	free(p);
}
