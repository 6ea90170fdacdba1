/*
 * The parts that change: write, mkdir, rename, remove. Run inside. A file appears under its name
 * only when its last byte has come, and what was half written is taken away again.
 */
#include "agent/sandbox/inside_part.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

/* mkdir -p of the first n bytes of path. */
static int
parents_make(const char *path, size_t n, struct err *err)
{
	AUTO_FREE char *p = str_dup(str_mem(path, n));

	for (size_t i = 1; i <= n; i++) {
		if (p[i] != '/' && p[i] != '\0')
			continue;
		p[i] = '\0';
		if (mkdir(p, 0777) != 0 && errno != EEXIST)
			return inside_errno(err, errno, "mkdir", p);
		if (i < n)
			p[i] = '/';
	}
	return 0;
}

int
inside_mkdir(char **argv, struct err *err)
{
	struct stat st;

	if (parents_make(argv[1], strlen(argv[1]), err) != 0)
		return err->code;
	if (stat(argv[1], &st) != 0 || !S_ISDIR(st.st_mode))
		return err_set(err, ERR_EXISTS, "mkdir %s: something else has this name", argv[1]);
	return 0;
}

/* Copies DATA into fd until END, whose count must be right. */
static int
body_take(int fd, const char *path, struct err *err)
{
	AUTO_BUF struct buf body = BUF(FRAME_DATA_MAX);
	uint64_t got = 0;
	struct rd r;
	int type, rc;

	while ((type = inside_take(&body, err)) == FRAME_DATA) {
		rc = inside_write_all(fd, buf_str(&body));
		if (rc != 0)
			return inside_errno(err, -rc, "write", path);
		got += body.n;
	}
	if (type < 0)
		return type;
	r = rd_init(buf_str(&body));
	if (rd_u64(&r) != got)
		return err_set(err, ERR_PROTOCOL, "write %s: bytes are missing", path);
	return 0;
}

/* A file of a fresh name beside path. */
static int
beside_open(const char *path, size_t dir, char **ret, struct err *err)
{
	static const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

	for (unsigned i = 0; i < 100; i++) {
		AUTO_FREE char *name =
		    xasprintf("%.*s.cofferdam-%d-%u", (int)dir, path, (int)getpid(), i);
		int fd = open(name, flags, 0600);

		if (fd >= 0) {
			*ret = TAKE_PTR(name);
			return fd;
		}
		if (errno != EEXIST)
			return inside_errno(err, errno, "write", path);
	}
	return inside_errno(err, EEXIST, "write", path);
}

int
inside_write(char **argv, struct err *err)
{
	const char *path = argv[1], *slash = strrchr(path, '/');
	size_t dir = slash != NULL ? (size_t)(slash - path) + 1 : 0;
	AUTO_FREE char *name = NULL;
	AUTO_FD int fd = -1;
	struct stat st;
	uint64_t mode;
	int rc;

	if (!str_to_u64(str_z(argv[2]), 07777, &mode))
		return err_set(err, ERR_INVALID, "write: mode %s", argv[2]);
	if (path[dir] == '\0')
		return err_set(err, ERR_INVALID, "write %s: the name of a directory", path);
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "write %s: it is a directory", path);
	if (dir > 1 && parents_make(path, dir - 1, err) != 0)
		return err->code;
	fd = beside_open(path, dir, &name, err);
	if (fd < 0)
		return err->code;
	rc = body_take(fd, path, err);
	if (rc == 0 && (fchmod(fd, (mode_t)mode) != 0 || rename(name, path) != 0))
		rc = inside_errno(err, errno, "write", path);
	if (rc != 0)
		(void)unlink(name);
	return rc;
}

int
inside_rename(char **argv, struct err *err)
{
	const char *slash = strrchr(argv[2], '/');

	if (slash != NULL && slash != argv[2] &&
	    parents_make(argv[2], (size_t)(slash - argv[2]), err) != 0)
		return err->code;
	if (rename(argv[1], argv[2]) == 0)
		return 0;
	if (errno != EXDEV)
		return inside_errno(err, errno, "rename", argv[1]);
	return err_set(err, ERR_INVALID,
	    "rename %s: %s is on another file system (/work and /tmp are two, and a directory "
	    "that an overlay has from below does not move): copy it by read and write, then remove "
	    "it",
	    argv[1], argv[2]);
}

/* The directories that the sandbox itself is made of: emptied by mistake, and never gone. */
static bool
is_fixed(const char *path)
{
	static const char *const fixed[] = {"/", "/work", "/tmp"};
	struct stat st, f;

	if (lstat(path, &st) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		if (stat(fixed[i], &f) == 0 && f.st_dev == st.st_dev && f.st_ino == st.st_ino)
			return true;
	return false;
}

int
inside_remove(char **argv, struct err *err)
{
	struct stat st;

	if (is_fixed(argv[1]))
		return err_set(err, ERR_INVALID,
		    "remove %s: /, /work and /tmp themselves stay: remove what is in it by name",
		    argv[1]);
	if (strcmp(argv[2], "tree") == 0)
		return tree_remove(argv[1], err);
	if (lstat(argv[1], &st) != 0)
		return inside_errno(err, errno, "remove", argv[1]);
	if ((S_ISDIR(st.st_mode) ? rmdir(argv[1]) : unlink(argv[1])) != 0)
		return inside_errno(err, errno, "remove", argv[1]);
	return 0;
}
