/*
 * Reading and replacing files for the command line. Runs as the operator. A file that
 * others rely on is never half-written: it is replaced whole, or not.
 */
#include "cmd/cmd_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "common/xalloc.h"

#include "common/banned.h"

int
cmd_fail(const struct err *err)
{
	(void)fprintf(stderr, "cofferdam: %s\n", err->msg);
	return err->code == ERR_CONFIG || err->code == ERR_SYSTEM ? CMD_USAGE : CMD_FAILED;
}

int
file_write_all(int fd, struct str s)
{
	while (s.n != 0) {
		ssize_t n = write(fd, s.p, s.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		s.p += n;
		s.n -= (size_t)n;
	}
	return 0;
}

int
file_read_fd(int fd, const char *name, struct buf *out, struct err *err)
{
	uint8_t chunk[16384];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			explicit_bzero(chunk, sizeof(chunk));
			return err_sys(err, ERR_CONFIG, errno, "%s", name);
		}
		buf_put(out, chunk, (size_t)n);
		if (buf_over(out)) /* what has no end, as a device, is not read on */
			break;
	}
	explicit_bzero(chunk, sizeof(chunk));
	if (buf_over(out))
		return err_set(err, ERR_TOO_LARGE, "%s is larger than %zu bytes", name, out->max);
	return 0;
}

int
file_read(int dirfd, const char *name, struct buf *out, struct err *err)
{
	AUTO_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", name);
	return file_read_fd(fd, name, out, err);
}

int
file_create(int dirfd, const char *name, struct str content, mode_t mode, struct err *err)
{
	AUTO_FD int fd =
	    openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);

	if (fd < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", name);
	if (fchmod(fd, mode) != 0 || file_write_all(fd, content) != 0 || fsync(fd) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	return 0;
}

static int
replace(int dirfd, const char *name, struct str content, mode_t mode, struct err *err)
{
	AUTO_FREE char *tmp = xasprintf(".%s.%ld", name, (long)getpid());
	int rc = file_create(dirfd, tmp, content, mode, err);

	if (rc == 0 && renameat(dirfd, tmp, dirfd, name) != 0)
		rc = err_sys(err, ERR_SYSTEM, errno, "%s", name);
	if (rc != 0) {
		(void)unlinkat(dirfd, tmp, 0);
		return rc;
	}
	if (fsync(dirfd) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	return 0;
}

/* A signal comes when it is done: no temporary file stays. */
int
file_replace(int dirfd, const char *name, struct str content, mode_t mode, struct err *err)
{
	sigset_t all, was;
	int rc;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &was);
	rc = replace(dirfd, name, content, mode, err);
	(void)sigprocmask(SIG_SETMASK, &was, NULL);
	return rc;
}
