/*
 * A unix socket without a name (process: cofferdam-agent). Whoever connects to it speaks to the
 * models with the run's credentials, so nobody else may: it is made in a directory that only
 * this user enters, and name and directory are gone again before anybody listens for long.
 * The kernel finds it through the descriptor that was opened while it had a name.
 */
#include "agent/agent_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/banned.h"

#define BACKLOG 16

static int
socket_at(struct agent_socket *s, const char *path, struct err *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	s->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listen < 0 || bind(s->listen, (const struct sockaddr *)&a, sizeof(a)) != 0 ||
	    listen(s->listen, BACKLOG) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "the loop's socket %s", path);
	s->at = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (s->at < 0)
		return err_sys(err, ERR_SYSTEM, errno, "the loop's socket %s", path);
	return 0;
}

int
agent_socket_make(struct agent_socket *ret, struct err *err)
{
	char dir[] = "/tmp/cofferdam-loop.XXXXXX", path[64];
	int rc;

	*ret = AGENT_SOCKET;
	if (mkdtemp(dir) == NULL)
		return err_sys(err, ERR_SYSTEM, errno, "%s", dir);
	(void)snprintf(path, sizeof(path), "%s/s", dir);
	rc = socket_at(ret, path, err);
	(void)unlink(path);
	(void)rmdir(dir);
	if (rc != 0)
		agent_socket_free(ret);
	return rc;
}

int
agent_socket_connect(const struct agent_socket *s, int *ret_fd, struct err *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d", s->at);
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "socket");
	while (connect(fd, (const struct sockaddr *)&a, sizeof(a)) != 0)
		if (errno != EINTR)
			return err_sys(
			    err, ERR_UNAVAILABLE, errno, "the broker's listener for models");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void
agent_socket_free(struct agent_socket *s)
{
	cleanup_close_fd(&s->listen);
	cleanup_close_fd(&s->at);
}
