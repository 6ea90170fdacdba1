/*
 * Test tool: registers a run with the broker like the built-in loop does, but makes the
 * targets' listening sockets on this host's loopback instead of inside a sandbox, so that a
 * test can reach the broker with any client. Prints "run ID", "listen TARGET ADDRESS PORT" lines
 * (TARGET "proxy" for the proxy), "env NAME VALUE" lines, then "started"; ends the run at end of
 * input. When targets come and go: "gone TARGET", "listen ..." and "env ..." lines, then "changed".
 * With -l it asks for the loop's listener and makes it at that path. Survives a restart of
 * core (A_RESUME). From the environment: AGENT (its name), PARENT, EFFECTS (one of them), BUDGET.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/ipc.h"

#include "common/banned.h"

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	exit(1);
}

/* Core may die at any moment once the run has started: the next read tells, and brings us back. */
static bool may_be_gone;

static void
send_msg(int fd, uint16_t type, const struct buf *body, const int *fds, size_t nfds)
{
	struct err err;

	if (ipc_sync_send(fd, IPC_ROLE_AGENT, IPC_ROLE_CORE, type, body, fds, nfds, &err) != 0 &&
	    !may_be_gone)
		die("hostrun: send: %s", err.msg);
}

static void
expect(int fd, uint16_t want, struct buf *body)
{
	struct err err;
	uint16_t type;
	int fds[IPC_FDS_MAX];
	size_t nfds;

	do { /* targets may come and go while an answer is on its way; the end is what is wanted */
		if (ipc_sync_recv(fd, IPC_ROLE_AGENT, IPC_ROLE_CORE, 20000, &type, body, fds, &nfds,
			&err) != 0)
			die("hostrun: %s", err.msg);
	} while (type == MSG_A_TARGETS && want == MSG_A_ENDED);
	if (type == MSG_A_ERROR) {
		struct rd r = rd_init(buf_str(body));
		struct str why;

		(void)rd_u32(&r);
		why = rd_lstr(&r);
		die("hostrun: refused: %.*s", STR_ARG(why));
	}
	if (type != want)
		die("hostrun: message %s, wanted %s", ipc_msg_name(type), ipc_msg_name(want));
}

/* At `wanted` (0: any), or, where that is taken or not for us, at any other port. */
static int
listen_somewhere(const char *address, uint16_t wanted, uint16_t *ret_port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(wanted)};
	socklen_t n = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, rc;

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (inet_pton(AF_INET, address, &sin.sin_addr) != 1)
		die("hostrun: address %s", address);
	rc = bind(fd, (struct sockaddr *)&sin, sizeof(sin));
	sin.sin_port = 0;
	if (rc != 0)
		rc = bind(fd, (struct sockaddr *)&sin, sizeof(sin));
	if (rc != 0 || listen(fd, 1024) != 0 || getsockname(fd, (struct sockaddr *)&sin, &n) != 0)
		die("hostrun: cannot listen on %s", address);
	*ret_port = ntohs(sin.sin_port);
	return fd;
}

static int
listen_at(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0 || listen(fd, 128) != 0)
		die("hostrun: cannot listen at %s", path);
	return fd;
}

/* Names of the targets that it has, by index. */
static char *names[256];

/* One target of the plan: make its listener, say where, hand it over. */
static void
serve_target(int fd, uint32_t index, bool fresh, struct rd *r, const char *loop)
{
	AUTO_BUF struct buf out = BUF(64);
	AUTO_FREE char *a = NULL;
	AUTO_FD int l = -1;
	struct str target = rd_lstr(r), kind = rd_lstr(r);
	uint16_t port = 0;
	uint32_t own;
	uint8_t how;

	(void)rd_lstr(r); /* host */
	own = rd_u32(r);
	a = str_dup(rd_lstr(r));
	(void)rd_lstr(r); /* database */
	(void)rd_lstr(r); /* user */
	how = rd_u8(r);
	if (target.n == 0)
		target = kind;
	if (index < 256) {
		free(names[index]);
		names[index] = str_dup(target);
	}
	if (how == 0 || !fresh)
		return;
	if (how == 2)
		l = listen_at(loop);
	else
		/* An HTTP client says the port in Host: best its own. */
		l = listen_somewhere(a, str_eqz(kind, "postgres") ? 0 : (uint16_t)own, &port);
	(void)printf("listen %.*s %s %u\n", STR_ARG(target), how == 2 ? loop : a, (unsigned)port);
	buf_u32(&out, index);
	send_msg(fd, MSG_A_LISTEN, &out, &l, 1);
}

