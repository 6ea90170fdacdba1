/*
 * Makes and checks proofs of single records. Runs in the command line. The maker trusts no byte of
 * the log but what the checkpoint's root confirms; the checker takes a file from anybody and
 * accepts one spelling of each part of it. Signs nothing.
 */
#include "audit/proof.h"

#include <assert.h>
#include <inttypes.h>

#include "audit/leaves.h"
#include "audit/segment.h"
#include "audit/tree.h"

#include "common/banned.h"

#define TITLE "c2sp.org/tlog-proof@v1"
#define LEAVES_MAX ((size_t)1 << 36) /* bytes: two billion records */

/* --- leaves of a log --------------------------------------------------------------------- */

static void
take_leaf(void *arg, uint64_t seq UNUSED, const struct hash *leaf, bool ends UNUSED)
{
	buf_put(arg, leaf->b, HASH_LEN);
}

/* The line of a pruned record, if it was kept. */
static int
body_kept(int logdir, const struct log_files *files, uint64_t seq, const struct hash *leaf,
    struct buf *body, struct err *err)
{
	AUTO_FD int keptdir = -1;
	struct segment *s = NULL;
	struct str line, b;
	struct hash is;
	uint64_t off, at = 0;

	for (size_t i = 0; i < files->n[1] && files->number[1][i] <= seq; i++)
		at = files->number[1][i];
	if (log_open_dir(logdir, LOG_KEPT, &keptdir, NULL) == 0 &&
	    segment_open(keptdir, at, &s, NULL) == 0)
		while (body->n == 0 && segment_next(s, &line, &off, NULL) == SEGMENT_LINE)
			if (record_parse_line(line, &b, &is, NULL) == 0 && hash_eq(&is, leaf))
				buf_put_str(body, b);
	segment_free(s);
	return body->n != 0
		   ? 0
		   : err_set(err, ERR_NOT_FOUND,
			 "record %" PRIu64 " was pruned: its line is not here; --line FILE "
			 "proves a copy of it",
			 seq);
}

/* The BODY of record seq, whose leaf is known. */
static int
body_read(int logdir, int segdir, const struct log_files *files, uint64_t seq,
    const struct hash *leaf, struct buf *body, struct err *err)
{
	struct segment *s = NULL;
	struct str line, b = STR_NONE;
	struct hash is = {{0}};
	uint64_t off, at;
	size_t i = 0;
	int r;

	while (i + 1 < files->n[0] && files->number[0][i + 1] <= seq)
		i++;
	if (files->n[0] == 0 || files->number[0][i] > seq)
		return body_kept(logdir, files, seq, leaf, body, err);
	if ((r = segment_open(segdir, files->number[0][i], &s, err)) != 0)
		return r;
	for (at = files->number[0][i]; at <= seq; at++)
		if (segment_next(s, &line, &off, NULL) != SEGMENT_LINE)
			break;
	if (at > seq && record_parse_line(line, &b, &is, NULL) == 0 && hash_eq(&is, leaf))
		buf_put_str(body, b);
	segment_free(s);
	return body->n != 0 ? 0
			    : err_set(err, ERR_TAMPER,
				  "record %" PRIu64 " is not the one that was signed", seq);
}

/* --- making ------------------------------------------------------------------------------ */

static void
put(struct buf *out, struct str body, uint64_t seq, const struct hash *path, size_t npath,
    struct str note)
{
	buf_put_z(out, TITLE "\nextra ");
	enc_base64(out, body);
	buf_printf(out, "\nindex %" PRIu64 "\n", seq);
	for (size_t i = 0; i < npath; i++) {
		enc_base64(out, str_mem(path[i].b, HASH_LEN));
		buf_put_c(out, '\n');
	}
	buf_put_c(out, '\n');
	buf_put_str(out, note);
}

/* A line that somebody has: of this log if it has the leaf that was signed. */
static int
body_given(
    struct str line, uint64_t seq, const struct hash *leaf, struct buf *body, struct err *err)
{
	struct str b;
	struct hash is;

	if (record_parse_line(line, &b, &is, err) != 0)
		return err_wrap(err, "the line given");
	if (!hash_eq(&is, leaf))
		return err_set(err, ERR_TAMPER,
		    "the line given is not record %" PRIu64 " as it was signed", seq);
	buf_put_str(body, b);
	return 0;
}

static int
make(int logdir, const struct checkpoint *cp, struct str note, uint64_t seq, struct str line,
    struct buf *out, struct err *err)
{
	AUTO_BUF struct buf leaves = BUF(LEAVES_MAX), body = BUF(RECORD_BODY_MAX);
	AUTO_LOG_FILES struct log_files files = {0};
	struct hash path[TREE_PROOF_MAX], root;
	struct leaves_place at = {.seq = 0};
	const struct hash *leaf;
	AUTO_FD int segdir = -1;
	int r = log_open_dir(logdir, LOG_SEG, &segdir, err);

