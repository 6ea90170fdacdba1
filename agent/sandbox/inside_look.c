/*
 * The parts that look: read, list, stat. Run inside. Following links is harmless here (it is the
 * sandbox's own view); what a file is gets decided before it is opened and again after, so that a
 * FIFO, a device or a socket neither blocks nor answers.
 */
#include "agent/sandbox/inside_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

static const char *
kind_words(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR: return "a directory";
	case S_IFIFO: return "a FIFO";
	case S_IFSOCK: return "a socket";
	case S_IFCHR:
	case S_IFBLK: return "a device";
	default: return "not a regular file";
	}
}

/* Open for reading, or an error that says what it is instead. */
static int
regular_open(const char *path, struct stat *st, struct err *err)
{
	AUTO_FD int fd = -1;

	if (stat(path, st) != 0)
		return inside_errno(err, errno, "read", path);
	if (S_ISREG(st->st_mode)) {
		fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, st) != 0)
			return inside_errno(err, errno, "read", path);
	}
	if (!S_ISREG(st->st_mode))
		return err_set(err, ERR_INVALID, "read %s: it is %s, not a regular file", path,
		    kind_words(st->st_mode));
	return TAKE_FD(fd);
}

static int
too_large(struct err *err, const char *path, uint64_t max)
{
	return err_set(err, ERR_TOO_LARGE, "read %s: larger than the limit of %llu bytes", path,
	    (unsigned long long)max);
}

int
inside_read(char **argv, struct err *err)
{
	static char room[FRAME_DATA_MAX];
	uint64_t max, left;
	struct stat st;
	AUTO_FD int fd = -1;
	ssize_t k;

	if (!str_to_u64(str_z(argv[2]), UINT64_MAX, &max))
		return err_set(err, ERR_INVALID, "read: limit \"%s\" is no number", argv[2]);
	fd = regular_open(argv[1], &st, err);
	if (fd < 0)
		return err->code;
	if (st.st_size > 0 && (uint64_t)st.st_size > max)
		return too_large(err, argv[1], max);
	for (left = max; (k = read(fd, room, sizeof(room))) != 0; left -= (uint64_t)k) {
		if (k < 0)
			return inside_errno(err, errno, "read", argv[1]);
		if ((uint64_t)k > left)
			return too_large(err, argv[1], max);
		if (inside_data(str_mem(room, (size_t)k), err) != 0)
			return err->code;
	}
	return 0;
}

static enum frame_kind
kind_of(mode_t mode)
{
	return S_ISREG(mode)   ? KIND_FILE
	       : S_ISDIR(mode) ? KIND_DIR
	       : S_ISLNK(mode) ? KIND_LINK
			       : KIND_OTHER;
}

/* What stands at `name` in `dir`, said as `path`. ERR_NOT_FOUND when it is gone. */
static int
entry_put(int dir, const char *name, const char *path, struct stat *st, struct err *err)
{
	AUTO_BUF struct buf b = BUF(FRAME_BODY_MAX);
	char target[PATH_MAX];
	ssize_t n = 0;

	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) != 0)
		return inside_errno(err, errno, "stat", path);
	if (S_ISLNK(st->st_mode))
		n = readlinkat(dir, name, target, sizeof(target));
	buf_u8(&b, (uint8_t)kind_of(st->st_mode));
	buf_u64(&b, st->st_size > 0 ? (uint64_t)st->st_size : 0);
	buf_u32(&b, st->st_mode & 07777);
	/* Any 64-bit second can be set on a file: no overflow that is undefined. */
	buf_u64(&b, (uint64_t)st->st_mtim.tv_sec * 1000 + (uint64_t)st->st_mtim.tv_nsec / 1000000);
	buf_lz(&b, path);
	buf_lstr(&b, str_mem(target, n > 0 ? (size_t)n : 0));
	if (buf_over(&b))
		return err_set(err, ERR_INVALID, "stat: a path of %zu bytes", strlen(path));
	return inside_put(FRAME_ENTRY, buf_str(&b), err);
}

int
inside_stat(char **argv, struct err *err)
{
	struct stat st;

	return entry_put(AT_FDCWD, argv[1], argv[1], &st, err);
}

struct names {
	char **p;
	size_t n;
};

static void
names_free(struct names *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->p[i]);
	free(v->p);
}

static int
name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
too_many(struct err *err, const char *path)
{
	return err_set(
	    err, ERR_TOO_LARGE, "list %s: more than %d entries", path, FRAME_ENTRIES_MAX);
}

/* The names in `d`, sorted; at most one more than may be shown. */
static void
names_read(DIR *d, struct names *v)
{
	struct dirent *e;

	while (v->n <= FRAME_ENTRIES_MAX && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		v->p = xreallocarray(v->p, v->n + 1, sizeof(*v->p));
		v->p[v->n++] = xstrdup(e->d_name);
	}
	if (v->n != 0)
		qsort(v->p, v->n, sizeof(*v->p), name_cmp);
}

/* "." is where the parts stand, and is not said. */
static char *
path_below(const char *path, const char *name)
{
	return strcmp(path, ".") == 0
		   ? xstrdup(name)
		   : xasprintf("%s%s%s", path, strcmp(path, "/") != 0 ? "/" : "", name);
}

/* Takes fd. A directory below that may not be read is an entry without anything in it. */
static int
list_dir(int fd, const char *path, unsigned depth, size_t *shown, struct err *err)
{
	__attribute__((cleanup(names_free))) struct names v = {0};
	DIR *d = fdopendir(fd);
	struct err gone;
	int rc = 0;

	if (d == NULL) {
		rc = inside_errno(err, errno, "list", path);
		(void)close(fd);
		return rc;
	}
	names_read(d, &v);
	if (v.n > FRAME_ENTRIES_MAX)
		rc = too_many(err, path);
	for (size_t i = 0; rc == 0 && i < v.n; i++) {
		AUTO_FREE char *below = path_below(path, v.p[i]);
		struct stat st;
		int sub;

		if (*shown == FRAME_ENTRIES_MAX) {
			rc = too_many(err, path);
			break;
		}
		if (entry_put(dirfd(d), v.p[i], below, &st, &gone) != 0) {
			rc = gone.code == ERR_UNAVAILABLE ? err_set(err, gone.code, "%s", gone.msg)
							  : 0;
			continue;
		}
		++*shown;
		if (depth <= 1 || !S_ISDIR(st.st_mode))
			continue;
		sub = openat(
		    dirfd(d), v.p[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (sub >= 0)
			rc = list_dir(sub, below, depth - 1, shown, err);
	}
	(void)closedir(d);
	return rc;
}

int
inside_list(char **argv, struct err *err)
{
	size_t shown = 0, n = strlen(argv[1]);
	uint64_t depth;
	int fd;

	if (!str_to_u64(str_z(argv[2]), FRAME_DEPTH_MAX, &depth) || depth == 0)
		return err_set(err, ERR_INVALID, "list: depth must be from 1 to %d, is %s",
		    FRAME_DEPTH_MAX, argv[2]);
	fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR)
		return err_set(err, access(argv[1], F_OK) == 0 ? ERR_INVALID : ERR_NOT_FOUND,
		    "list %s: not a directory", argv[1]);
	if (fd < 0)
		return inside_errno(err, errno, "list", argv[1]);
	while (n > 1 && argv[1][n - 1] == '/')
		argv[1][--n] = '\0';
	return list_dir(fd, argv[1], (unsigned)depth, &shown, err);
}
