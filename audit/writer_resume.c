/*
 * Where a start may begin to read: what the log and its live records came to at the beginning of a
 * segment. Runs in the writer alone. Trusts no such file: one counts only if the log.segment record
 * there has its hash and a checkpoint covers that record; else the log is read from its beginning.
 * It must never stand in for records: readers and verifiers know nothing of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "audit/canon.h"
#include "audit/writer_int.h"

#include "common/banned.h"

#define MAGIC "CFL1"
#define RESUME_MAX ((size_t)256 << 20)
#define KEPT 2 /* the log.segment of the newest may not have been signed */

int
resume_put(struct store *s, struct hash *ret, bool *ret_is, struct err *err)
{
	AUTO_BUF struct buf b = BUF(RESUME_MAX);
	const struct tail *at = &s->committed;
	char name[LOG_NAME_SIZE];
	int r;

	*ret_is = false;
	buf_put_z(&b, MAGIC);
	buf_u64(&b, at->tree.size);
	buf_put(&b, at->head.b, HASH_LEN);
	buf_u8(&b, s->serving ? 0 : 1);
	for (size_t i = 0; i < TREE_LEVELS; i++)
		if ((at->tree.size >> i & 1) != 0)
			buf_put(&b, at->tree.node[i].b, HASH_LEN);
	if ((s->opts.save != NULL && !s->opts.save(s->opts.arg, &b)) || buf_over(&b))
		return 0;
	log_name(name, at->tree.size, "");
	r = files_replace(s->livedir, name, buf_str(&b), 0400, err);
	if (r != 0)
		return err_wrap(err, "live/%s", name);
	*ret = hash_sha256(buf_str(&b));
	*ret_is = true;
	return 0;
}

int
resume_tidy(struct store *s, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	int r = log_files_list(s->logdir, LOG_LIVE, "", NULL, &files, err);

	for (size_t i = 0; r == 0 && i + KEPT < files.n[0]; i++) {
		char name[LOG_NAME_SIZE];

		log_name(name, files.number[0][i], "");
		if (unlinkat(s->livedir, name, 0) != 0)
			r = err_sys(err, ERR_SYSTEM, errno, "live/%s", name);
	}
	return r;
}

/* The log.segment record that begins this segment: what it says of the file. */
static bool
first_record(const struct store *s, uint64_t first, struct hash *ret_live, struct hash *ret_root)
{
	struct segment *seg = NULL;
	struct str line, body;
	struct record rec;
	struct hash leaf;
	uint64_t off;
	bool ok;

	if (segment_open(s->segdir, first, &seg, NULL) != 0)
		return false;
	ok = segment_next(seg, &line, &off, NULL) == SEGMENT_LINE &&
	     record_parse_line(line, &body, &leaf, NULL) == 0 &&
	     record_parse(body, &rec, NULL) == 0 && rec.seq == first &&
	     str_eqz(rec.type, "log.segment") &&
	     hash_from_hex(canon_plain(canon_get(rec.data, "live")), ret_live) &&
	     hash_from_hex(canon_plain(canon_get(rec.data, "root")), ret_root);
	segment_free(seg);
	return ok;
}

static void
take_hash(struct rd *in, struct hash *ret)
{
	struct str s = rd_bytes(in, HASH_LEN);

	if (!in->bad)
		memcpy(ret->b, s.p, HASH_LEN);
}

static bool
parse(struct rd *in, uint64_t first, const struct hash *want, struct resume *ret)
{
	struct str magic = rd_bytes(in, 4);
	struct hash root;

	*ret = (struct resume){.tree.size = rd_u64(in)};
	if (!str_eqz(magic, MAGIC) || ret->tree.size != first)
		return false;
	take_hash(in, &ret->head);
	ret->of_start = rd_u8(in) != 0;
	for (size_t i = 0; !in->bad && i < TREE_LEVELS; i++)
		if ((first >> i & 1) != 0)
			take_hash(in, &ret->tree.node[i]);
	root = tree_root(&ret->tree);
	return !in->bad && hash_eq(&root, want);
}

static bool
try_one(struct store *s, uint64_t first, struct resume *ret)
{
	AUTO_BUF struct buf b = BUF(RESUME_MAX);
	struct hash want, root, is;
	char name[LOG_NAME_SIZE];
	struct rd in;

	log_name(name, first, "");
	if (!first_record(s, first, &want, &root) || log_read_file(s->livedir, name, &b, NULL) != 0)
		return false;
	is = hash_sha256(buf_str(&b));
	in = rd_init(buf_str(&b));
	if (!hash_eq(&is, &want) || !parse(&in, first, &root, ret))
		return false;
	if (s->opts.restore != NULL)
		return s->opts.restore(s->opts.arg, &in);
	return true;
}

int
resume_find(struct store *s, uint64_t signed_size, struct resume *ret, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	int r = log_files_list(s->logdir, LOG_LIVE, "", NULL, &files, err);

	*ret = (struct resume){0};
	if (r != 0)
		return r;
	for (size_t i = files.n[0]; i-- != 0;)
		if (files.number[0][i] != 0 && files.number[0][i] < signed_size &&
		    try_one(s, files.number[0][i], ret))
			return 0;
	*ret = (struct resume){0};
	return 0;
}

/* What is not read is at least there: each sealed segment as long as its leaves say. */
int
resume_check_skipped(struct store *s, const struct log_files *f, uint64_t first, struct err *err)
{
	for (size_t i = 0; i + 1 < f->n[0] && f->number[0][i] < first; i++) {
		uint64_t n = f->number[0][i + 1] - f->number[0][i];
		char name[LOG_NAME_SIZE];
		struct stat st;

		log_name(name, f->number[0][i], LOG_LEAVES);
		if (fstatat(s->segdir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
			continue;
		if ((uint64_t)st.st_size != n * HASH_LEN)
			return err_set(err, ERR_TAMPER,
			    "refused: %s has %" PRId64 " bytes, the next segment is %" PRIu64
			    " records further: one is missing",
			    name, (int64_t)st.st_size, n);
	}
	return 0;
}
