/*
 * The network (N1, N4, N7, N10, N11): there is nothing but the sandbox's own loopback and the
 * listeners of its targets; and what is named in other ways (unix sockets, System V IPC) is its
 * own.
 */
#include <arpa/inet.h>
#include <linux/if.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/walls/walls.h"

/* Reached: connected, or on its way to somewhere. */
static int
settle(int fd, long rc)
{
	int e = errno;

	if (rc < 0 && e == EINPROGRESS) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		socklen_t n = sizeof(e);

		/* Refused by the loopback's own kernel, or on its way out? */
		if (poll(&p, 1, 500) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) == 0)
			rc = e == 0 ? 0 : -1;
	}
	detail("rc %ld errno %d (%s)", rc, e, strerror(e));
	return rc == 0 || (e != ENETUNREACH && e != ECONNREFUSED && e != EHOSTUNREACH &&
			      e != EACCES && e != EADDRNOTAVAIL);
}

static int
tcp_to(const char *address, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), r;

	(void)inet_pton(AF_INET, address, &a.sin_addr);
	r = settle(fd, connect(fd, (const struct sockaddr *)&a, sizeof(a)));
	(void)close(fd);
	return r;
}

static int
tcp6_to(const char *address, int port)
{
	struct sockaddr_in6 a = {
	    .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_scope_id = 1};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);

	(void)inet_pton(AF_INET6, address, &a.sin6_addr);
	return settle(fd, connect(fd, (const struct sockaddr *)&a, sizeof(a)));
}

static int
udp_to(const char *address, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	(void)inet_pton(AF_INET, address, &a.sin_addr);
	(void)setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	return failed(sendto(fd, "x", 1, 0, (const struct sockaddr *)&a, sizeof(a)));
}

WALL("N1-metadata", n1_meta, "netns", "the metadata address of a cloud is not reached")
{
	return tcp_to("169.254.169.254", 80) || tcp_to("169.254.170.2", 80) ||
	       tcp_to("100.100.100.200", 80) || tcp6_to("fd00:ec2::254", 80);
}

WALL("N1-private", n1_lan, "netns", "no private address is reached")
{
	return tcp_to("10.0.0.1", 443) || tcp_to("172.17.0.1", 2375) || tcp_to("192.168.1.1", 80);
}

WALL("N1-public", n1_public, "netns", "no public address is reached")
{
	return tcp_to("1.1.1.1", 443) || tcp_to("8.8.8.8", 53) || udp_to("1.1.1.1", 443);
}

WALL("N1-host-address", n1_addr, "netns", "the addresses of the host itself are not reached")
{
	const char *a = canary("address", 0), *port = canary("tcpall", 0);

	return a == NULL || port == NULL ? SKIPPED : tcp_to(a, atoi(port));
}

WALL("N1-host-loopback", n1_loop, "netns", "a listener on the host's loopback is not reached")
{
	const char *port = canary("tcp", 0);

	return port == NULL ? SKIPPED
			    : tcp_to("127.0.0.1", atoi(port)) || tcp_to("0.0.0.0", atoi(port)) ||
				  tcp_to("127.255.255.254", atoi(port));
}

WALL("N1-host-loopback-udp", n1_udp, "netns", "nor one of datagrams")
{
	const char *port = canary("udp", 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (port == NULL)
		return SKIPPED;
	a.sin_port = htons((uint16_t)atoi(port));
	(void)connect(fd, (const struct sockaddr *)&a, sizeof(a));
	(void)!write(fd, "x", 1);
	(void)usleep(1000);
	return failed(write(fd, "x", 1));
}

WALL("N1-ipv6", n1_ipv6, "netns", "no address of IPv6 is reached")
{
	return tcp6_to("2606:4700:4700::1111", 443) || tcp6_to("fe80::1", 80) ||
	       tcp6_to("::ffff:1.1.1.1", 443);
}

WALL("N1-ipv6-loopback", n1_six, "netns", "nor the host's loopback by it")
{
	const char *port = canary("tcp6", 0);

	return port == NULL ? SKIPPED
			    : tcp6_to("::1", atoi(port)) || tcp6_to("::ffff:127.0.0.1", atoi(port));
}

WALL("N1-ping", n1_ping, "netns seccomp caps", "no echo request can be sent")
{
	int fd = socket(AF_INET, SOCK_DGRAM, 1);
	struct sockaddr_in a = {.sin_family = AF_INET};

	(void)inet_pton(AF_INET, "1.1.1.1", &a.sin_addr);
	return fd >= 0 && failed(sendto(fd, "\10\0\0\0\0\0\0\0", 8, 0, (const struct sockaddr *)&a,
			      sizeof(a)));
}

WALL("N1-broadcast", n1_cast, "netns", "nothing goes out by broadcast or multicast")
{
	return udp_to("255.255.255.255", 67) || udp_to("224.0.0.251", 5353) ||
	       udp_to("239.255.255.250", 1900);
}

WALL("N1-interfaces", n1_dev, "netns", "there is no interface but the loopback")
{
	int n = 0;

	if (!slurp("/proc/net/dev", room, sizeof(room)))
		return REFUSED;
	for (const char *p = room; (p = strchr(p, ':')) != NULL; p++)
		n++;
	detail("%d interfaces", n);
	return n != 1 || strstr(room, "lo:") == NULL;
}

WALL("N1-interface-change", n1_if, "caps netns", "no interface can be changed or made")
{
	struct ifreq r = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	r.ifr_flags = IFF_UP | IFF_PROMISC;
	if (failed(ioctl(fd, SIOCSIFFLAGS, &r)))
		return REACHED;
	return failed(ioctl(fd, 0x89a0 /* SIOCBRADDBR */, "br0"));
}

WALL("N1-bind-device", n1_bind, "netns caps", "no address that is not its own can be bound")
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(4000)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	(void)inet_pton(AF_INET, "1.1.1.1", &a.sin_addr);
	return failed(setsockopt(fd, 0 /* IP */, 19 /* TRANSPARENT */, &on, sizeof(on))) ||
	       failed(bind(fd, (const struct sockaddr *)&a, sizeof(a)));
}

