/*
 * Chooses and copies what must stay of segments that are to be pruned: all lines of runs of which
 * any record stays, policies and what else verdicts and starts rest on, lines that still count for
 * a rate, and the sealed frames that these or later records name. Runs in the command line; adds
 * files and takes nothing away but what an abandoned plan had added.
 */
#include "audit/prune_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/canon.h"
#include "audit/pack.h"
#include "audit/pruned.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define FILE_MAX ((size_t)1 << 30)

struct set {
	struct hash *p;
	size_t n;
};

struct keep {
	int logdir, keptdir; /* keptdir -1: nothing is written */
	uid_t uid;	     /* whose the log is */
	gid_t gid;
	const struct log_files *seg;
	struct prune_order *o;
	int64_t last_us;
	struct set runs, frames; /* of records that stay */
	size_t at;		 /* segment that is being read, plus one */
	struct buf lines, leaves;
};

/* --- sets ------------------------------------------------------------------------------------- */

static void
set_add(struct set *s, const struct hash *h)
{
	if (s->n != 0 && hash_eq(&s->p[s->n - 1], h))
		return;
	if ((s->n & (s->n - 1)) == 0) /* full at each power of two */
		s->p = xreallocarray(s->p, s->n != 0 ? s->n * 2 : 1, sizeof(*s->p));
	s->p[s->n++] = *h;
}

static int
hash_cmp(const void *a, const void *b)
{
	return memcmp(a, b, HASH_LEN);
}

/* Sorted, each once; what is added later is found after the next time. */
static void
set_sort(struct set *s)
{
	size_t n = 0;

	if (s->n == 0)
		return;
	qsort(s->p, s->n, sizeof(*s->p), hash_cmp);
	for (size_t i = 0; i < s->n; i++)
		if (n == 0 || !hash_eq(&s->p[n - 1], &s->p[i]))
			s->p[n++] = s->p[i];
	/* Room is told from the number: as much as that number had. */
	s->p = xreallocarray(s->p, (size_t)1 << (64 - __builtin_clzll(n)), sizeof(*s->p));
	s->n = n;
}

static bool
set_has(const struct set *s, const struct hash *h)
{
	return s->n != 0 && bsearch(h, s->p, s->n, sizeof(*s->p), hash_cmp) != NULL;
}

/* --- which lines -------------------------------------------------------------------------------
 */

