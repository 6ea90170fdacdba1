/*
 * A sandbox's life as its caller sees it: create, attach, detach, destroy. Runs in any caller's
 * process (cofferdam-agent, the command line, tests). It trusts the supervisor, which it started or
 * which its own user did. It never waits without a deadline, and never leaves a supervisor behind
 * that nobody can reach.
 */
#include "agent/sandbox/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/proc_paths.h"
#include "common/xalloc.h"
#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/sandbox_env.h"
#include "agent/sandbox/super.h"

#include "common/banned.h"

#define END_MS 10000

/* --- the supervisor ------------------------------------------------------------------------ */

/* Of the caller's environment it gets the one variable that call_directory reads; one that outlives
 * its caller must not hold a pipe open that somebody reads to its end. */
static int
supervisor_spawn(const char *path, int wire, enum client_hold hold, pid_t *ret, struct err *err)
{
	AUTO_FREE char *runtime = NULL;
	char name[] = "cofferdam-sandbox", outlives[] = SUPER_STAYS "=1";
	char *argv[] = {name, NULL}, *envp[] = {NULL, NULL, NULL};
	size_t n = 0;
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	if (getenv("XDG_RUNTIME_DIR") != NULL)
		envp[n++] = runtime = xasprintf("XDG_RUNTIME_DIR=%s", getenv("XDG_RUNTIME_DIR"));
	if (hold == CLIENT_STAYS)
		envp[n] = outlives;
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_RDWR, 0);
	if (hold != CLIENT_HOLDS)
		(void)posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_adddup2(&fa, wire, WIRE_FD);
	(void)posix_spawnattr_init(&attr);
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setsigdefault(&attr, &all);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawn(ret, path, &fa, &attr, argv, envp);
	(void)posix_spawn_file_actions_destroy(&fa);
	(void)posix_spawnattr_destroy(&attr);
	return rc == 0 ? 0 : err_sys(err, ERR_UNAVAILABLE, rc, "sandbox: %s", path);
}

/* What was started has started the supervisor, which is nobody's child. */
static int
starter_reap(struct sandbox *sb, const char *path, struct err *err)
{
	pid_t pid = sb->supervisor;
	int st = 0;

	sb->supervisor = 0;
	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return 0; /* SIGCHLD is ignored here */
	if (WIFEXITED(st) && WEXITSTATUS(st) == 0)
		return 0;
	return err_sys(err, ERR_UNAVAILABLE, WIFEXITED(st) ? WEXITSTATUS(st) : EINTR,
	    "sandbox: %s: another process", path);
}

int
client_supervise(struct sandbox *sb, enum client_hold hold, struct err *err)
{
	AUTO_FREE char *path = proc_program("cofferdam-sandbox");
	AUTO_FD int theirs = -1;
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: socketpair");
	sb->wire = pair[0];
	theirs = pair[1];
	/* dup2 onto itself would keep close-on-exec: move it away from 3 first. */
	if (theirs <= WIRE_FD) {
		int up = fcntl(theirs, F_DUPFD_CLOEXEC, 10);

		if (up < 0)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: dup");
		(void)close(theirs);
		theirs = up;
	}
	rc = supervisor_spawn(path, theirs, hold, &sb->supervisor, err);
	if (rc == 0 && hold == CLIENT_STAYS)
		return starter_reap(sb, path, err);
	if (rc != 0 || hold == CLIENT_LOOSE)
		sb->supervisor = 0;
	return rc;
}

/* Waits for its end, which it has announced; then by force. Its pid 1 dies with it. */
static void
supervisor_reap(struct sandbox *sb)
{
	int64_t deadline = wire_now_ms() + END_MS;
	struct pollfd p = {.fd = sb->wire, .events = POLLIN};
	char drop[4096];
	int st;

	while (sb->wire >= 0 && wire_now_ms() < deadline) {
		ssize_t k;

		if (poll(&p, 1, 1000) < 0 && errno != EINTR)
			break;
		k = recv(sb->wire, drop, sizeof(drop), MSG_DONTWAIT);
		if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
			break;
	}
	if (wire_now_ms() >= deadline)
		(void)kill(sb->supervisor, SIGKILL);
	while (waitpid(sb->supervisor, &st, 0) < 0 && errno == EINTR)
		continue;
	sb->supervisor = 0;
}

/* --- create -------------------------------------------------------------------------------- */

int
client_create_body(const struct sandbox_spec *s, char *const *env, struct buf *out, struct err *err)
{
	struct sandbox_spec own = *s;
	AUTO_BUF struct buf spec = BUF(WIRE_BODY_MAX);

	own.env = (const char *const *)env;
	sandbox_spec_encode(&own, &spec);
	buf_lstr(out, buf_str(&spec));
	if (buf_over(&spec) || buf_over(out))
		return err_set(
		    err, ERR_TOO_LARGE, "sandbox: the spec is over %zu bytes", WIRE_BODY_MAX);
	return 0;
}

int
client_created(struct sandbox *sb, uint32_t tag, size_t ntargets, int ms, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct rd r;
	int rc = client_answer(sb, tag, CALL_CREATED, ms, &m, err);

	if (rc == ERR_TIMEOUT)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: not built within %d s", ms / 1000);
	if (rc != 0)
		return rc;
	r = rd_init(buf_str(&m.body));
	sb->level = str_dup(rd_lstr(&r));
	if (!rd_end(&r) || m.nfds != ntargets)
		return err_set(err, ERR_PROTOCOL, "sandbox: the supervisor's answer does not fit");
	for (size_t i = 0; i < m.nfds; i++)
		sb->listeners[i] = TAKE_FD(m.fds[i]);
	sb->nlisteners = m.nfds;
	return 0;
}

