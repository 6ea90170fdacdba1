/*
 * Unit tests of process start: what a spawned program inherits, the system call filter,
 * Landlock, the change of user, and a child's states up to C_READY. Each runs in a process of
 * its own; this program, started under the name "spawned", is also the child.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <netinet/in.h>

#include <cmocka.h>

#include "common/hash.h"
#include "common/log.h"
#include "common/proc.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"

#include "common/banned.h"

extern char **environ;
static char dir[] = "/tmp/t_proc.XXXXXX";

/* The wait status of a body that runs confined in a process of its own. */
static int
status_of(int (*body)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define ASSERT_EXIT(body, want)                                                                   \
	do {                                                                                      \
		int st_ = status_of(body);                                                        \
		if (!WIFEXITED(st_) || WEXITSTATUS(st_) != (want))                                \
			fail_msg(                                                                 \
			    "%s: wait status %#x, wanted exit %d", #body, (unsigned)st_, (want)); \
	} while (0)

/* The filter is not loaded in sanitized builds: there the act must merely not crash the test. */
#ifdef MODE_SANITIZED
#define ASSERT_KILLED(body) (void)(body)
#else
#define ASSERT_KILLED(body)                                                                   \
	do {                                                                                  \
		int st_ = status_of(body);                                                    \
		if (!WIFSIGNALED(st_) || WTERMSIG(st_) != SIGSYS)                             \
			fail_msg("%s: wait status %#x, wanted SIGSYS", #body, (unsigned)st_); \
	} while (0)
#endif

/* --- seccomp --------------------------------------------------------------------------- */

static int
filter(const char *const *names)
{
	struct err err = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || proc_seccomp(names, &err) != 0) {
		log_error("%s", err.msg);
		_exit(99);
	}
	return 0;
}

static void
tick(void *arg)
{
	loop_stop(arg, 0);
}

static int
ordinary_work(void)
{
	struct loop *l = loop_new();
	uint8_t bytes[16];
	char *p;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) != 0)
		return 1;
	(void)filter(NULL);
	(void)loop_timer_add(l, 1, tick, l);
	(void)loop_run(l);
	p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || mprotect(p, 4096, PROT_READ) != 0)
		return 2;
	free(malloc(64 << 20));
	if (write(sv[0], "x", 1) != 1 || read(sv[1], p + 8192, 1) != 1 || p[8192] != 'x')
		return 3;
	if (fcntl(sv[0], F_SETFL, O_NONBLOCK) != 0)
		return 4;
	rand_bytes(bytes, sizeof(bytes));
	return 0;
}

static int
makes_a_socket(void)
{
	(void)filter(NULL);
	(void)socket(AF_INET, SOCK_STREAM, 0);
	return 0;
}

static int
makes_a_named_socket(void)
{
	static const char *const names[] = {"socket", NULL};

	(void)filter(names);
	return socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 0 : 1;
}

static int
makes_a_netlink_socket(void)
{
	static const char *const names[] = {"socket", NULL};

	(void)filter(names);
	(void)socket(AF_NETLINK, SOCK_RAW, 0);
	return 0;
}

static int
opens_a_file(void)
{
	(void)filter(NULL);
	(void)open("/dev/null", O_RDONLY | O_CLOEXEC);
	return 0;
}

static int
opens_a_file_by_name(void)
{
	static const char *const names[] = {"openat", NULL};

	(void)filter(names);
	return open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 1;
}

static int
starts_a_process(void)
{
	(void)filter(NULL);
	(void)fork();
	return 0;
}

static int
maps_code(void)
{
	(void)filter(NULL);
	(void)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return 0;
}

static int
makes_code_of_data(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)filter(NULL);
	(void)mprotect(p, 4096, PROT_READ | PROT_EXEC);
	return 0;
}

static int
signals_its_parent(void)
{
	(void)filter(NULL);
	(void)syscall(SYS_tgkill, getppid(), getppid(), 0);
	return 0;
}

static int
aborts(void)
{
	(void)signal(SIGABRT, SIG_DFL);
	(void)filter(NULL);
	abort();
}

static int
raises_a_limit(void)
{
	struct rlimit r = {0};

	(void)filter(NULL);
	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return 1;
	(void)setrlimit(RLIMIT_NOFILE, &r);
	return 0;
}

