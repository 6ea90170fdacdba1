/*
 * The sandbox's network: a loopback interface and nothing else. The listening sockets are made in
 * its namespace, by the child at the start and by a short helper later, and end up in the
 * supervisor's table of descriptors; a run is known by its listener, and no connection can leave
 * the namespace. The names stand in /etc/hosts, which the supervisor rewrites through a writable
 * copy of the root mount, made for it by such a helper, which nothing inside can reach.
 */
#include "agent/sandbox/native.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

int
native_net_raw(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	long fd = RAW(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return (int)fd;
	rc = RAW(SYS_ioctl, fd, SIOCSIFFLAGS, &r);
	(void)RAW(SYS_close, fd);
	return (int)rc;
}

int
native_net_check(int rc, struct err *err)
{
	return rc == 0 ? 0
		       : native_missing(err, -rc, "a loopback interface of its own",
			     "the kernel needs CONFIG_NET_NS and CONFIG_INET");
}

int
native_listener_make(const struct spec_target *t, int *ret, struct err *err)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(t->port)};
	AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	if (fd < 0 || inet_pton(AF_INET, t->address, &a.sin_addr) != 1)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: listener at %s", t->address);
	/* A target that comes back finds its port, though connections of before linger there or
	 * somebody still holds the listener that was shut down; one that listens is not displaced.
	 */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: listener at %s", t->address);
	/* Only exactly this address: another name on the same port is another target. */
	if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 128) != 0)
		return err_sys(err, errno == EADDRINUSE ? ERR_EXISTS : ERR_SYSTEM, errno,
		    "sandbox: listener for %s at %s:%u", t->host != NULL ? t->host : "an address",
		    t->address, (unsigned)t->port);
	*ret = TAKE_FD(fd);
	return 0;
}

/* What a helper is to make in some of the sandbox's namespaces: a descriptor of ours. */
struct order {
	int (*make)(const struct spec_target *t, int *ret, struct err *err);
	const struct spec_target *target;
	int pidfd, flags, fd;
	struct err err;
};

/* With the namespace's capabilities, so also for ports below 1024. */
static int
order_main(void *arg)
{
	struct order *o = arg;

	if (setns(o->pidfd, o->flags) != 0) {
		(void)err_sys(&o->err, errno == ESRCH ? ERR_UNAVAILABLE : ERR_SYSTEM, errno,
		    "sandbox: its namespaces");
		return 1;
	}
	return o->make(o->target, &o->fd, &o->err) == 0 ? 0 : 1;
}

/* The descriptor of pid 1 is from its birth: no number is looked up again. */
static int
make_in(const struct backend_box *b, struct order order, int *ret, struct err *err)
{
	struct native_region r = {0};
	struct order *o;
	int rc;

	if (b->pidfd < 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: it has ended");
	if ((rc = native_region_make(64 << 10, sizeof(*o), &r, err)) != 0)
		return rc;
	o = native_region_shared(&r);
	*o = order;
	o->pidfd = b->pidfd;
	o->fd = -1;
	rc = native_call(&r, order_main, o);
	if (rc == 0)
		*ret = o->fd;
	else if (rc > 0 && o->err.code != 0)
		rc = err_set(err, o->err.code, "%s", o->err.msg);
	else
		rc = err_sys(
		    err, ERR_SYSTEM, rc < 0 ? -rc : ECHILD, "sandbox: helper in its namespaces");
	native_region_free(&r);
	return rc;
}

int
native_listen_in(
    const struct backend_box *b, int flags, const struct spec_target *t, int *ret, struct err *err)
{
	return make_in(
	    b, (struct order){.make = native_listener_make, .target = t, .flags = flags}, ret, err);
}

int
native_listen(struct backend_box *b, const struct spec_target *t, int *ret, struct err *err)
{
	int flags = (native_layer_off("userns") ? 0 : CLONE_NEWUSER) |
		    (native_layer_off("netns") ? 0 : CLONE_NEWNET);

	return native_listen_in(b, flags, t, ret, err);
}

/* In place: the file must stay the one that the sandbox may have open or below an overlay. */
int
native_hosts_write(int root, const struct spec_target *t, size_t n, struct err *err)
{
	AUTO_BUF struct buf text = BUF(1 << 17);
	AUTO_FD int fd = openat(root, "etc/hosts", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	backend_hosts_text(t, n, &text);
	if (buf_over(&text))
		return err_set(err, ERR_TOO_LARGE, "sandbox: /etc/hosts over %zu bytes", text.max);
	if (fd < 0 || pwrite(fd, text.p, text.n, 0) != (ssize_t)text.n ||
	    ftruncate(fd, (off_t)text.n) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: /etc/hosts");
	return 0;
}

/* Of the root mount alone, so what is mounted over parts of it is not in the way. */
static int
root_copy(const struct spec_target *t UNUSED, int *ret, struct err *err)
{
	struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
	AUTO_FD int fd = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &writable, sizeof(writable)) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: copy of the root mount");
	*ret = TAKE_FD(fd);
	return 0;
}

int
native_hosts(struct backend_box *b, const struct spec_target *t, size_t n, struct err *err)
{
	int flags = CLONE_NEWNS | (native_layer_off("userns") ? 0 : CLONE_NEWUSER), rc;
	AUTO_FD int root = -1;

	if ((rc = make_in(b, (struct order){.make = root_copy, .flags = flags}, &root, err)) != 0)
		return rc;
	return native_hosts_write(root, t, n, err);
}