bool
prune_keep_type(struct str type)
{
	static const char *const kept[] = {
	    "policy.load", "policy.unload", "erasure", "log.open", "log.key", "log.prune"};
	static const char *const kinds[] = {"freeze.", "exception.", "breakglass."};

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (str_eqz(type, kept[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_has_prefix(type, kinds[i]))
			return !str_has_suffix(type, ".rejected");
	return false;
}

/* Counts it in a rule's window that was not over when the log's last record was written? */
static bool
counts(const struct keep *k, const struct record *r)
{
	struct str decision = canon_get(r->data, "decision"), list = canon_get(decision, "counted");
	AUTO(json) struct json_doc *doc = NULL;
	int64_t at;

	if (list.n == 0 || clock_parse(canon_plain(canon_get(decision, "at")), &at, NULL) != 0 ||
	    json_parse(list, "counted", &doc, NULL) != 0)
		return false;
	for (size_t i = 0; i < json_count(json_root(doc)); i++)
		if (json_int(json_get(json_at(json_root(doc), i), "in")) >
		    (k->last_us - at) / 1000000 - 1)
			return true;
	return false;
}

static struct hash
run_name(const struct record *r)
{
	return hash_sha256(r->run);
}

static bool
is_kept(const struct keep *k, const struct record *r)
{
	struct hash run;

	if (prune_keep_type(r->type))
		return true;
	if (str_eqz(r->type, "action") && counts(k, r))
		return true;
	if (r->run.n == 0)
		return false;
	run = run_name(r);
	return set_has(&k->runs, &run);
}

/* --- files --------------------------------------------------------------------------------------
 */

static int
put(struct keep *k, const char *sub, uint64_t number, const char *suffix, struct str bytes,
    struct err *err)
{
	AUTO_FD int dir = -1, fd = -1;
	char name[LOG_NAME_SIZE], tmp[LOG_NAME_SIZE + 8];
	size_t done = 0;
	int r = log_open_dir(k->logdir, sub, &dir, err);

	if (r != 0)
		return r;
	log_name(name, number, suffix);
	(void)snprintf(tmp, sizeof(tmp), LOG_TMP "-%s", name);
	if (unlinkat(dir, tmp, 0) != 0 && errno != ENOENT)
		return err_sys(err, ERR_SYSTEM, errno, "%s", tmp);
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0440);
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s/%s", sub, tmp);
	while (done < bytes.n) {
		ssize_t n = write(fd, bytes.p + done, bytes.n - done);

		if (n < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "%s/%s", sub, name);
		done += n > 0 ? (size_t)n : 0;
	}
	if ((geteuid() == 0 && fchown(fd, k->uid, k->gid) != 0) || fsync(fd) != 0 ||
	    renameat(dir, tmp, dir, name) != 0 || fsync(dir) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s/%s", sub, name);
	return 0;
}

/* kept/, without what a plan that came to nothing left for segments that are there. */
static int
clean(struct keep *k, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	int r;

	if (mkdirat(k->logdir, LOG_KEPT, 0700) != 0 && errno != EEXIST)
		return err_sys(err, ERR_SYSTEM, errno, LOG_KEPT);
	if ((r = log_open_dir(k->logdir, LOG_KEPT, &k->keptdir, err)) != 0)
		return r;
	if (geteuid() == 0 && fchown(k->keptdir, k->uid, k->gid) != 0)
		return err_sys(err, ERR_SYSTEM, errno, LOG_KEPT);
	if ((r = log_files_list(k->logdir, LOG_KEPT, LOG_LINES, LOG_PACK, &files, err)) != 0)
		return r;
	for (int which = 0; which < 2; which++)
		for (size_t i = 0; i < files.n[which]; i++) {
			char name[LOG_NAME_SIZE];

			log_name(name, files.number[which][i], which == 0 ? LOG_LINES : LOG_PACK);
			if (files.number[which][i] >= k->o->from &&
			    unlinkat(k->keptdir, name, 0) != 0)
				return err_sys(err, ERR_SYSTEM, errno, LOG_KEPT "/%s", name);
		}
	return 0;
}

static uint64_t
file_size(int logdir, const char *sub, uint64_t number, const char *suffix)
{
	char name[LOG_NAME_SIZE], path[LOG_NAME_SIZE + 8];
	struct stat st;

	log_name(name, number, suffix);
	(void)snprintf(path, sizeof(path), "%s/%s", sub, name);
	return fstatat(logdir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
}

/* --- the pass over the lines -------------------------------------------------------------- */

/* The segment that was being read has ended. */
static int
segment_end(struct keep *k, struct hash_ctx *digest, struct err *err)
{
	uint64_t number = k->seg->number[0][k->at - 1];
	struct hash is;
	int r = 0;

	k->o->bytes += file_size(k->logdir, LOG_SEG, number, LOG_LINES) - k->lines.n;
	if (buf_over(&k->lines) || buf_over(&k->leaves))
		return err_set(err, ERR_TOO_LARGE, "segment %" PRIu64 " is too large", number);
	if (k->keptdir >= 0 && k->lines.n != 0)
		r = put(k, LOG_KEPT, number, LOG_LINES, buf_str(&k->lines), err);
	if (r == 0 && k->keptdir >= 0 && !log_files_has(k->seg, 1, number))
		r = put(k, LOG_SEG, number, LOG_LEAVES, buf_str(&k->leaves), err);
	if (k->lines.n != 0) {
		uint8_t be[8];

		for (int i = 0; i < 8; i++)
			be[i] = (uint8_t)(number >> (56 - 8 * i));
		is = hash_sha256(buf_str(&k->lines));
		hash_add(digest, be, sizeof(be));
		hash_add(digest, is.b, HASH_LEN);
	}
	buf_reset(&k->lines);
	buf_reset(&k->leaves);
	return r;
}

static void
take(struct keep *k, const struct record *r)
{
	struct hash ct, leaf;

	leaf = record_leaf(r->body);
	buf_put(&k->leaves, leaf.b, HASH_LEN);
	if (!is_kept(k, r))
		return;
	record_line(&k->lines, r->body, &leaf);
	k->o->kept++;
	if (pack_ref_ct(r, &ct))
		set_add(&k->frames, &ct);
}

static int
read_lines(struct keep *k, struct hash_ctx *digest, struct err *err)
{
	struct chain *c = NULL;
	struct record rec;
	struct hash leaf;
	int r = chain_open(k->logdir, 0, &c, err);

	while (r == 0 && (r = chain_next(c, &rec, &leaf, err)) == 1) {
		r = 0;
		if (chain_is_kept(c))
			continue;
		if (k->at == 0)
			k->at = 1;
		if (chain_segment(c) != k->seg->number[0][k->at - 1]) {
			r = segment_end(k, digest, err);
			k->at++;
		}
		if (r == 0 && rec.seq >= k->o->to.size)
			break;
		if (r == 0)
			take(k, &rec);
		if (r == 0 && chain_size(c) == k->o->to.size)
			k->o->to.root = tree_root(chain_tree(c));
	}
	chain_free(c);
	return r;
}

/* What the records that stay belong to and name. */
static int
read_staying(struct keep *k, struct err *err)
{
	struct chain *c = NULL;
	struct record rec;
	struct hash leaf, h;
	int r = chain_open(k->logdir, 0, &c, err);

	while (r == 0 && (r = chain_next(c, &rec, &leaf, err)) == 1) {
		r = 0;
		if (rec.seq < k->o->to.size && !chain_is_kept(c))
			continue;
		if (rec.run.n != 0 && rec.seq >= k->o->to.size) {
			h = run_name(&rec);
			set_add(&k->runs, &h);
		}
		if (pack_ref_ct(&rec, &h))
			set_add(&k->frames, &h);
	}
	set_sort(&k->runs);
	if (r == 0 && chain_fault(c)->kind != LOG_KIND_NONE &&
	    chain_fault(c)->kind != LOG_KIND_TORN)
		r = err_set(
		    err, ERR_TAMPER, "the log does not hold at seq %" PRIu64, chain_fault(c)->seq);
	chain_free(c);
	return r;
}

/* --- packs
 * ------------------------------------------------------------------------------------------ */

static int
read_pack(struct keep *k, uint64_t number, struct err *err)
{
	AUTO_BUF struct buf needed = BUF(FILE_MAX);
	struct pack *p = NULL;
	struct str frame;
	struct hash ct;
	int r = pack_open(k->logdir, number, &p, err);

	if (r == ERR_NOT_FOUND) {
		err_clear(err);
		return 0;
	}
	while (r == 0 && (r = pack_next(p, &frame, &ct, err)) == 1) {
		r = 0;
		if (set_has(&k->frames, &ct))
			buf_put_str(&needed, frame);
	}
	pack_free(p);
	if (r == 0 && buf_over(&needed))
		r = err_set(err, ERR_TOO_LARGE, "pack %" PRIu64 " is too large", number);
	if (r == 0)
		k->o->bytes += file_size(k->logdir, LOG_BLOB, number, LOG_PACK) - needed.n;
	if (r == 0 && k->keptdir >= 0)
		r = put(k, LOG_KEPT, number, LOG_PACK, buf_str(&needed), err);
	return r;
}

int
prune_keep(int logdir, const struct log_files *seg, int64_t last_us, bool write,
    struct prune_plan *plan, struct err *err)
{
	struct keep k = {.logdir = logdir,
	    .keptdir = -1,
	    .seg = seg,
	    .o = &plan->order,
	    .last_us = last_us,
	    .lines = BUF(FILE_MAX),
	    .leaves = BUF(FILE_MAX)};
	struct hash_ctx *digest = hash_begin();
	struct stat st;
	int r = fstat(logdir, &st) != 0 ? err_sys(err, ERR_SYSTEM, errno, "log directory") : 0;

	k.uid = st.st_uid;
	k.gid = st.st_gid;
	if (r == 0 && write)
		r = clean(&k, err);
	if (r == 0)
		r = read_staying(&k, err);
	if (r == 0)
		r = read_lines(&k, digest, err);
	k.o->kept_sha256 = hash_end(digest);
	set_sort(&k.frames);
	for (size_t i = 0; r == 0 && i < seg->n[0] && seg->number[0][i] < k.o->to.size; i++) {
		k.o->segments++;
		r = read_pack(&k, seg->number[0][i], err);
	}
	plan->runs = k.runs.n;
	cleanup_close_fd(&k.keptdir);
	buf_free(&k.lines);
	buf_free(&k.leaves);
	free(k.runs.p);
	free(k.frames.p);
	return r;
}
