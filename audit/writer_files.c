/*
 * The writer's files: lock, ballast, segments, packs, files that appear whole or not at all. Runs
 * in the writer alone. A failed sync is final (the kernel marks the pages clean and the next sync
 * lies), so nothing here tries again; the caller ends the process.
 */
#include "audit/writer_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "audit/handover.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define NFS_MAGIC 0x6969
#define SMB2_MAGIC 0xfe534d42u
#define CIFS_MAGIC 0xff534d42u

void
leaves_add(struct leaves *l, const struct hash *leaf)
{
	if (l->n == l->cap) {
		l->cap = l->cap != 0 ? l->cap * 2 : 1024;
		l->p = xreallocarray(l->p, l->cap, sizeof(*l->p));
	}
	l->p[l->n++] = *leaf;
}

static int
code_of(int e)
{
	return e == ENOSPC || e == EDQUOT ? ERR_DISK_FULL : ERR_SYSTEM;
}

int
files_sync(int fd, const char *what, struct err *err)
{
	if (fsync(fd) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sync of %s", what);
	return 0;
}

static int
make_dir(struct store *s, const char *name, int *ret_fd, struct err *err)
{
	if (mkdirat(s->logdir, name, 0700) != 0 && errno != EEXIST)
		return err_sys(err, code_of(errno), errno, "%s", name);
	return log_open_dir(s->logdir, name, ret_fd, err);
}

int
files_dirs(struct store *s, struct err *err)
{
	int r = make_dir(s, LOG_SEG, &s->segdir, err);

	if (r == 0)
		r = make_dir(s, LOG_CP, &s->cpdir, err);
	if (r == 0)
		r = make_dir(s, LOG_BLOB, &s->blobdir, err);
	if (r == 0)
		r = make_dir(s, LOG_TORN, &s->torndir, err);
	if (r == 0)
		r = make_dir(s, LOG_LIVE, &s->livedir, err);
	return r != 0 ? r : files_sync(s->logdir, "the log directory", err);
}

int
files_key_dir(struct store *s, int *ret_fd, struct err *err)
{
	int r = make_dir(s, LOG_KEY, ret_fd, err);

	return r != 0 ? r : files_sync(s->logdir, "the log directory", err);
}

/*
 * flock, not fcntl: the latter is lost when any descriptor of the file is closed. The directory is
 * locked as well, by an open file of our own: LOCK can be deleted and made anew, it cannot.
 */
int
files_lock(struct store *s, struct err *err)
{
	struct statfs fs;
	int r;

	if (fstatfs(s->logdir, &fs) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "log directory");
	if (fs.f_type == NFS_MAGIC || (uint32_t)fs.f_type == SMB2_MAGIC ||
	    (uint32_t)fs.f_type == CIFS_MAGIC)
		return err_set(err, ERR_UNSUPPORTED,
		    "log directory is on a network file system: locks and syncs do not hold there");
	if ((r = log_open_file(s->logdir, LOG_LOCK, O_RDWR | O_CREAT, &s->lockfd, err)) != 0 ||
	    (r = log_open_dir(s->logdir, ".", &s->dirlock, err)) != 0)
		return r;
	if (flock(s->lockfd, LOCK_EX | LOCK_NB) != 0 || flock(s->dirlock, LOCK_EX | LOCK_NB) != 0)
		return err_set(err, ERR_EXISTS, "another writer holds the log");
	return 0;
}

int
files_ballast(struct store *s, struct err *err)
{
	AUTO_FD int fd =
	    openat(s->logdir, LOG_BALLAST, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, code_of(errno), errno, "ballast");
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == s->opts.ballast)
		return 0;
	if (fallocate(fd, 0, 0, (off_t)s->opts.ballast) != 0) {
		int e = errno;

		(void)unlinkat(s->logdir, LOG_BALLAST, 0);
		return err_sys(err, code_of(e), e, "ballast of %" PRIu64 " bytes", s->opts.ballast);
	}
	return files_sync(fd, "ballast", err);
}

/* One pwrite as a rule; a short one is carried on, an interrupted one repeated. */
static int
write_all(int fd, struct str bytes, uint64_t off, struct err *err)
{
	size_t done = 0;

	while (done < bytes.n) {
		ssize_t k = pwrite(fd, bytes.p + done, bytes.n - done, (off_t)(off + done));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(
			    err, code_of(errno), errno, "write at byte %" PRIu64, off + done);
		if (k == 0)
			return err_set(err, ERR_DISK_FULL, "write at byte %" PRIu64 " took nothing",
			    off + done);
		done += (size_t)k;
	}
	return 0;
}

