/*
 * What a restore unpacked takes the place of what is there, whole or not at all. Runs inside, in
 * the directory itself, after tar has ended well. What was there is moved aside first and removed
 * last; whoever is killed in between leaves names that say how far it came, and the next restore or
 * snapshot puts the old back. Nothing that was there may be removed before the new is in its place.
 */
#include "agent/sandbox/inside_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/banned.h"

#define OLD SWAP_PREFIX "old" /* what was there, until the new is in its place */
#define IN SWAP_PREFIX "in"   /* what SWAP_NEW is called from when all of the old is aside */
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define DEPTH_MAX 128
#define ROUNDS_MAX 100 /* of a directory into which a program puts more meanwhile */

static int all_move(int from, int to, unsigned depth);

static bool
stays(const char *name, unsigned depth)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	       (depth == 0 && strncmp(name, SWAP_PREFIX, strlen(SWAP_PREFIX)) == 0);
}

static bool
there(const char *name)
{
	struct stat st;

	return lstat(name, &st) == 0;
}

/* A directory of the lower side of an overlay cannot be renamed, and one that stopped half way is
 * in both places: what is in it moves. */
static int
content_move(int from, int to, const char *name, const struct stat *st, unsigned depth)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	AUTO_FD int a = -1, b = -1;
	int rc;

	if (depth == DEPTH_MAX)
		return -ENAMETOOLONG;
	if (mkdirat(to, name, 0700) != 0 && errno != EEXIST)
		return -errno;
	if ((a = openat(from, name, OPEN_DIR)) < 0 || (b = openat(to, name, OPEN_DIR)) < 0)
		return -errno;
	rc = all_move(a, b, depth + 1);
	if (rc != 0)
		return rc;
	if (fchmod(b, st->st_mode & 07777) != 0)
		return -errno;
	(void)futimens(b, times);
	return unlinkat(from, name, AT_REMOVEDIR) != 0 ? -errno : 0;
}

static int
one_move(int from, int to, const char *name, unsigned depth)
{
	struct stat st;
	bool shut;
	int rc;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : -errno;
	/* A directory that its owner may not write cannot be moved: its ".." would change. */
	shut = S_ISDIR(st.st_mode) && (st.st_mode & 0700) != 0700;
	if (shut && fchmodat(from, name, (st.st_mode & 07777) | 0700, 0) != 0)
		return -errno;
	rc = renameat(from, name, to, name) != 0 ? -errno : 0;
	if (S_ISDIR(st.st_mode) && (rc == -EXDEV || rc == -ENOTEMPTY || rc == -EEXIST))
		rc = content_move(from, to, name, &st, depth);
	if (shut && fchmodat(rc == 0 ? to : from, name, st.st_mode & 07777, 0) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* All that does not stay. The errno of the first that cannot be moved, negative. */
static int
all_move(int from, int to, unsigned depth)
{
	int fd = openat(from, ".", OPEN_DIR);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	bool more = true;
	int rc = 0;

	if (d == NULL) {
		rc = -errno;
		if (fd >= 0)
			(void)close(fd);
		return rc;
	}
	for (int round = 0; rc == 0 && more; round++) {
		struct dirent *e;

		more = false;
		rewinddir(d);
		while (rc == 0 && (e = readdir(d)) != NULL) {
			if (stays(e->d_name, depth))
				continue;
			more = true;
			rc = round < ROUNDS_MAX ? one_move(from, to, e->d_name, depth) : -EBUSY;
		}
	}
	(void)closedir(d);
	return rc;
}

static int
dirs_move(const char *from, const char *to)
{
	AUTO_FD int a = open(from, OPEN_DIR), b = open(to, OPEN_DIR);

	return a < 0 || b < 0 ? -errno : all_move(a, b, 0);
}

/* All of the new that is in its place already goes. */
static int
new_drop(struct err *err)
{
	AUTO_FD int here = -1, in = -1;
	int rc;

	/* Into the directory that is removed in the end: so OLD is not touched by this. */
	rc = (here = open(".", OPEN_DIR)) < 0 || (in = open(IN, OPEN_DIR)) < 0
		 ? -errno
		 : all_move(here, in, 0);
	return rc != 0 ? inside_errno(err, -rc, "restore", "put back " OLD) : 0;
}

int
swap_recover(struct err *err)
{
	static const char *const left[] = {SWAP_NEW, IN, OLD};
	int rc;

	if (there(OLD) && (there(IN) || there(SWAP_NEW))) {
		/* Without IN nobody takes what is put back for the new. */
		if (there(IN) && (new_drop(err) != 0 || rename(IN, SWAP_NEW) != 0))
			return err->code != 0 ? err->code : inside_errno(err, errno, "restore", IN);
		rc = dirs_move(OLD, ".");
		if (rc != 0)
			return inside_errno(err, -rc, "restore", "put back " OLD);
		/* From here on OLD holds nothing: it goes first, for it says what to do. */
		if (rmdir(OLD) != 0)
			return inside_errno(err, errno, "restore: remove", OLD);
	}
	for (size_t i = 0; i < ARRAY_LEN(left); i++)
		if (there(left[i]) && tree_remove(left[i], err) != 0)
			return err->code;
	return 0;
}

int
swap_lock(struct err *err)
{
	struct stat st;
	bool shut = stat(".", &st) == 0 && (st.st_mode & 0500) != 0500;
	AUTO_FD int fd = -1;

	if (shut)
		(void)chmod(".", (st.st_mode & 07777) | 0500);
	fd = open(".", OPEN_DIR);
	if (shut)
		(void)chmod(".", st.st_mode & 07777);
	if (fd < 0)
		return inside_errno(err, errno, "open", "the directory");
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK
			   ? err_set(err, ERR_STATE,
				 "another snapshot or restore is at work, or a program inside has "
				 "locked the directory: try again when it has ended")
			   : inside_errno(err, errno, "lock", "the directory");
	(void)TAKE_FD(fd); /* held until this process ends */
	return 0;
}

int
swap_commit(struct err *err)
{
	struct err undone = {0};
	struct stat st;
	int rc = 0;

	if (stat(SWAP_NEW, &st) != 0 || chmod(SWAP_NEW, 0700) != 0 || mkdir(OLD, 0700) != 0)
		rc = -errno;
	if (rc == 0)
		rc = dirs_move(".", OLD);
	if (rc == 0 && rename(SWAP_NEW, IN) != 0)
		rc = -errno;
	if (rc == 0)
		rc = dirs_move(IN, ".");
	if (rc != 0) {
		(void)inside_errno(err, -rc, "restore", "move what is there aside");
		if (swap_recover(&undone) != 0)
			(void)inside_errno(
			    err, -rc, "restore", "what was there is in " OLD ": put back");
		return err->code;
	}
	/* As tar would have left it; not of a directory that is somebody else's. */
	(void)chmod(".", st.st_mode & 07777);
	/* Without IN, OLD is what is to be removed. */
	if (tree_remove(IN, &undone) != 0 || tree_remove(OLD, &undone) != 0)
		return err_set(err, undone.code,
		    "restore: done, but some of what was there is left: %s", undone.msg);
	(void)utimensat(AT_FDCWD, ".", (struct timespec[]){st.st_atim, st.st_mtim}, 0);
	return 0;
}
