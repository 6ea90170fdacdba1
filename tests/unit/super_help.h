/*
 * A supervisor in a thread of the test (or a child process, for one with a name) over a back end of
 * the test's own, whose pid 1 is super_pid1.h. What the kernel would say of limits, the test says.
 */
#ifndef TESTS_UNIT_SUPER_HELP_H
#define TESTS_UNIT_SUPER_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/sandbox_result.h"
#include "agent/sandbox/super.h"
#include "agent/sandbox/super_state.h"
#include "super_pid1.h"

/* Short, but not so short that a busy machine looks like a peer that is stuck. */
const struct super_times super_times = {
    .stuck = 2000, .ready = 10000, .spawn = 8000, .grace = 1500, .pause = 3000};

/* --- the back end -------------------------------------------------------------------------- */

static atomic_int fake_ooms, fake_disk_full, fake_lacks, fake_ends, fake_notify = -1;
static atomic_int fake_listen_fails, fake_refused, fake_freezes;
static const char *fake_how = "";
static char fake_hosts[4096];

static int
fake_listener(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 4) == 0);
	return fd;
}

static int
fake_start(const struct super_spec *s, struct backend_box *b, struct err *err)
{
	char exe[] = "/proc/self/exe", one[] = "pid1", *argv[] = {exe, one, NULL, NULL};
	char *env[] = {NULL, NULL};
	AUTO_FREE char *path = xasprintf("PATH=%s", getenv("PATH"));
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t all, none;
	int pair[2];

	env[0] = path;
	if (strcmp(fake_how, "refused") == 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: a wall is missing: mend it");
	AUTO_FREE char *how = xstrdup(fake_how);
	argv[2] = how;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_adddup2(&fa, pair[1], 200);
	(void)posix_spawn_file_actions_adddup2(&fa, 200, INSIDE_WIRE_FD);
	(void)posix_spawn_file_actions_addclosefrom_np(&fa, 4);
	(void)posix_spawnattr_init(&at);
	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	(void)posix_spawnattr_setsigdefault(&at, &all);
	(void)posix_spawnattr_setsigmask(&at, &none);
	(void)posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	assert_int_equal(posix_spawn(&b->child, exe, &fa, &at, argv, env), 0);
	(void)posix_spawn_file_actions_destroy(&fa);
	(void)posix_spawnattr_destroy(&at);
	(void)close(pair[1]);
	b->inside = pair[0];
	b->pidfd = (int)syscall(SYS_pidfd_open, b->child, 0);
	b->lacks = (unsigned)fake_lacks;
	b->notify = fake_notify >= 0 ? dup(fake_notify) : -1;
	for (; b->nlisteners < s->ntargets; b->nlisteners++)
		b->listeners[b->nlisteners] = fake_listener();
	buf_put_z(&b->level, "\"namespaces\":[\"none\"]");
	return 0;
}

static void
fake_end(struct backend_box *b)
{
	fake_ends++;
	if (b->child > 0) {
		(void)kill(b->child, SIGKILL);
		(void)waitpid(b->child, NULL, 0);
	}
	b->child = 0;
}

static int
fake_freeze(struct backend_box *b, bool on, struct err *err UNUSED)
{
	fake_freezes++;
	(void)kill(b->child, on ? SIGSTOP : SIGCONT);
	return 0;
}

static void
fake_usage(struct backend_box *b UNUSED, struct backend_usage *ret)
{
	*ret = (struct backend_usage){
	    .oom_kills = (uint64_t)fake_ooms, .disk_full = fake_disk_full != 0, .pids = 3};
}

static bool
fake_still(struct backend_box *b UNUSED)
{
	return strcmp(fake_how, "changed") != 0;
}

static int
fake_listen(
    struct backend_box *b UNUSED, const struct spec_target *t UNUSED, int *ret_fd, struct err *err)
{
	if (fake_listen_fails != 0 && --fake_listen_fails == 0)
		return err_set(err, ERR_SYSTEM, "sandbox: address in use");
	*ret_fd = fake_listener();
	return 0;
}

static int
fake_hosts_write(
    struct backend_box *b UNUSED, const struct spec_target *t, size_t n, struct err *err UNUSED)
{
	AUTO_BUF struct buf text = BUF(sizeof(fake_hosts) - 1);

	backend_hosts_text(t, n, &text);
	memcpy(fake_hosts, text.p, text.n);
	fake_hosts[text.n] = '\0';
	return 0;
}

static const struct backend fake = {.name = "native",
    .start = fake_start,
    .end = fake_end,
    .freeze = fake_freeze,
    .usage = fake_usage,
    .listen = fake_listen,
    .still = fake_still,
    .hosts = fake_hosts_write};

/* In place of super_backend.c. */
const struct backend *
backend_find(const char *name)
{
	return strcmp(name, "native") == 0 ? &fake : NULL;
}

/* In place of filter_notify.c: fake_refused calls were refused since the last reset. */
struct filter_counts *
filter_counts_new(void)
{
	return xcalloc(1, 1);
}

void
filter_counts_free(struct filter_counts *c)
{
	free(c);
}

bool
filter_notify_turn(int listener, struct filter_counts *c UNUSED, unsigned max UNUSED)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	uint64_t n = 0;

	if (poll(&p, 1, 0) == 1 && read(listener, &n, sizeof(n)) == (ssize_t)sizeof(n))
		fake_refused += (int)n;
	return true;
}