WALL("N4-dns", n4_dns, "netns", "no name server is reached")
{
	return udp_to("8.8.8.8", 53) || tcp_to("8.8.8.8", 53) || tcp_to("1.1.1.1", 853);
}

WALL("N4-local-resolver", n4_local, "netns", "nor one on the loopback, as many hosts have it")
{
	return tcp_to("127.0.0.53", 53) || tcp_to("127.0.0.54", 53) || tcp_to("127.0.0.1", 53);
}

WALL("N4-resolv-conf", n4_conf, "mounts netns", "the resolver's file names no server that is there")
{
	char text[4096], *p = text, address[64];

	if (!slurp("/etc/resolv.conf", text, sizeof(text)))
		return REFUSED;
	while ((p = strstr(p, "nameserver")) != NULL) {
		p += 10;
		if (sscanf(p, " %63s", address) == 1 && strchr(address, ':') == NULL &&
		    tcp_to(address, 53))
			return REACHED;
	}
	return REFUSED;
}

static int
unix_to(const char *path, bool abstract, int type)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(path), at = abstract ? 1 : 0;
	int fd = socket(AF_UNIX, type, 0);

	if (n + 1 >= sizeof(a.sun_path))
		return SKIPPED;
	memcpy(a.sun_path + at, path, n);
	return failed(connect(fd, (const struct sockaddr *)&a,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at + n)));
}

#define UNIX(id_, fn_, layers_, name_, abstract_, type_, what_)              \
	WALL(id_, fn_, layers_, what_)                                       \
	{                                                                    \
		const char *p_ = canary(name_, 0);                           \
		return p_ == NULL ? SKIPPED : unix_to(p_, abstract_, type_); \
	}
UNIX("N7-abstract", n7_abstract, "netns landlock", "abstract", true, SOCK_STREAM,
    "an abstract socket of the host is not reached")
UNIX("N7-abstract-datagram", n7_adgram, "netns landlock", "abstractdgram", true, SOCK_DGRAM,
    "nor an abstract one of datagrams")
UNIX("N7-path", n7_path, "mounts", "unix", false, SOCK_STREAM,
    "a socket of the host in the file system is not reached")
UNIX("N7-ssh-agent", n7_agent, "mounts", "sshagent", false, SOCK_STREAM, "nor an agent of ssh")
UNIX("N7-docker", n7_docker, "mounts", "docker", false, SOCK_STREAM,
    "nor the socket of a container engine")
UNIX("N7-dbus", n7_dbus, "mounts", "dbus", false, SOCK_STREAM, "nor a message bus")
UNIX("N7-journal", n7_journal, "mounts", "journal", false, SOCK_DGRAM, "nor the system's log")

