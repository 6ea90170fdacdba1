/*
 * The only ways into a directory of reference data. Runs in upstream, whose Landlock rules leave
 * those directories to be read and nothing else. Paths come from agents, and the tree may hold
 * anything: the kernel resolves each path beneath the directory, through no link and no mount, and
 * what is neither a file nor a directory is never opened, since opening alone can do something.
 */
#include "broker/upstream_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define LOOKED_AT 8000 /* bytes that tell text from other */

enum files_kind
files_kind_of(unsigned mode)
{
	return S_ISREG(mode)   ? FILES_FILE
	       : S_ISDIR(mode) ? FILES_DIR
	       : S_ISLNK(mode) ? FILES_LINK
			       : FILES_SPECIAL;
}

const char *
files_kind_name(enum files_kind k)
{
	static const char *const names[] = {"none", "file", "directory", "link", "special"};

	return names[k];
}

bool
files_is_binary(struct str begin)
{
	return begin.n != 0 &&
	       memchr(begin.p, '\0', begin.n < LOOKED_AT ? begin.n : LOOKED_AT) != NULL;
}

static int
open_beneath(int dirfd, const char *path, unsigned flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC | O_NOFOLLOW,
	    .resolve =
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};

	return (int)syscall(SYS_openat2, dirfd, path[0] != '\0' ? path : ".", &how, sizeof(how));
}

enum files_kind
files_look(int dirfd, const char *name, uint64_t *ret_bytes)
{
	AUTO_FD int fd = open_beneath(dirfd, name, O_PATH);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return FILES_NONE;
	*ret_bytes = (uint64_t)st.st_size;
	return files_kind_of(st.st_mode);
}

int
files_open(int dirfd, const char *path, int *ret_fd, enum files_kind *ret_kind, uint64_t *ret_bytes)
{
	AUTO_FD int look = open_beneath(dirfd, path, O_PATH), fd = -1;
	struct stat was, is;

	*ret_kind = FILES_NONE;
	if (look < 0 || fstat(look, &was) != 0)
		return errno;
	*ret_kind = files_kind_of(was.st_mode);
	if (*ret_kind != FILES_FILE && *ret_kind != FILES_DIR)
		return ELOOP;
	/* A FIFO that takes the file's place meanwhile must not hold us up. */
	fd = open_beneath(dirfd, path,
	    O_RDONLY | O_NONBLOCK | O_NOCTTY | (*ret_kind == FILES_DIR ? O_DIRECTORY : 0));
	if (fd < 0 || fstat(fd, &is) != 0)
		return errno;
	if (is.st_ino != was.st_ino || is.st_dev != was.st_dev ||
	    files_kind_of(is.st_mode) != *ret_kind)
		return ESTALE;
	*ret_bytes = (uint64_t)is.st_size;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int
by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

bool
files_names_read(int fd, size_t max, struct files_names *ret)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *d = own >= 0 ? fdopendir(own) : NULL;
	const struct dirent *e;

	*ret = (struct files_names){0};
	if (d == NULL) {
		if (own >= 0)
			(void)close(own);
		return false;
	}
	errno = 0;
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (ret->n == max) {
			ret->more++;
			continue;
		}
		ret->v = xreallocarray(ret->v, ret->n + 1, sizeof(*ret->v));
		ret->v[ret->n++] = xstrdup(e->d_name);
	}
	(void)closedir(d);
	if (ret->n != 0)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_bytes);
	return true;
}

void
files_names_free(struct files_names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct files_names){0};
}