static void
say_env(struct rd *r)
{
	uint32_t n = rd_u32(r);

	for (uint32_t i = 0; i < n && !r->bad; i++) {
		struct str name = rd_lstr(r), value = rd_lstr(r);

		(void)printf("env %.*s %.*s\n", STR_ARG(name), STR_ARG(value));
	}
}

/* SAYS in the environment is what the agent says, as its loop would tell it. */
static void
say(int fd)
{
	AUTO_BUF struct buf out = BUF(65536);
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	const char *words = getenv("SAYS");

	if (words == NULL)
		return;
	buf_u64(&out, 1);
	buf_lz(&out, "model");
	buf_lz(&out, "{}");
	buf_lz(&out, words);
	send_msg(fd, MSG_A_EVENT, &out, NULL, 0);
	expect(fd, MSG_A_EVENT_ACK, &in);
}

static const char *
setting(const char *name)
{
	const char *v = getenv(name);

	return v != NULL ? v : "";
}

static void
open_run(int fd, int argc, char **argv, const char *loop, char *ret_run, size_t size)
{
	AUTO_BUF struct buf out = BUF(65536);
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	struct str id;
	struct rd r;
	uint32_t n;

	buf_u32(&out, IPC_VERSION);
	buf_lz(&out, getenv("AGENT") != NULL ? getenv("AGENT") : "hostrun");
	buf_lz(&out, "test");
	buf_lz(&out, setting("PARENT"));
	buf_u32(&out, (uint32_t)argc);
	for (int i = 0; i < argc; i++)
		buf_lz(&out, argv[i]);
	buf_u32(&out, getenv("EFFECTS") != NULL ? 1 : 0);
	if (getenv("EFFECTS") != NULL)
		buf_lz(&out, getenv("EFFECTS"));
	buf_lz(&out, setting("BUDGET"));
	buf_lz(&out, "{}");
	buf_u8(&out, loop != NULL ? 1 : 0);
	send_msg(fd, MSG_A_OPEN, &out, NULL, 0);
	expect(fd, MSG_A_PLAN, &in);
	r = rd_init(buf_str(&in));
	id = rd_lstr(&r);
	(void)snprintf(ret_run, size, "%.*s", STR_ARG(id));
	(void)rd_lstr(&r); /* owner */
	(void)rd_lstr(&r); /* CA */
	(void)printf("run %s\n", ret_run);
	n = rd_u32(&r);
	for (uint32_t i = 0; i < n && !r.bad; i++)
		serve_target(fd, i, true, &r, loop);
	say_env(&r);
	(void)rd_lstr(&r); /* the policy in words */
	(void)rd_u32(&r);  /* it asked for no models */
	if (!rd_end(&r))
		die("hostrun: malformed plan");
	buf_reset(&out);
	buf_lz(&out, "{}");
	send_msg(fd, MSG_A_START, &out, NULL, 0);
	expect(fd, MSG_A_STARTED, &in);
	say(fd);
	(void)printf("started\n");
	(void)fflush(stdout);
}