WALL("N7-well-known", n7_known, "mounts netns", "nor any socket at its usual place")
{
	static const char *const paths[] = {"/run/docker.sock", "/var/run/docker.sock",
	    "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock",
	    "/run/dbus/system_bus_socket", "/run/user/0/bus", "/run/user/1000/bus",
	    "/run/systemd/notify", "/run/systemd/private", "/run/systemd/journal/socket",
	    "/dev/log", "/run/snapd.socket", "/tmp/.X11-unix/X0", "/run/user/1000/wayland-0",
	    "/run/postgresql/.s.PGSQL.5432", "/run/udev/control", "/run/libvirt/libvirt-sock",
	    "/run/cofferdam/agent.sock"};
	static const char *const abstract[] = {"/tmp/.X11-unix/X0", "/tmp/dbus-0",
	    "/org/kernel/linux/storage/multipathd", "/run/systemd/journal/socket",
	    "ISCSIADM_ABSTRACT_NAMESPACE"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (unix_to(paths[i], false, SOCK_STREAM) || unix_to(paths[i], false, SOCK_DGRAM))
			return REACHED;
	for (size_t i = 0; i < sizeof(abstract) / sizeof(*abstract); i++)
		if (unix_to(abstract[i], true, SOCK_STREAM))
			return REACHED;
	return REFUSED;
}

WALL("N7-socket-list", n7_list, "netns", "the list of the host's sockets is not shown")
{
	const char *name = canary("abstract", 0);

	if (name == NULL)
		return SKIPPED;
	return slurp("/proc/net/unix", room, sizeof(room)) && strstr(room, name) != NULL;
}

/* A second sandbox of the same user, which listens and leaves files; names by canaries. */
UNIX("N10-abstract", n10_abstract, "netns landlock", "peerabstract", true, SOCK_STREAM,
    "a socket of another sandbox is not reached")

WALL("N10-tcp", n10_tcp, "netns", "nor a port of it")
{
	const char *port = canary("peertcp", 0);

	return port == NULL ? SKIPPED : tcp_to("127.0.0.1", atoi(port));
}

WALL("N10-target", n10_target, "netns", "nor a listener of another run's target")
{
	const char *a = canary("peertarget", 0), *port = canary("peertargetport", 0);

	return a == NULL || port == NULL ? SKIPPED : tcp_to(a, atoi(port));
}

WALL("N10-files", n10_files, "mounts", "nor a file of it in /tmp, /work or /dev/shm")
{
	static const char *const dirs[] = {"/tmp", "/work", "/dev/shm", "/var/tmp"};
	const char *name = canary("peerfile", 0);

	for (size_t i = 0; name != NULL && i < sizeof(dirs) / sizeof(*dirs); i++) {
		(void)snprintf(room, sizeof(room), "%s/%s", dirs[i], name);
		if (failed(access(room, F_OK)))
			return REACHED;
	}
	return name == NULL ? SKIPPED : REFUSED;
}

WALL("N10-shared-memory", n10_shm, "ipcns", "nor shared memory of it")
{
	const char *key = canary("peershm", 0);

	return key == NULL ? SKIPPED : failed(shmget((key_t)atol(key), 0, 0));
}

WALL("N11-shared-memory", n11_shm, "ipcns", "System V shared memory of the host is not there")
{
	const char *key = canary("shm", 0);

	return key == NULL ? SKIPPED : failed(shmget((key_t)atol(key), 0, 0));
}

WALL("N11-semaphores", n11_sem, "ipcns", "nor are its semaphores")
{
	const char *key = canary("sem", 0);

	return key == NULL ? SKIPPED : failed(semget((key_t)atol(key), 0, 0));
}

WALL("N11-messages", n11_msg, "ipcns", "nor are its message queues")
{
	const char *key = canary("msg", 0);

	return key == NULL ? SKIPPED : failed(msgget((key_t)atol(key), 0));
}

WALL("N11-by-number", n11_ids, "ipcns", "also not by their numbers")
{
	const char *id = canary("shmid", 0);
	void *p;

	if (id == NULL)
		return SKIPPED;
	p = shmat(atoi(id), NULL, SHM_RDONLY);
	return failed((intptr_t)p == -1 ? -1 : 0);
}

WALL("N11-posix-queue", n11_mq, "seccomp ipcns", "a POSIX queue of the host is not opened")
{
	const char *name = canary("mq", 0);

	return name == NULL ? SKIPPED : failed(syscall(SYS_mq_open, name, O_RDWR, 0, 0));
}

WALL("N11-dev-shm", n11_devshm, "mounts", "nor a file of its /dev/shm")
{
	const char *p = canary("devshm", 0);

	if (p == NULL)
		return SKIPPED;
	(void)snprintf(room, sizeof(room), "/dev/shm/%s", p);
	return failed(open(room, O_RDONLY));
}

WALL("K9-netfilter-tables", k9_tables, "seccomp caps",
    "no table of netfilter is reached by a socket's options")
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char info[84] = "filter";
	socklen_t n = sizeof(info);

	return failed(setsockopt(fd, 0, 64 /* IPT_SO_SET_REPLACE */, info, n)) ||
	       failed(getsockopt(fd, 0, 64, info, &n));
}

WALL("K2-socket-filter", k2_filter, "seccomp",
    "no program of a socket can be loaded into the kernel")
{
	struct {
		uint16_t len;
		void *p;
	} prog = {1, BAD};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	return filtered(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)));
}

WALL("M3-socket-namespace", m3_socket, "seccomp caps",
    "the network namespace of a socket can not be opened")
{
	return failed(ioctl(socket(AF_INET, SOCK_DGRAM, 0), 0x894c /* SIOCGSKNS */));
}