	if (r == 0)
		r = log_files_list(logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &files, err);
	if (r == 0)
		r = leaves_each(segdir, &files, &at, cp->size, take_leaf, &leaves, err);
	if (r == 0 && buf_over(&leaves))
		r = err_set(err, ERR_TOO_LARGE, "%" PRIu64 " records are too many", cp->size);
	if (r != 0)
		return r;
	leaf = (const struct hash *)(const void *)leaves.p;
	root = tree_root_of(leaf, cp->size);
	if (!hash_eq(&root, &cp->root))
		return err_set(err, ERR_TAMPER,
		    "the log is not the one that was signed up to size %" PRIu64
		    ": `cofferdam log verify` says where",
		    cp->size);
	r = line.n != 0 ? body_given(line, seq, &leaf[seq], &body, err)
			: body_read(logdir, segdir, &files, seq, &leaf[seq], &body, err);
	if (r != 0)
		return r;
	put(out, buf_str(&body), seq, path, tree_inclusion(leaf, cp->size, seq, path), note);
	return 0;
}

int
proof_make(int logdir, const struct vkeys *keys, struct str note, uint64_t seq, struct str line,
    struct buf *out, struct err *err)
{
	const struct vkey *key;
	struct checkpoint cp;
	uint64_t first = log_first(logdir);
	int r = checkpoint_open(note, keys, &cp, &key, err);

	if (r != 0)
		return r;
	if (seq >= cp.size)
		return err_set(err, ERR_NOT_FOUND,
		    "record %" PRIu64 " is not covered: the checkpoint is of size %" PRIu64, seq,
		    cp.size);
	do { /* again where segments went while they were read; each time there are fewer */
		err_clear(err);
		r = make(logdir, &cp, note, seq, line, out, err);
	} while (log_first_moved(logdir, &first) && r != 0);
	return r;
}

/* --- checking ------------------------------------------------------------------------------ */

struct parts {
	uint64_t index;
	struct hash path[TREE_PROOF_MAX];
	size_t npath;
	struct str note;
};

static bool
take_word(struct str *line, const char *word)
{
	size_t n = strlen(word);

	if (!str_has_prefix(*line, word))
		return false;
	*line = str_mem(line->p + n, line->n - n);
	return true;
}

static int
split_path(struct str *left, struct parts *p, struct err *err)
{
	struct str line;

	for (p->npath = 0; str_cut(left, '\n', &line); p->npath++) {
		AUTO_BUF struct buf h = BUF(HASH_LEN + 2);

		if (line.n == 0)
			return 0;
		if (p->npath == TREE_PROOF_MAX || !enc_unbase64(line, &h) || h.n != HASH_LEN)
			return err_set(
			    err, ERR_TAMPER, "line %zu of the path is no hash", p->npath + 1);
		memcpy(p->path[p->npath].b, h.p, HASH_LEN);
	}
	return err_set(err, ERR_TAMPER, "the path does not end");
}

static int
split(struct str file, struct buf *body, struct parts *p, struct err *err)
{
	struct str line;
	int r;

	if (file.n > PROOF_MAX || !str_cut(&file, '\n', &line) || !str_eqz(line, TITLE))
		return err_set(err, ERR_TAMPER, "does not begin with " TITLE);
	if (!str_cut(&file, '\n', &line) || !take_word(&line, "extra ") ||
	    !enc_unbase64(line, body) || body->n > RECORD_BODY_MAX)
		return err_set(err, ERR_TAMPER, "has no record as its extra data");
	if (!str_cut(&file, '\n', &line) || !take_word(&line, "index ") ||
	    !str_to_u64(line, INT64_MAX, &p->index))
		return err_set(err, ERR_TAMPER, "has no index");
	if ((r = split_path(&file, p, err)) != 0)
		return r;
	p->note = file;
	return 0;
}

int
proof_open(
    struct str file, const struct vkeys *keys, struct buf *body, struct proof *ret, struct err *err)
{
	struct proof proof = {.key = NULL};
	struct parts p = {.npath = 0};
	struct hash leaf;
	int r = split(file, body, &p, err);

	if (r == 0)
		r = checkpoint_open(p.note, keys, &proof.cp, &proof.key, err);
	if (r == 0)
		r = record_parse(buf_str(body), &proof.record, err);
	if (r != 0)
		return r;
	if (proof.record.seq != p.index)
		return err_set(err, ERR_TAMPER,
		    "index is %" PRIu64 ", the record's number %" PRIu64, p.index,
		    proof.record.seq);
	leaf = record_leaf(buf_str(body));
	if (!tree_inclusion_ok(&leaf, p.index, proof.cp.size, p.path, p.npath, &proof.cp.root))
		return err_set(err, ERR_TAMPER,
		    "record %" PRIu64 " is not in the log that was signed at size %" PRIu64,
		    p.index, proof.cp.size);
	*ret = proof;
	return 0;
}
