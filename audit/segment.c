/*
 * Names and lines of a log directory. Runs in the writer (recovery), the verifier and replay.
 * The directory may hold what an attacker put there: links are not followed, names that are not
 * ours are counted and named, a line has a maximum, a file is read up to its size at open.
 */
#include "audit/segment.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define DIGITS 20
#define WINDOW ((size_t)1 << 18)

static_assert(WINDOW > 2 * RECORD_LINE_MAX, "a window must hold a line");

void
log_name(char out[LOG_NAME_SIZE], uint64_t number, const char *suffix)
{
	int n = snprintf(out, LOG_NAME_SIZE, "%020" PRIu64 "%s", number, suffix);

	assert(n > 0 && n < LOG_NAME_SIZE);
}

static bool
parse_name(const char *name, const char *suffix, uint64_t *ret)
{
	uint64_t v = 0;

	if (strlen(name) != DIGITS + strlen(suffix) || strcmp(name + DIGITS, suffix) != 0)
		return false;
	for (int i = 0; i < DIGITS; i++) {
		unsigned d = (unsigned)(name[i] - '0');

		if (d > 9 || v > ((uint64_t)INT64_MAX - d) / 10)
			return false;
		v = v * 10 + d;
	}
	*ret = v;
	return true;
}

int
log_open_dir(int dirfd, const char *name, int *ret_fd, struct err *err)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err,
		    errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? ERR_NOT_FOUND
									  : ERR_SYSTEM,
		    errno, "%s", name);
	*ret_fd = fd;
	return 0;
}

int
log_or_none(int r, struct err *err)
{
	if (r != ERR_NOT_FOUND)
		return r;
	err_clear(err);
	return 0;
}