int
files_append(int fd, struct str bytes, uint64_t off, struct err *err)
{
	int r = write_all(fd, bytes, off, err);

	if (r != 0)
		return r;
	if (fdatasync(fd) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sync");
	return 0;
}

static int
unchanged(int fd, uint64_t size, const char *what, struct stat *ret, struct err *err)
{
	if (fstat(fd, ret) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", what);
	if ((uint64_t)ret->st_size != size)
		return err_set(err, ERR_TAMPER,
		    "%s is %" PRId64 " bytes, must be %" PRIu64 ": somebody else wrote to it", what,
		    (int64_t)ret->st_size, size);
	if (ret->st_nlink != 1)
		return err_set(err, ERR_TAMPER, "%s was deleted or replaced", what);
	return 0;
}

/* By way of the log directory, so that a subdirectory that was moved away is seen as well. */
static int
named(const struct store *s, const char *sub, const char *suffix, const struct stat *want,
    struct err *err)
{
	char name[LOG_NAME_SIZE], path[LOG_NAME_SIZE + 8];
	struct stat st;

	log_name(name, s->seg_first, suffix);
	(void)snprintf(path, sizeof(path), "%s/%s", sub, name);
	if (fstatat(s->logdir, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_set(err, ERR_TAMPER, "%s was moved away: %s", path, strerror(errno));
	if (st.st_dev != want->st_dev || st.st_ino != want->st_ino)
		return err_set(
		    err, ERR_TAMPER, "%s is another file than the one that is written to", path);
	return 0;
}

int
files_current(const struct store *s, struct err *err)
{
	struct stat st;
	int r = unchanged(s->seg, s->seg_size, "the segment", &st, err);

	if (r == 0)
		r = named(s, LOG_SEG, LOG_LINES, &st, err);
	if (r == 0)
		r = unchanged(s->pack, s->pack_size, "the pack", &st, err);
	return r != 0 ? r : named(s, LOG_BLOB, LOG_PACK, &st, err);
}

int
files_replace(int dir, const char *name, struct str bytes, mode_t mode, struct err *err)
{
	char tmp[LOG_NAME_SIZE + 16];
	AUTO_FD int fd = -1;
	int r;

	(void)snprintf(tmp, sizeof(tmp), LOG_TMP "-%s", name);
	if (unlinkat(dir, tmp, 0) != 0 && errno != ENOENT)
		return err_sys(err, ERR_SYSTEM, errno, "%s", tmp);
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return err_sys(err, code_of(errno), errno, "%s", tmp);
	if ((r = write_all(fd, bytes, 0, err)) != 0 || (r = files_sync(fd, name, err)) != 0)
		return r;
	if (renameat(dir, tmp, dir, name) != 0)
		return err_sys(err, code_of(errno), errno, "%s", name);
	return files_sync(dir, name, err);
}

static int
open_new(int dir, uint64_t first, const char *suffix, int flags, int *ret_fd, struct err *err)
{
	char name[LOG_NAME_SIZE];
	AUTO_FD int fd = -1;
	struct stat st;
	int r;

	log_name(name, first, suffix);
	fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		return err_sys(err, code_of(errno), errno, "%s", name);
	if ((r = unchanged(fd, 0, name, &st, err)) != 0 || (r = files_sync(fd, name, err)) != 0 ||
	    (r = files_sync(dir, name, err)) != 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/*
 * The pack first: from the moment the segment is there, the log goes on in it. A pack whose segment
 * never came is empty, and is taken again if the number is.
 */
int
files_new_segment(struct store *s, uint64_t first, struct err *err)
{
	AUTO_FD int seg = -1, pack = -1;
	int r = open_new(s->blobdir, first, LOG_PACK, 0, &pack, err);

	if (r == 0)
		r = open_new(s->segdir, first, LOG_LINES, O_EXCL, &seg, err);
	if (r != 0)
		return r;
	/* What is sealed is not written again; that the mode says so only helps people. */
	if (s->seg >= 0 && (fchmod(s->seg, 0440) != 0 || fchmod(s->pack, 0440) != 0))
		return err_sys(err, ERR_SYSTEM, errno, "mode of the sealed segment");
	cleanup_close_fd(&s->seg);
	cleanup_close_fd(&s->pack);
	s->seg = TAKE_FD(seg);
	s->pack = TAKE_FD(pack);
	s->seg_first = first;
	s->seg_size = s->pack_size = 0;
	s->seg_time_us = 0;
	s->seg_leaves.n = s->committed_leaves = 0;
	return 0;
}

int
files_seal_segment(struct store *s, struct err *err)
{
	char name[LOG_NAME_SIZE];

	log_name(name, s->seg_first, LOG_LEAVES);
	return files_replace(
	    s->segdir, name, str_mem(s->seg_leaves.p, s->seg_leaves.n * HASH_LEN), 0440, err);
}

int
files_unseal_segment(struct store *s, struct err *err)
{
	char name[LOG_NAME_SIZE];

	log_name(name, s->seg_first, LOG_LEAVES);
	if (unlinkat(s->segdir, name, 0) != 0 && errno != ENOENT)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	return 0;
}
