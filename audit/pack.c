/*
 * Reads packs of sealed blobs. Runs in the writer (recovery), the verifier and replay, none of
 * which needs a key for it. A pack may be cut or changed: lengths in it are held against the
 * limits, and after damage the reading goes on at the next whole frame.
 */
#include "audit/pack.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "audit/canon.h"
#include "audit/segment.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* Twice the largest frame, so that one is always whole in it. */
#define WINDOW (2 * (BLOB_PLAIN_MAX + 4096))

/* Where records refer to blobs; nothing else in them is taken for a reference. */
static const struct {
	const char *type; /* a trailing '*' stands for any ending */
	const char *member, *inner;
} refs[] = {
    {"policy.load", "bundle", NULL},
    {"run.start", "task", NULL},
    {"run.message", "content", NULL},
    {"agent.*", "content", NULL},
    {"action", "request", "head"},
    {"approval.request", "show", NULL},
    {"outcome", "answer", NULL},
};

bool
pack_ref(const struct record *r, struct str *ret_ref)
{
	for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
		struct str v;

		if (!str_glob(str_z(refs[i].type), r->type))
			continue;
		v = canon_get(r->data, refs[i].member);
		if (refs[i].inner != NULL)
			v = canon_get(v, refs[i].inner);
		if (v.n == 0 || *v.p != '{')
			return false;
		*ret_ref = v;
		return true;
	}
	return false;
}

bool
pack_ref_ct(const struct record *r, struct hash *ret_ct)
{
	struct str ref;

	/* Most records hold none at all, which is told faster so. */
	if (memmem(r->data.p, r->data.n, "\"ct\":\"", 6) == NULL)
		return false;
	return pack_ref(r, &ref) && hash_from_hex(canon_plain(canon_get(ref, "ct")), ret_ct);
}

/* --- reading --------------------------------------------------------------------------- */

struct pack {
	int fd;
	uint64_t size, off; /* of the byte at `at` */
	size_t at, n;
	bool skipped;
	uint64_t skipped_off;
	uint8_t *window;
};

int
pack_open(int logdir, uint64_t first, struct pack **ret, struct err *err)
{
	char name[LOG_NAME_SIZE];
	AUTO_FD int dir = -1, fd = -1;
	struct pack *p;
	struct stat st;
	int r;

	log_name(name, first, LOG_PACK);
	if ((r = log_open_dir(logdir, LOG_BLOB, &dir, err)) != 0 ||
	    (r = log_open_file(dir, name, O_RDONLY, &fd, err)) != 0)
		return r;
	if (fstat(fd, &st) != 0)
		return err_set(err, ERR_SYSTEM, "fstat of %s failed", name);
	p = xcalloc(1, sizeof(*p));
	p->fd = TAKE_FD(fd);
	p->size = (uint64_t)st.st_size;
	p->window = xmalloc(WINDOW);
	*ret = p;
	return 0;
}

void
pack_free(struct pack *p)
{
	if (p == NULL)
		return;
	(void)close(p->fd);
	free(p->window);
	free(p);
}

uint64_t
pack_tell(const struct pack *p)
{
	return p->off;
}

bool
pack_skipped(const struct pack *p, uint64_t *ret_off)
{
	*ret_off = p->skipped_off;
	return p->skipped;
}

/* Have the next WINDOW / 2 bytes, or all that are left, in the window. */
static int
fill(struct pack *p, struct err *err)
{
	uint64_t next = p->off + (p->n - p->at);
	size_t want, got = 0;
	int r;

	if (p->n - p->at >= WINDOW / 2 || next >= p->size)
		return 0;
	memmove(p->window, p->window + p->at, p->n - p->at);
	p->n -= p->at;
	p->at = 0;
	want = WINDOW - p->n;
	if (want > p->size - next)
		want = (size_t)(p->size - next);
	if ((r = log_pread(p->fd, p->window + p->n, want, next, &got, err)) != 0)
		return r;
	p->n += got;
	if (got < want)
		p->size = next + got;
	return 0;
}

static void
advance(struct pack *p, size_t n)
{
	p->at += n;
	p->off += n;
}

/* Past what is no frame, to where the next might begin. */
static void
resync(struct pack *p)
{
	const uint8_t *from = p->window + p->at;
	size_t left = p->n - p->at;
	size_t to = left > 1 ? 1 + blob_frame_find(str_mem(from + 1, left - 1)) : left;

	if (!p->skipped) {
		p->skipped = true;
		p->skipped_off = p->off;
	}
	if (to < left)
		advance(p, to);
	else /* a magic may be cut by the window's end */
		advance(p, left > 4 && p->off + left < p->size ? left - 3 : left);
}

int
pack_next(struct pack *p, struct str *ret_frame, struct hash *ret_ct, struct err *err)
{
	for (;;) {
		int r = fill(p, err);
		size_t len;

		if (r != 0)
			return r;
		if (p->at == p->n)
			return 0;
		if (blob_frame_check(
			str_mem(p->window + p->at, p->n - p->at), &len, ret_ct, NULL) == 0) {
			*ret_frame = str_mem(p->window + p->at, len);
			advance(p, len);
			return 1;
		}
		resync(p);
	}
}
