/*
 * The sandbox's network: a loopback interface and nothing else. Runs in the child, in its
 * own network namespace, before anything foreign. The listening sockets are made here, so
 * that the broker's end knows a run by the listener; no connection can leave the namespace.
 */
#include "agent/sandbox/native.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/banned.h"

static int
loopback_up(struct err *err)
{
	AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = {.ifr_name = "lo"};

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &r) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: loopback interface");
	r.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &r) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: loopback interface up");
	return 0;
}

static int
listener_make(const struct native_target *t, int *ret, struct err *err)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(t->port)};
	AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || inet_pton(AF_INET, t->address, &a.sin_addr) != 1)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: listener at %s", t->address);
	/* Only exactly this address: another name on the same port is another target. */
	if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 128) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: listener for %s at %s:%u",
		    t->host != NULL ? t->host : "an address", t->address, (unsigned)t->port);
	*ret = TAKE_FD(fd);
	return 0;
}

int
native_net_up(const struct native_spec *s, int *listeners, struct err *err)
{
	int rc = loopback_up(err);

	for (size_t i = 0; rc == 0 && i < s->ntargets; i++)
		rc = listener_make(&s->targets[i], &listeners[i], err);
	return rc;
}