int
client_create(struct sandbox *sb, const struct sandbox_spec *s, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	uint32_t tag = 0;
	int rc;

	if ((rc = client_create_body(s, sb->env, &b, err)) != 0 ||
	    (rc = client_send(sb, CALL_CREATE, &b, NULL, 0, &tag, err)) != 0 ||
	    (rc = client_created(sb, tag, s->ntargets, CLIENT_CREATE_MS, err)) != 0)
		return rc;
	sb->named = s->name != NULL;
	return 0;
}

struct sandbox *
client_for(const struct sandbox_spec *s)
{
	struct sandbox *sb = client_new();
	uint32_t mib = s->limits.output_mib;

	sb->output_max = (uint64_t)(mib != 0 ? mib : sandbox_limits_default().output_mib) << 20;
	sb->env = sandbox_env_make(s);
	return sb;
}

int
sandbox_create(const struct sandbox_spec *s, struct sandbox **ret, struct err *err)
{
	AUTO(sandbox) struct sandbox *sb = NULL;
	struct err e = {0};

	if (sandbox_spec_check(s, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	sb = client_for(s);
	if (client_supervise(sb, s->name != NULL ? CLIENT_STAYS : CLIENT_HOLDS, &e) != 0 ||
	    client_create(sb, s, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	*ret = TAKE_PTR(sb);
	return 0;
}

/* --- attach -------------------------------------------------------------------------------- */

static int
attach_read(struct sandbox *sb, struct str body, struct err *err)
{
	struct rd r = rd_init(body);
	struct str level = rd_lstr(&r);
	uint32_t mib = rd_u32(&r), n = rd_u32(&r);

	if (n > body.n / 4)
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed answer to attach");
	sb->env = xcalloc((size_t)n + 1, sizeof(*sb->env));
	for (uint32_t i = 0; i < n; i++) {
		sb->env[i] = str_dup(rd_lstr(&r));
		if (strchr(sb->env[i], '=') == NULL)
			r.bad = true;
	}
	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed answer to attach");
	sb->level = str_dup(level);
	sb->output_max = (uint64_t)mib << 20;
	return 0;
}

int
client_connect(const char *path, int *ret, struct err *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: socket");
	if (strlen(path) >= sizeof(a.sun_path))
		return err_set(
		    err, ERR_TOO_LARGE, "sandbox: %s is longer than a socket's path", path);
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
		return err_sys(err,
		    errno == ENOENT || errno == ECONNREFUSED ? ERR_NOT_FOUND : ERR_SYSTEM, errno,
		    "sandbox: %s", path);
	*ret = TAKE_FD(fd);
	return 0;
}

int
sandbox_attach(const char *name, struct sandbox **ret, struct err *err)
{
	AUTO(sandbox) struct sandbox *sb = client_new();
	AUTO_FREE char *dir = NULL, *path = NULL, *where = call_directory_path();
	AUTO_BUF struct buf b = BUF(8);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};

	if (sandbox_spec_check(&(struct sandbox_spec){.name = name}, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	dir = call_directory(false, &e);
	path = dir != NULL ? xasprintf("%s/%s.sock", dir, name) : NULL;
	if (path == NULL || client_connect(path, &sb->wire, &e) != 0)
		return e.code == ERR_NOT_FOUND
			   ? err_set(err, ERR_NOT_FOUND,
				 "sandbox: there is no \"%s\" (any more) in %s", name, where)
			   : err_set(err, e.code, "%s", e.msg);
	buf_u8(&b, CALL_VERSION);
	/* Until attached it is not ours to end. */
	if (client_ask(sb, CALL_ATTACH, &b, &m, &e) != 0 ||
	    attach_read(sb, buf_str(&m.body), &e) != 0) {
		cleanup_close_fd(&sb->wire);
		return err_set(err, e.code, "%s", e.msg);
	}
	sb->named = true;
	*ret = TAKE_PTR(sb);
	return 0;
}

/* --- the end ------------------------------------------------------------------------------- */

/* The order to end is a message for a named one, and for others that the wire closes. */
void
sandbox_destroy(struct sandbox *sb)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e;
	uint32_t tag = 0;
	bool told;

	if (sb == NULL)
		return;
	told =
	    sb->wire >= 0 && !sb->taken && client_send(sb, CALL_END, NULL, NULL, 0, &tag, &e) == 0;
	if (sb->spare != NULL)
		sb->spare(sb);
	if (told)
		(void)client_answer(sb, tag, CALL_DONE, END_MS, &m, &e);
	if (sb->wire >= 0)
		(void)shutdown(sb->wire, SHUT_WR);
	if (sb->supervisor > 0)
		supervisor_reap(sb);
	cleanup_close_fd(&sb->wire);
	if (sb->here != NULL)
		sb->end(sb);
	client_free(sb);
}

void
sandbox_detach(struct sandbox *sb)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e;

	if (sb == NULL || !sb->named || sb->here != NULL) {
		sandbox_destroy(sb);
		return;
	}
	(void)client_ask(sb, CALL_DETACH, NULL, &m, &e);
	cleanup_close_fd(&sb->wire);
	client_free(sb);
}

const char *
sandbox_level(const struct sandbox *sb)
{
	return sb->level;
}

int
sandbox_listener_take(struct sandbox *sb, size_t i)
{
	return i < sb->nlisteners ? TAKE_FD(sb->listeners[i]) : -1;
}
