/*
 * Host ids for sandboxes that root starts: another one for each, as the kernel counts and permits
 * by them. Byte N of one lock file stands for the N-th id; the lock belongs to the open file, so it
 * is held as long as the supervisor lives, whether it runs as a process or as a thread, and a
 * killed one's is released by the kernel. Runs in the supervisor, before it starts anything.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "common/xalloc.h"
#include "agent/sandbox/call.h"

#include "common/banned.h"

/*
 * Twice `count` ids from `first` on: those of users, then those of roots. systemd's UIDS-GIDS
 * (https://systemd.io/UIDS-GIDS) lists 1879048192 to 2147352575 as unused: no user, no container
 * and no service gets them. Where a container's map ends before, a corner of the range for services
 * with users of their own has to do.
 */
static const struct range {
	uid_t first;
	unsigned count;
} ranges[] = {{2000000000, 65536}, {63200, 64}};

/* The best of the ranges that can be mapped; NULL: none, or errno says why it is not known. */
static const struct range *
range_find(void)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct err ignored;
	unsigned in, out, n;

	errno = 0;
	if (geteuid() != 0 || native_slurp("/proc/self/uid_map", &b, &ignored) != 0 ||
	    sscanf((const char *)b.p, "%u %u %u", &in, &out, &n) != 3 || in != 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		if (n >= ranges[i].first + 2 * ranges[i].count)
			return &ranges[i];
	return NULL;
}

bool
native_uid_can(void)
{
	return range_find() != NULL;
}

uid_t
native_uid_example(void)
{
	const struct range *r = range_find();

	return r != NULL ? r->first : 0;
}

/* 0, or errno. */
static int
byte_lock(int fd, unsigned at)
{
	struct flock l = {
	    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &l) == 0 ? 0 : errno;
}

static int
lock_open(struct err *err)
{
	AUTO_FREE char *dir = call_directory(true, err);
	AUTO_FREE char *path = dir != NULL ? xasprintf("%s/ids", dir) : NULL;
	int fd;

	if (path == NULL)
		return err->code;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 ? fd : err_sys(err, ERR_SYSTEM, errno, "sandbox: %s", path);
}

int
native_uid_take(struct native_uid *ret, struct err *err)
{
	const struct range *r = range_find();
	AUTO_FD int fd = -1;
	struct timespec ts;
	unsigned from;

	if (r == NULL && errno != 0)
		return native_missing(err, errno, "a spare user id",
		    "the supervisor must be able to read /proc/self/uid_map");
	if (r == NULL)
		return err_set(
		    err, ERR_UNAVAILABLE, "sandbox: this root can map no spare user ids");
	fd = lock_open(err);
	if (fd < 0)
		return err->code;
	/* Not the one that was free last: what had it may still be ending. */
	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	from = (unsigned)getpid() * 7919 + (unsigned)ts.tv_nsec / 1024;
	for (unsigned i = 0; i < r->count; i++) {
		unsigned at = (from + i) % r->count;
		int rc = byte_lock(fd, at);

		if (rc == 0) {
			*ret = (struct native_uid){.uid = r->first + at,
			    .root = r->first + r->count + at,
			    .lock = TAKE_FD(fd)};
			return 0;
		}
		if (rc != EAGAIN && rc != EACCES)
			return err_sys(err, ERR_SYSTEM, rc, "sandbox: lock of a user id");
	}
	return err_set(err, ERR_UNAVAILABLE,
	    "sandbox: each has a user id of its own, and all %u (from %u on) are in use: end one "
	    "first",
	    r->count, (unsigned)r->first);
}

void
native_uid_free(struct native_uid *u)
{
	if (u->lock > 0)
		(void)close(u->lock);
	*u = (struct native_uid){0};
}
