/*
 * The two sockets people and agents come in by, bound by the parent and accepted from by
 * core, which asks the kernel who the peer is. Bound beneath the open run/ directory, so
 * that a long path fits and no link is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/broker_parent.h"

#include "common/banned.h"

#define BACKLOG 128

int
broker_sock_listen(
    const struct broker_state *s, const char *name, uid_t uid, int *ret_fd, struct err *err)
{
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	mode_t old;
	int rc;

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "socket");
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", s->run, name);
	/* The lock is ours, so one that is there is a dead broker's. */
	if (unlinkat(s->run, name, 0) != 0 && errno != ENOENT)
		return err_sys(err, ERR_SYSTEM, errno, "%s/run/%s", s->path, name);
	old = umask(0117);
	rc = bind(fd, (const struct sockaddr *)&sa, sizeof(sa));
	(void)umask(old);
	if (rc != 0 || listen(fd, BACKLOG) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s/run/%s", s->path, name);
	if (uid != 0 && fchownat(s->run, name, uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) != 0)
		return err_sys(
		    err, ERR_SYSTEM, errno, "%s/run/%s: giving it to uid %u", s->path, name, uid);
	*ret_fd = TAKE_FD(fd);
	return 0;
}
