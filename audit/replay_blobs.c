/*
 * Opens sealed content for whoever replays a log. Runs in the command line as that person, who
 * may or may not be allowed to read the keys. Key ids come from the log: none of them becomes a
 * path that leaves the key directory.
 */
#include "audit/replay_blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/erasure.h"
#include "audit/pack.h"
#include "audit/segment.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct place {
	struct hash ct;
	uint64_t pack, off;
	size_t len;
};

struct replay_blobs {
	int logdir, keysdir;
	struct place *place; /* ascending by ct */
	size_t n, cap;
	char kid[72]; /* of the key held, "" none */
	struct secret *key;
	int pack; /* the one read last, -1: none; and its number */
	uint64_t pack_number;
	struct erasures *erased; /* read when a key is missed for the first time */
};

static int
place_cmp(const void *a, const void *b)
{
	return memcmp(((const struct place *)a)->ct.b, ((const struct place *)b)->ct.b, HASH_LEN);
}

static int
index_pack(struct replay_blobs *b, uint64_t number, struct err *err)
{
	struct pack *p = NULL;
	struct str frame;
	struct hash ct;
	int r = pack_open(b->logdir, number, &p, err);

	while (r == 0 && (r = pack_next(p, &frame, &ct, err)) == 1) {
		r = 0;
		if (b->n == b->cap) {
			b->cap = b->cap != 0 ? 2 * b->cap : 64;
			b->place = xreallocarray(b->place, b->cap, sizeof(*b->place));
		}
		b->place[b->n++] = (struct place){
		    .ct = ct, .pack = number, .off = pack_tell(p) - frame.n, .len = frame.n};
	}
	pack_free(p);
	return r;
}

static int
index_packs(struct replay_blobs *b, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	int r = log_or_none(log_files_list(b->logdir, LOG_BLOB, LOG_PACK, NULL, &files, err), err);

	b->n = 0;
	cleanup_close_fd(&b->pack);
	for (size_t i = 0; r == 0 && i < files.n[0]; i++)
		r = index_pack(b, files.number[0][i], err);
	if (r == 0 && b->n != 0)
		qsort(b->place, b->n, sizeof(*b->place), place_cmp);
	return r;
}

int
replay_blobs_open(int logdir, int keysdir, struct replay_blobs **ret, struct err *err)
{
	struct replay_blobs *b = xcalloc(1, sizeof(*b));
	int r;

	b->logdir = logdir;
	b->keysdir = keysdir;
	b->pack = -1;
	if ((r = index_packs(b, err)) != 0) {
		replay_blobs_free(b);
		return r;
	}
	*ret = b;
	return 0;
}

void
replay_blobs_free(struct replay_blobs *b)
{
	if (b == NULL)
		return;
	cleanup_close_fd(&b->pack);
	secret_free(b->key);
	erasures_free(b->erased);
	free(b->place);
	free(b);
}

/* The key is not there: is that as it should be? */
static int
key_missing(struct replay_blobs *b, const char *kid, struct err *err)
{
	const struct erasure *e;
	int r = b->erased == NULL ? erasures_read(b->logdir, &b->erased, err) : 0;

	if (r != 0)
		return r;
	e = erasures_find(b->erased, str_z(kid));
	if (e == NULL)
		return err_set(err, ERR_UNAVAILABLE,
		    "key %s is missing, and no record says that it was erased", kid);
	return err_set(err, ERR_UNAVAILABLE, "erased: record %" PRIu64 ", %s", e->seq, e->time);
}

static int
load_key(struct replay_blobs *b, const char *kid, struct err *err)
{
	AUTO_FD int fd = -1;
	char name[96];
	int r;

	if (b->key != NULL && strcmp(b->kid, kid) == 0)
		return 0;
	secret_free(TAKE_PTR(b->key));
	if (!record_run_ok(str_z(kid)) || kid[0] == '.')
		return err_set(err, ERR_TAMPER, "key id is not of the form");
	(void)snprintf(name, sizeof(name), "%s.key", kid);
	if (b->keysdir < 0)
		return err_set(err, ERR_UNAVAILABLE, "sealed: no keys are readable here");
	r = log_open_file(b->keysdir, name, O_RDONLY, &fd, err);
	if (r == ERR_NOT_FOUND)
		return key_missing(b, kid, err);
	if (r != 0 || secret_read_fd(fd, BLOB_KEY_LEN, &b->key, NULL) != 0)
		return err_set(err, ERR_UNAVAILABLE, "sealed: key %s is not readable here", kid);
	(void)snprintf(b->kid, sizeof(b->kid), "%s", kid);
	return 0;
}

static int
open_pack(struct replay_blobs *b, uint64_t number, struct err *err)
{
	char name[LOG_NAME_SIZE];
	AUTO_FD int dir = -1;
	int r;

	if (b->pack >= 0 && b->pack_number == number)
		return 0;
	cleanup_close_fd(&b->pack);
	log_name(name, number, LOG_PACK);
	if ((r = log_open_dir(b->logdir, LOG_BLOB, &dir, err)) != 0 ||
	    (r = log_open_file(dir, name, O_RDONLY, &b->pack, err)) != 0)
		return r;
	b->pack_number = number;
	return 0;
}

static int
read_frame(struct replay_blobs *b, const struct hash *ct, struct buf *out, struct err *err)
{
	const struct place want = {.ct = *ct};
	const struct place *at =
	    b->n != 0 ? bsearch(&want, b->place, b->n, sizeof(want), place_cmp) : NULL;
	size_t got;
	int r;

	if (at == NULL)
		return err_set(err, ERR_NOT_FOUND, "content is in no pack");
	if ((r = open_pack(b, at->pack, err)) != 0)
		return r;
	return log_pread(b->pack, buf_grow(out, at->len), at->len, at->off, &got, err);
}

/* A prune puts a smaller pack in the place of one: its frames are looked for again. */
static int
find_frame(struct replay_blobs *b, const struct hash *ct, struct buf *out, struct err *err)
{
	struct hash is;
	size_t len;
	int r = read_frame(b, ct, out, err);

	if (r != 0 || (blob_frame_check(buf_str(out), &len, &is, NULL) == 0 && hash_eq(&is, ct)))
		return r;
	buf_reset(out);
	r = index_packs(b, err);
	return r != 0 ? r : read_frame(b, ct, out, err);
}

int
replay_blobs_read(struct replay_blobs *b, struct str ref, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf frame = BUF(BLOB_PLAIN_MAX + 4096);
	struct blob_ref r;
	int rc;

	if ((rc = json_parse(ref, "blob reference", &doc, err)) != 0 ||
	    (rc = blob_ref_parse(json_root(doc), &r, err)) != 0 ||
	    (rc = find_frame(b, &r.ct, &frame, err)) != 0 || (rc = load_key(b, r.kid, err)) != 0)
		return rc;
	return blob_open(b->key, buf_str(&frame), &r, out, err);
}
