/*
 * Removes trees of any depth with a handful of descriptors and no recursion: what lies below a
 * directory is moved up beside it until nothing lies below any. Runs inside; the tree was made by
 * hostile code, which may work on it meanwhile: rounds without progress end it.
 */
#include "agent/sandbox/inside_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define ROUNDS_IDLE_MAX 3

/* Also a directory whose mode keeps its owner out. */
static DIR *
dir_open(int at, const char *name)
{
	struct stat st;
	DIR *d;
	int fd;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	    (st.st_mode & 0700) != 0700 && fchmodat(at, name, (st.st_mode & 07777) | 0700, 0) != 0)
		return NULL;
	fd = openat(at, name, OPEN_DIR);
	if (fd < 0)
		return NULL;
	d = fdopendir(fd);
	if (d == NULL)
		(void)close(fd);
	return d;
}

static bool
dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool
entry_unlink(int at, const char *name)
{
	return unlinkat(at, name, 0) == 0 || unlinkat(at, name, AT_REMOVEDIR) == 0;
}

/* Empties one directory below top: files go, directories that are not empty move up. */
static size_t
dir_flatten(int top, const char *name, uint64_t *serial)
{
	DIR *d = dir_open(top, name);
	struct dirent *e;
	size_t done = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		char up[48];

		if (dots(e->d_name))
			continue;
		if (entry_unlink(dirfd(d), e->d_name)) {
			done++;
			continue;
		}
		/* A directory that is not writable cannot be moved: its ".." would change. */
		(void)snprintf(
		    up, sizeof(up), ".cofferdam-gone-%llu", (unsigned long long)++*serial);
		done += fchmodat(dirfd(d), e->d_name, 0700, 0) == 0 &&
			renameat(dirfd(d), e->d_name, top, up) == 0;
	}
	if (d != NULL)
		(void)closedir(d);
	return done;
}

/* One pass over top. Returns what is still there; *ret_done: how much was removed or moved. */
static size_t
pass(DIR *top, uint64_t *serial, size_t *ret_done)
{
	struct dirent *e;
	size_t left = 0;

	rewinddir(top);
	*ret_done = 0;
	while ((e = readdir(top)) != NULL) {
		if (dots(e->d_name))
			continue;
		errno = 0;
		if (entry_unlink(dirfd(top), e->d_name)) {
			++*ret_done;
			continue;
		}
		*ret_done += dir_flatten(dirfd(top), e->d_name, serial);
		if (unlinkat(dirfd(top), e->d_name, AT_REMOVEDIR) == 0)
			++*ret_done;
		else
			left++;
	}
	return left;
}

int
tree_empty(int at, const char *name, struct err *err)
{
	DIR *top = dir_open(at, name);
	uint64_t serial = (uint64_t)getpid() << 32;
	unsigned idle = 0;
	size_t done = 1;

	if (top == NULL)
		return inside_errno(err, errno, "remove", name);
	/* The last pass finds nothing: what was moved up during one may have been missed by it. */
	while ((pass(top, &serial, &done) != 0 || done != 0) && idle < ROUNDS_IDLE_MAX)
		idle = done == 0 ? idle + 1 : 0;
	(void)closedir(top);
	if (idle == ROUNDS_IDLE_MAX)
		return err_set(err, ERR_STATE,
		    "remove %s: something in it cannot be removed, or a program puts it back",
		    name);
	return 0;
}

int
tree_remove(const char *path, struct err *err)
{
	if (unlink(path) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return inside_errno(err, errno, "remove", path);
	if (rmdir(path) == 0)
		return 0;
	if (tree_empty(AT_FDCWD, path, err) != 0)
		return err->code;
	if (rmdir(path) != 0)
		return inside_errno(err, errno, "remove", path);
	return 0;
}