int
log_open_file(int dirfd, const char *name, int flags, int *ret_fd, struct err *err)
{
	/* O_NONBLOCK: a planted fifo must not hold us. */
	AUTO_FD int fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	struct stat st;

	if (fd < 0)
		return err_sys(
		    err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno, "%s", name);
	if (fstat(fd, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_TAMPER, "%s is not a regular file", name);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int
log_pread(int fd, void *p, size_t n, uint64_t off, size_t *ret_n, struct err *err)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = pread(fd, (uint8_t *)p + got, n - got, (off_t)(off + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "read at byte %" PRIu64, off + got);
		if (k == 0)
			break;
		got += (size_t)k;
	}
	*ret_n = got;
	return 0;
}

int
log_read_file(int dirfd, const char *name, struct buf *out, struct err *err)
{
	AUTO_FD int fd = -1;
	size_t had = out->n, n = 0;
	struct stat st;
	uint8_t *p;
	int r;

	if ((r = log_open_file(dirfd, name, O_RDONLY, &fd, err)) != 0)
		return r;
	if (fstat(fd, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	if (st.st_size < 0 || (uint64_t)st.st_size > out->max - had)
		return err_set(err, ERR_TOO_LARGE, "%s: %" PRId64 " bytes, limit %zu", name,
		    (int64_t)st.st_size, out->max - had);
	p = buf_grow(out, (size_t)st.st_size);
	if (log_pread(fd, p, (size_t)st.st_size, 0, &n, err) != 0)
		return err_wrap(err, "%s", name);
	out->n = had + n;
	return 0;
}

/* --- listing ------------------------------------------------------------------------- */

static void
note_foreign(struct log_files *f, const char *name)
{
	if (f->foreign++ == 0) {
		AUTO_FREE char *vis = log_vis(str_z(name));

		(void)snprintf(f->foreign_name, sizeof(f->foreign_name), "%s", vis);
	}
}

static bool
is_type(const struct dirent *e, unsigned char type)
{
	return e->d_type == type || e->d_type == DT_UNKNOWN;
}

static bool
is_skipped(const char *name)
{
	return str_has_prefix(str_z(name), LOG_TMP) || strcmp(name, ".") == 0 ||
	       strcmp(name, "..") == 0;
}

/* Of the log directory itself; lost+found where it is a file system of its own. */
static bool
belongs_in_root(const struct dirent *e)
{
	static const struct {
		const char *name;
		unsigned char type;
	} names[] = {{LOG_LOCK, DT_REG}, {LOG_BALLAST, DT_REG}, {LOG_CHECKPOINT, DT_REG},
	    {LOG_SEG, DT_DIR}, {LOG_CP, DT_DIR}, {LOG_BLOB, DT_DIR}, {LOG_TORN, DT_DIR},
	    {LOG_LIVE, DT_DIR}, {LOG_WIT, DT_DIR}, {LOG_EVIDENCE, DT_DIR}, {"key", DT_DIR},
	    {LOG_KEPT, DT_DIR}, {LOG_PRUNE, DT_REG}, {"lost+found", DT_DIR}};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(e->d_name, names[i].name) == 0)
			return is_type(e, names[i].type);
	return false;
}

static void
note_name(struct log_files *f, const struct dirent *e, const char *const suffix[2])
{
	uint64_t v;

	for (int i = 0; i < 2; i++) {
		if (suffix[i] == NULL || !parse_name(e->d_name, suffix[i], &v))
			continue;
		if (!is_type(e, DT_REG))
			break;
		if ((f->n[i] & (f->n[i] - 1)) == 0) /* full at each power of two */
			f->number[i] = xreallocarray(
			    f->number[i], f->n[i] != 0 ? f->n[i] * 2 : 1, sizeof(uint64_t));
		f->number[i][f->n[i]++] = v;
		return;
	}
	note_foreign(f, e->d_name);
}

static int
number_cmp(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* suffix NULL: the log directory itself. */
static int
list(int logdir, const char *sub, const char *const *suffix, struct log_files *ret, struct err *err)
{
	AUTO_LOG_FILES struct log_files f = {0};
	AUTO_FD int fd = -1;
	struct dirent *e;
	DIR *d;
	int r;

	if ((r = log_open_dir(logdir, sub, &fd, err)) != 0)
		return r;
	d = fdopendir(fd);
	if (d == NULL)
		return err_sys(err, ERR_SYSTEM, errno, "%s", sub);
	(void)TAKE_FD(fd);
	errno = 0;
	while ((e = readdir(d)) != NULL) {
		if (is_skipped(e->d_name))
			continue;
		if (suffix != NULL)
			note_name(&f, e, suffix);
		else if (!belongs_in_root(e))
			note_foreign(&f, e->d_name);
	}
	r = errno;
	(void)closedir(d);
	if (r != 0)
		return err_sys(err, ERR_SYSTEM, r, "%s", sub);
	for (int i = 0; i < 2; i++)
		if (f.n[i] != 0)
			qsort(f.number[i], f.n[i], sizeof(uint64_t), number_cmp);
	*ret = f;
	f = (struct log_files){0};
	return 0;
}

int
log_files_list(int logdir, const char *sub, const char *suffix0, const char *suffix1,
    struct log_files *ret, struct err *err)
{
	return list(logdir, sub, (const char *const[]){suffix0, suffix1}, ret, err);
}

int
log_root_list(int logdir, struct log_files *ret, struct err *err)
{
	return list(logdir, ".", NULL, ret, err);
}

bool
log_files_has(const struct log_files *f, int which, uint64_t number)
{
	for (size_t i = 0; i < f->n[which]; i++)
		if (f->number[which][i] == number)
			return true;
	return false;
}

void
log_files_free(struct log_files *f)
{
	free(f->number[0]);
	free(f->number[1]);
	*f = (struct log_files){0};
}

uint64_t
log_first(int logdir)
{
	AUTO_LOG_FILES struct log_files seg = {0};

	if (log_files_list(logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &seg, NULL) != 0)
		return 0;
	return seg.n[0] != 0 ? seg.number[0][0] : 0;
}

bool
log_first_moved(int logdir, uint64_t *first)
{
	uint64_t was = *first;

	*first = log_first(logdir);
	return *first > was;
}

bool
log_segments_pruned(int segdir, uint64_t first, struct log_files *f)
{
	struct log_files now = {0};

	if (log_files_list(segdir, ".", LOG_LINES, LOG_LEAVES, &now, NULL) != 0 || now.n[0] == 0 ||
	    now.number[0][0] <= first) {
		log_files_free(&now);
		return false;
	}
	log_files_free(f);
	*f = now;
	return true;
}

/* --- lines --------------------------------------------------------------------------- */

struct segment {
	int fd;
	uint64_t size, off; /* of the byte at `at` */
	size_t at, n;	    /* unread part of the window: at .. n */
	uint8_t window[WINDOW];
};

int
segment_open(int segdir, uint64_t first, struct segment **ret, struct err *err)
{
	char name[LOG_NAME_SIZE];
	AUTO_FD int fd = -1;
	struct segment *s;
	struct stat st;
	int r;

	log_name(name, first, LOG_LINES);
	if ((r = log_open_file(segdir, name, O_RDONLY, &fd, err)) != 0)
		return r;
	if (fstat(fd, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	s = xmalloc(sizeof(*s));
	s->fd = TAKE_FD(fd);
	s->size = (uint64_t)st.st_size;
	s->off = 0;
	s->at = s->n = 0;
	*ret = s;
	return 0;
}

void
segment_free(struct segment *s)
{
	if (s == NULL)
		return;
	(void)close(s->fd);
	free(s);
}

uint64_t
segment_size(const struct segment *s)
{
	return s->size;
}

void
segment_skip(struct segment *s, uint64_t off)
{
	s->off = off < s->size ? off : s->size;
	s->at = s->n = 0;
}

static int
fill(struct segment *s, struct err *err)
{
	uint64_t next = s->off + (s->n - s->at);
	size_t want, got = 0;
	int r;

	memmove(s->window, s->window + s->at, s->n - s->at);
	s->n -= s->at;
	s->at = 0;
	want = WINDOW - s->n;
	if (want > s->size - next)
		want = (size_t)(s->size - next);
	if ((r = log_pread(s->fd, s->window + s->n, want, next, &got, err)) != 0)
		return r;
	s->n += got;
	if (got < want)
		s->size = next + got; /* shortened under our eyes: as if it ended here */
	return 0;
}

static struct str
take(struct segment *s, size_t n)
{
	struct str line = str_mem(s->window + s->at, n);

	s->at += n;
	s->off += n;
	return line;
}

/* Drop bytes up to and with the next LF, or to the end: what kind of line that was, or an error. */
static int
skip_line(struct segment *s, struct err *err)
{
	for (;;) {
		const uint8_t *lf = memchr(s->window + s->at, '\n', s->n - s->at);
		int r;

		(void)take(s, lf != NULL ? (size_t)(lf - (s->window + s->at)) + 1 : s->n - s->at);
		if (lf != NULL || s->off >= s->size)
			return lf != NULL ? SEGMENT_LONG : SEGMENT_PART;
		if ((r = fill(s, err)) != 0)
			return r;
	}
}

int
segment_next(struct segment *s, struct str *ret_line, uint64_t *ret_off, struct err *err)
{
	const uint8_t *lf = memchr(s->window + s->at, '\n', s->n - s->at);
	size_t have;
	int r;

	if (lf == NULL && s->off + (s->n - s->at) < s->size) {
		if ((r = fill(s, err)) != 0)
			return r;
		lf = memchr(s->window + s->at, '\n', s->n - s->at);
	}
	*ret_off = s->off;
	have = lf != NULL ? (size_t)(lf - (s->window + s->at)) + 1 : s->n - s->at;
	if (have == 0)
		return SEGMENT_END;
	if (have > RECORD_LINE_MAX) {
		*ret_line = STR("");
		return skip_line(s, err);
	}
	*ret_line = take(s, have);
	return lf != NULL ? SEGMENT_LINE : SEGMENT_PART;
}