/* Core went away: come back as the same run, as the loop does. */
static int
resume(const char *path, const char *run)
{
	for (int i = 0; i < 300; i++) {
		struct err err;
		AUTO_BUF struct buf out = BUF(512);
		AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
		int fd, fds[IPC_FDS_MAX];
		size_t nfds;
		uint16_t type = 0;

		(void)usleep(100000);
		if (ipc_connect(path, &fd, &err) != 0)
			continue;
		buf_u32(&out, IPC_VERSION);
		buf_lz(&out, run);
		buf_u64(&out, 0);
		buf_u8(&out, 0);
		if (ipc_sync_send(fd, IPC_ROLE_AGENT, IPC_ROLE_CORE, MSG_A_RESUME, &out, NULL, 0,
			&err) == 0 &&
		    ipc_sync_recv(fd, IPC_ROLE_AGENT, IPC_ROLE_CORE, 5000, &type, &in, fds, &nfds,
			&err) == 0 &&
		    type == MSG_A_STARTED) {
			(void)printf("resumed\n");
			(void)fflush(stdout);
			return fd;
		}
		(void)close(fd);
		if (type == MSG_A_ERROR) { /* it answered: no */
			(void)printf("refused\n");
			exit(3);
		}
	}
	die("hostrun: cannot resume %s", run);
}

/* All that there is from now on. A listener that went was shut down by core. */
static void
change(int fd, const struct buf *in)
{
	AUTO_BUF struct buf out = BUF(64);
	struct rd r = rd_init(buf_str(in));
	uint64_t serial = rd_u64(&r);
	uint32_t n = rd_u32(&r);
	bool there[256] = {false};

	may_be_gone = true;
	for (uint32_t i = 0; i < n && !r.bad; i++) {
		uint32_t index = rd_u32(&r);
		bool fresh = rd_u8(&r) == 1;

		if (index < 256)
			there[index] = true;
		serve_target(fd, index, fresh, &r, NULL);
	}
	for (size_t i = 0; i < 256; i++) {
		if (names[i] == NULL || there[i])
			continue;
		(void)printf("gone %s\n", names[i]);
		free(names[i]);
		names[i] = NULL;
	}
	say_env(&r);
	if (!rd_end(&r))
		die("hostrun: malformed targets");
	buf_u64(&out, serial);
	buf_lz(&out, "");
	send_msg(fd, MSG_A_CHANGED, &out, NULL, 0);
	may_be_gone = false;
	(void)printf("changed\n");
	(void)fflush(stdout);
}

/* What core says meanwhile. Returns the wire to go on with. */
static int
listen_to_core(int fd, const char *path, const char *run)
{
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	struct err err;
	uint16_t type;
	int fds[IPC_FDS_MAX];
	size_t nfds;

	if (ipc_sync_recv(fd, IPC_ROLE_AGENT, IPC_ROLE_CORE, 1000, &type, &in, fds, &nfds, &err) !=
	    0) {
		(void)close(fd);
		return resume(path, run);
	}
	if (type == MSG_A_KILL) {
		(void)printf("killed\n");
		exit(3);
	}
	if (type == MSG_A_TARGETS)
		change(fd, &in);
	return fd;
}

int
main(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF(512);
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	struct err err;
	const char *loop = NULL;
	char run[128];
	int fd;

	if (argc > 2 && strcmp(argv[1], "-l") == 0) {
		loop = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc < 2)
		die("usage: hostrun [-l LOOP-SOCKET] AGENT-SOCKET [TARGET...]");
	if (ipc_connect(argv[1], &fd, &err) != 0)
		die("hostrun: %s", err.msg);
	open_run(fd, argc - 2, argv + 2, loop, run, sizeof(run));
	for (;;) {
		struct pollfd p[2] = {{.fd = 0, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
		char c[64];

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents != 0 && read(0, c, sizeof(c)) <= 0)
			break;
		if (p[1].revents != 0)
			fd = listen_to_core(fd, argv[1], run);
	}
	buf_lz(&out, "done");
	buf_lz(&out, "");
	buf_lz(&out, "");
	send_msg(fd, MSG_A_END, &out, NULL, 0);
	expect(fd, MSG_A_ENDED, &in);
	(void)printf("ended\n");
	return 0;
}