static void
the_common_set_is_enough_for_ordinary_work(void **state UNUSED)
{
	ASSERT_EXIT(ordinary_work, 0);
}

static void
a_call_outside_the_list_kills_and_the_named_one_works(void **state UNUSED)
{
	ASSERT_KILLED(makes_a_socket);
	ASSERT_EXIT(makes_a_named_socket, 0);
	ASSERT_KILLED(makes_a_netlink_socket);
	ASSERT_KILLED(opens_a_file);
	ASSERT_EXIT(opens_a_file_by_name, 0);
	ASSERT_KILLED(starts_a_process);
}

static void
no_page_becomes_executable(void **state UNUSED)
{
	ASSERT_KILLED(maps_code);
	ASSERT_KILLED(makes_code_of_data);
}

static void
only_itself_can_be_signalled(void **state UNUSED)
{
	int status;

	ASSERT_KILLED(signals_its_parent);
	status = status_of(aborts);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void
limits_are_read_but_not_set(void **state UNUSED)
{
	ASSERT_KILLED(raises_a_limit);
}

static void
a_call_that_does_not_exist_is_an_error(void **state UNUSED)
{
	static const char *const names[] = {"no_such_call", NULL};
	struct err err = {0};

	assert_int_equal(proc_seccomp(names, &err), ERR_INTERNAL);
	assert_non_null(strstr(err.msg, "no_such_call"));
}

/* --- landlock ---------------------------------------------------------------------------- */

static bool
can_open(int at, const char *path, int flags)
{
	int fd = openat(at, path, flags | O_CLOEXEC, 0600);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

static int
landlocked(bool write)
{
	AUTO_FD int d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct proc_landlock_rule rule = {d, write};
	struct err err = {0};

	if (proc_landlock(&rule, 1, &err) != 0) {
		log_error("%s", err.msg);
		_exit(99);
	}
	if (can_open(AT_FDCWD, "/dev/null", O_RDONLY) || can_open(AT_FDCWD, "/", O_RDONLY) ||
	    can_open(d, "../..", O_RDONLY))
		return 1;
	if (!can_open(d, "old", O_RDONLY))
		return 2;
	if (can_open(d, "old", O_RDWR | O_TRUNC) != write)
		return 3;
	if (can_open(d, "new", O_WRONLY | O_CREAT) != write)
		return 4;
	if ((renameat(d, "new", d, "newer") == 0) != write ||
	    (unlinkat(d, "newer", 0) == 0) != write)
		return 5;
	if (symlinkat("/etc/passwd", d, "link") == 0 || mkfifoat(d, "fifo", 0600) == 0)
		return 6;
	return 0;
}

static int
landlocked_read(void)
{
	return landlocked(false);
}

static int
landlocked_write(void)
{
	return landlocked(true);
}

static int
landlocked_wholly(void)
{
	struct err err = {0};

	if (proc_landlock(NULL, 0, &err) != 0)
		_exit(99);
	return can_open(AT_FDCWD, dir, O_RDONLY) ? 1 : 0;
}

/* 0: refused by Landlock; 1: the kernel tried to connect. */
static int
connects(bool tcp)
{
	struct sockaddr_in sa = {
	    .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ruleset = -1;

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 4)
		return tcp ? 1 : 0; /* this kernel cannot */
	if (proc_landlock_open(tcp, &ruleset, NULL) != 0 ||
	    proc_landlock_enforce(ruleset, NULL) != 0)
		return 99;
	return connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) != 0 && errno == EACCES ? 0
											     : 1;
}

static int
connects_denied(void)
{
	return connects(false);
}

static int
connects_allowed(void)
{
	return connects(true);
}

static void
landlock_leaves_only_what_is_beneath_the_given_directory(void **state UNUSED)
{
	ASSERT_EXIT(landlocked_read, 0);
	ASSERT_EXIT(landlocked_write, 0);
	ASSERT_EXIT(landlocked_wholly, 0);
}

static void
landlock_refuses_tcp_but_to_upstream(void **state UNUSED)
{
	ASSERT_EXIT(connects_denied, 0);
	ASSERT_EXIT(connects_allowed, 1);
}

/* --- user and hardening --------------------------------------------------------------------- */

static int
hardened(void)
{
	struct err err = {0};
	struct rlimit r;

	if (proc_harden(&err) != 0)
		return 1;
	if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 2;
	return getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_max == 0 ? 0 : 3;
}

static int
becomes(void)
{
	struct err err = {0};
	int sig = 0;

	if (setgroups(1, &(gid_t){12345}) != 0 || proc_become(63100, 63101, &err) != 0)
		return 1;
	if (getuid() != 63100 || getegid() != 63101 || getgroups(0, NULL) != 0 || setuid(0) == 0)
		return 2;
	(void)prctl(PR_GET_PDEATHSIG, &sig, 0, 0, 0);
	return sig == SIGKILL ? 0 : 3;
}

static int
becomes_root(void)
{
	return proc_become(0, 63100, NULL) == ERR_INVALID &&
		       proc_become(63100, 0, NULL) == ERR_INVALID
		   ? 0
		   : 1;
}

static int
drops_caps(void)
{
	if (proc_drop_caps(NULL) != 0)
		return 1;
	return setuid(63100) != 0 && errno == EPERM ? 0 : 2;
}

static void
a_hardened_process_leaves_no_core_and_gains_nothing(void **state UNUSED)
{
	ASSERT_EXIT(hardened, 0);
}

static void
root_becomes_another_user_for_good(void **state UNUSED)
{
	ASSERT_EXIT(becomes_root, 0);
	if (geteuid() != 0) {
		print_message("# skipped: not for this user\n");
		return;
	}
	ASSERT_EXIT(becomes, 0);
	ASSERT_EXIT(drops_caps, 0);
}

/* --- spawn: this program again, as the child ---------------------------------------------------
 */

/* Run under the name "spawned": says over the wire what it inherited. */
static int
spawned(void)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct stat a, n;
	sigset_t set;
	int pdeath = 0;
	unsigned env = 0;

	for (int fd = 0; fd < 256; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			buf_printf(&b, "%d ", fd);
	while (environ != NULL && environ[env] != NULL)
		env++;
	(void)sigprocmask(SIG_SETMASK, NULL, &set);
	(void)prctl(PR_GET_PDEATHSIG, &pdeath, 0, 0, 0);
	buf_printf(&b, "env=%u blocked=%d pdeath=%d session=%d null=%d", env,
	    sigismember(&set, SIGUSR1), pdeath, getsid(0) == getpid(),
	    fstat(0, &a) == 0 && stat("/dev/null", &n) == 0 && a.st_rdev == n.st_rdev);
	return write(PROC_PARENT_FD, b.p, b.n) == (ssize_t)b.n ? 7 : 1;
}

static void
a_spawned_program_inherits_four_descriptors_and_nothing_else(void **state UNUSED)
{
	AUTO_FD int stray = open("/dev/null", O_RDONLY); /* not close-on-exec, on purpose */
	char got[512] = {0}, self[512] = {0};
	struct err err = {0};
	int sv[2], status;
	sigset_t set;
	pid_t pid;

	assert_true(stray >= 0);
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)setenv("SECRET_TOKEN", "x", 1);
	assert_int_equal(proc_spawn(self, "spawned", sv[1], &pid, &err), 0);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	assert_true(read(sv[0], got, sizeof(got) - 1) > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
#ifdef MODE_SANITIZED
	assert_string_equal(got, "0 1 2 3 env=1 blocked=0 pdeath=9 session=1 null=1");
#else
	assert_string_equal(got, "0 1 2 3 env=0 blocked=0 pdeath=9 session=1 null=1");
#endif
	(void)close(sv[0]);
	(void)close(sv[1]);
}

static void
a_program_that_is_missing_is_named(void **state UNUSED)
{
	struct err err = {0};
	pid_t pid = -1;

	assert_int_equal(proc_spawn("/nowhere/cofferdam-x", "x", 2, &pid, &err), ERR_SYSTEM);
	assert_non_null(strstr(err.msg, "/nowhere/cofferdam-x: No such file"));
	assert_int_equal(pid, -1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void
a_program_is_looked_for_beside_and_then_where_it_is_installed(void **state UNUSED)
{
	AUTO_FREE char *beside = proc_program("t_proc");
	AUTO_FREE char *far = proc_program("cofferdam-nothing");

	assert_int_equal(access(beside, X_OK), 0);
	assert_string_equal(far, COFFERDAM_LIBEXEC "/cofferdam-nothing");
}

/* --- a child's states
 * -------------------------------------------------------------------------------- */

static int
child_config(void *arg, const struct json *config, struct err *err UNUSED)
{
	buf_printf(arg, "config(%.*s) ", STR_ARG(json_str(json_get(config, "name"))));
	return 0;
}

static int
child_fd(void *arg, struct str name, int fd, struct err *err)
{
	(void)close(fd);
	if (str_eqz(name, "bad-named"))
		return err_set(err, ERR_TAMPER, "bad-named: not a vault");
	if (str_eqz(name, "bad"))
		return err_set(err, ERR_INVALID, "not a policy");
	buf_printf(arg, "fd(%.*s) ", STR_ARG(name));
	return 0;
}

static int
child_wire(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err UNUSED)
{
	(void)close(fd);
	buf_printf(arg, "wire(%s,%.*s) ", ipc_role_name(peer), STR_ARG(run));
	return 0;
}

static int
child_go(void *arg, struct err *err UNUSED)
{
	buf_printf(arg, "go(%d) ", can_open(AT_FDCWD, "/dev/null", O_RDONLY));
	return 0;
}

static int
child_serve(void *arg, struct err *err UNUSED)
{
	buf_printf(arg, "serve(%d,%d)", can_open(AT_FDCWD, "/dev/null", O_RDONLY),
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	log_info("%s", buf_dup_z(arg));
	return 0;
}

static const char *const child_calls[] = {"openat", "prctl", NULL};
static const struct proc_ops child_ops = {
    .self = IPC_ROLE_CORE,
    .name = "core",
    .config = child_config,
    .fd = child_fd,
    .wire = child_wire,
    .go = child_go,
    .serve = child_serve,
    .syscalls = child_calls,
};

static int
child_main(void)
{
	static struct buf said = {.max = 4096};

	return proc_main(&child_ops, loop_new(), &said);
}

struct parent {
	int fd;
	pid_t pid;
};

static struct parent
child_start(void)
{
	char self[512] = {0};
	struct parent p;
	int sv[2];

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(proc_spawn(self, "child", sv[1], &p.pid, NULL), 0);
	(void)close(sv[1]);
	p.fd = sv[0];
	return p;
}

static void
tell(struct parent *p, uint16_t type, const struct buf *body, size_t nfds)
{
	assert_int_equal(
	    ipc_sync_send(p->fd, IPC_ROLE_PARENT, IPC_ROLE_CORE, type, body, &(int){2}, nfds, NULL),
	    0);
}

static void
tell_config(struct parent *p, uint32_t version)
{
	AUTO_BUF struct buf b = BUF(512);

	buf_u32(&b, version);
	buf_lz(&b, "{\"name\":\"core\",\"uid\":63103,\"gid\":63103}");
	tell(p, MSG_P_CONFIG, &b, 0);
}

static void
tell_fd(struct parent *p, const char *name)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_lz(&b, name);
	tell(p, MSG_P_FD, &b, 1);
}

static void
tell_wire(struct parent *p, enum ipc_role peer, const char *run)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u8(&b, (uint8_t)peer);
	buf_lz(&b, run);
	tell(p, MSG_P_WIRE, &b, 1);
}

/* The next message: its type, and a log line's text. 0: the child is gone. */
static uint16_t
hear(struct parent *p, char *line, size_t size)
{
	AUTO_BUF struct buf b = BUF(8192);
	uint16_t type = 0;
	struct rd r;

	line[0] = '\0';
	if (ipc_sync_recv(
		p->fd, IPC_ROLE_PARENT, IPC_ROLE_CORE, 10000, &type, &b, NULL, NULL, NULL) != 0)
		return 0;
	r = rd_init(buf_str(&b));
	if (type == MSG_C_LOG) {
		struct str text;

		(void)rd_u8(&r);
		text = rd_lstr(&r);
		(void)snprintf(line, size, "%.*s", STR_ARG(text));
	}
	return type;
}

static int
child_end(struct parent *p)
{
	int status = 0;

	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	(void)close(p->fd);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
a_child_confines_itself_before_it_serves_and_only_then_takes_wires(void **state UNUSED)
{
	struct parent p = child_start();
	char line[4096];

	tell_config(&p, IPC_VERSION);
	tell_wire(&p, IPC_ROLE_WRITER, "");
	tell_fd(&p, "vault");
	tell_wire(&p, IPC_ROLE_PARSER, "r-1");
	tell(&p, MSG_P_GO, NULL, 0);
	assert_int_equal(hear(&p, line, sizeof(line)), MSG_C_LOG);
	assert_string_equal(
	    line, "config(core) fd(vault) go(1) wire(writer,) wire(parser,r-1) serve(0,1)");
	assert_int_equal(hear(&p, line, sizeof(line)), MSG_C_READY);
	/* A bad reload is said, and the child goes on. */
	tell_fd(&p, "bad");
	assert_int_equal(hear(&p, line, sizeof(line)), MSG_C_LOG);
	assert_string_equal(line, "bad: not a policy; the old one stays");
	/* Its name is said once. */
	tell_fd(&p, "bad-named");
	assert_int_equal(hear(&p, line, sizeof(line)), MSG_C_LOG);
	assert_string_equal(line, "bad-named: not a vault; the old one stays");
	tell(&p, MSG_P_STOP, NULL, 0);
	assert_int_equal(child_end(&p), 0);
}

static void
messages_out_of_order_end_the_child_with_a_reason(void **state UNUSED)
{
	char line[4096];
	struct parent p = child_start();

	tell(&p, MSG_P_GO, NULL, 0);
	assert_int_equal(hear(&p, line, sizeof(line)), MSG_C_LOG);
	assert_string_equal(line, "P_GO: not in state 0");
	assert_int_equal(child_end(&p), 1);

	p = child_start();
	tell_config(&p, IPC_VERSION + 1);
	assert_int_equal(hear(&p, line, sizeof(line)), MSG_C_LOG);
	{
		AUTO_FREE char *want =
		    xasprintf("P_CONFIG: wire version is %d, this program speaks %d",
			IPC_VERSION + 1, IPC_VERSION);

		assert_string_equal(line, want);
	}
	assert_int_equal(child_end(&p), 1);

	p = child_start();
	tell_config(&p, IPC_VERSION);
	tell_config(&p, IPC_VERSION);
	assert_int_equal(hear(&p, line, sizeof(line)), MSG_C_LOG);
	assert_string_equal(line, "P_CONFIG: not in state 1");
	assert_int_equal(child_end(&p), 1);
}

static void
a_child_ends_with_its_parent(void **state UNUSED)
{
	struct parent p = child_start();

	(void)shutdown(p.fd, SHUT_RDWR);
	assert_int_equal(child_end(&p), 1);
}

int
main(int argc UNUSED, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_common_set_is_enough_for_ordinary_work),
	    cmocka_unit_test(a_call_outside_the_list_kills_and_the_named_one_works),
	    cmocka_unit_test(no_page_becomes_executable),
	    cmocka_unit_test(only_itself_can_be_signalled),
	    cmocka_unit_test(limits_are_read_but_not_set),
	    cmocka_unit_test(a_call_that_does_not_exist_is_an_error),
	    cmocka_unit_test(landlock_leaves_only_what_is_beneath_the_given_directory),
	    cmocka_unit_test(landlock_refuses_tcp_but_to_upstream),
	    cmocka_unit_test(a_hardened_process_leaves_no_core_and_gains_nothing),
	    cmocka_unit_test(root_becomes_another_user_for_good),
	    cmocka_unit_test(a_spawned_program_inherits_four_descriptors_and_nothing_else),
	    cmocka_unit_test(a_program_that_is_missing_is_named),
	    cmocka_unit_test(a_program_is_looked_for_beside_and_then_where_it_is_installed),
	    cmocka_unit_test(a_child_confines_itself_before_it_serves_and_only_then_takes_wires),
	    cmocka_unit_test(messages_out_of_order_end_the_child_with_a_reason),
	    cmocka_unit_test(a_child_ends_with_its_parent),
	};
	char old[64];
	int rc, fd;

	if (strcmp(argv[0], "spawned") == 0)
		return spawned();
	if (strcmp(argv[0], "child") == 0)
		return child_main();
	if (mkdtemp(dir) == NULL)
		return 1;
	(void)snprintf(old, sizeof(old), "%s/old", dir);
	fd = open(old, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	(void)close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(old);
	(void)rmdir(dir);
	return rc;
}
