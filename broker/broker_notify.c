/*
 * Tells systemd that the parent is ready or stopping (sd_notify(3), the protocol alone:
 * one datagram). Runs in the parent; without NOTIFY_SOCKET it does nothing.
 */
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/broker_parent.h"

#include "common/banned.h"

void
broker_notify(const char *state)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	AUTO_FD int fd = -1;
	size_t n;

	if (path == NULL || (path[0] != '/' && path[0] != '@'))
		return;
	n = strlen(path);
	if (n >= sizeof(sa.sun_path))
		return;
	memcpy(sa.sun_path, path, n);
	if (sa.sun_path[0] == '@')
		sa.sun_path[0] = '\0'; /* abstract */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}