void
filter_counts_json(struct filter_counts *c UNUSED, bool reset, struct buf *out)
{
	if (fake_refused != 0)
		buf_printf(
		    out, "[{\"call\":\"ptrace\",\"program\":\"a{\",\"count\":%d}]", fake_refused);
	else
		buf_put_z(out, "[]");
	if (reset)
		fake_refused = 0;
}

/* --- callers ---------------------------------------------------------------------------------- */

static UNUSED int
help_reset(void **state UNUSED)
{
	fake_ooms = fake_disk_full = fake_lacks = fake_ends = fake_listen_fails = 0;
	fake_refused = fake_freezes = 0;
	fake_notify = -1;
	fake_how = "";
	return 0;
}

static UNUSED struct sandbox *
help_create(const struct sandbox_spec *s)
{
	struct sandbox *sb = NULL;
	struct err e = {0};

	if (sandbox_create_here(s, &sb, &e) != 0)
		fail_msg("create: %s", e.msg);
	return sb;
}

/* A supervisor of its own process, so that it may have a name. The wire is the test's. */
static UNUSED pid_t
help_process(int *ret_wire)
{
	int pair[2];
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		(void)close(pair[0]);
		(void)dup2(pair[1], WIRE_FD);
		_exit(super_main(WIRE_FD, true));
	}
	(void)close(pair[1]);
	*ret_wire = pair[0];
	return pid;
}

static UNUSED struct sandbox *
help_named(const struct sandbox_spec *s, pid_t *ret_pid, int want)
{
	struct sandbox *sb = client_for(s);
	struct err e = {0};
	int rc;

	*ret_pid = help_process(&sb->wire);
	rc = client_create(sb, s, &e);
	if (rc != want)
		fail_msg("create: %d %s", rc, e.msg);
	if (rc == 0)
		return sb;
	(void)waitpid(*ret_pid, NULL, 0);
	sandbox_destroy(sb);
	return NULL;
}

#define ARGV(...) ((char **)(uintptr_t)(const char *const[]){__VA_ARGS__, NULL})

static UNUSED uint32_t
help_spawn(struct sandbox *sb, const struct sandbox_exec *x)
{
	uint32_t proc = 0;
	struct err e = {0};

	if (sandbox_spawn(sb, x, &proc, &e) != 0)
		fail_msg("spawn: %s", e.msg);
	return proc;
}

/* Runs argv to its end; "" or the head of its output goes to out, if not NULL. */
static UNUSED struct sandbox_result
help_exec(struct sandbox *sb, char **argv, uint32_t timeout_s)
{
	struct sandbox_exec x = {
	    .argv = argv, .timeout_s = timeout_s, .stdin_fd = -1, .head = 4096, .tail = 16};
	struct sandbox_result r;
	struct err e = {0};

	if (sandbox_exec(sb, &x, &r, &e) != 0)
		fail_msg("exec %s: %s", argv[0], e.msg);
	return r;
}

static UNUSED void
help_ends(struct sandbox *sb, char **argv, enum sandbox_cause cause, int value)
{
	struct sandbox_result r = help_exec(sb, argv, 0);

	if (r.cause != cause || r.value != value)
		fail_msg("%s: %s %d, wanted %s %d", argv[0], sandbox_cause_name(r.cause), r.value,
		    sandbox_cause_name(cause), value);
	sandbox_result_free(&r);
}

/* The exec fails with this error, and `what` stands in its text. */
static UNUSED void
help_refused(struct sandbox *sb, char **argv, int code, const char *what)
{
	struct sandbox_exec x = {.argv = argv, .stdin_fd = -1};
	struct sandbox_result r;
	struct err e = {0};
	int rc = sandbox_exec(sb, &x, &r, &e);

	if (rc != code || strstr(e.msg, what) == NULL)
		fail_msg("%d \"%s\", wanted %d \"%s\"", rc, e.msg, code, what);
}

#endif
