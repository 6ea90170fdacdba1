/*
 * Tests of the broker's parent as a whole: a real parent starts real, confined children, all
 * of them this program under another name. The child named core obeys one-letter commands on
 * its control socket; what everybody says on standard error is what the tests read.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/broker_parent.h"

#include "common/hash.h"
#include "common/log.h"
#include "common/proc.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- the children ------------------------------------------------------------------------- */

static struct buf got = {.max = 1000};
static struct loop *child_loop;
static int control_fd = -1;
static bool crash, deaf;
static const char *child_name;

static int
c_config(void *arg UNUSED, const struct json *config, struct err *err UNUSED)
{
	AUTO_FREE char *victim = xasprintf("crash-%s", child_name);

	crash = str_eqz(json_str(json_get(config, "origin")), victim);
	return 0;
}

static int
c_fd(void *arg UNUSED, struct str name, int fd, struct err *err UNUSED)
{
	AUTO_FD int own = fd;
	char first = '-';

	if (str_eqz(name, "control"))
		control_fd = TAKE_FD(own);
	else if (!str_eqz(name, "agent"))
		(void)!read(fd, &first, 1);
	if (str_eqz(name, "policy"))
		log_info("policy %c", first);
	buf_printf(&got, " %.*s:%c", STR_ARG(name), isprint(first) ? first : '?');
	return 0;
}

static int
wire_msg(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type UNUSED, struct rd *body UNUSED,
    int *fds UNUSED, size_t nfds UNUSED, struct err *err UNUSED)
{
	return 0;
}

static void
wire_gone(void *arg UNUSED, struct ipc *w, const char *why)
{
	log_info("gone: %s", why);
	ipc_free(w);
}

static const struct proc_ops *child_ops;

static int
c_wire(void *arg UNUSED, enum ipc_role peer, struct str run, int fd, struct err *err UNUSED)
{
	(void)ipc_new(child_loop, fd, child_ops->self, peer, wire_msg, wire_gone, NULL);
	log_info("wire %s%s%.*s", ipc_role_name(peer), run.n != 0 ? " " : "", STR_ARG(run));
	return 0;
}

static void
send_run(uint16_t type, const int *fd)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_lz(&b, "r-1");
	if (fd != NULL)
		buf_u32(&b, 5);
	ipc_send(proc_parent(), type, &b, fd, fd != NULL ? 1 : 0);
}

static void
command(char c)
{
	switch (c) {
	case 'k': send_run(MSG_K_KEEP, &control_fd); break;
	case 'd': send_run(MSG_K_DROP, NULL); break;
	case 'p': send_run(MSG_K_PARSER, NULL); break;
	case 'e': send_run(MSG_K_PARSER_END, NULL); break;
	case 's': /* not in the filter */ (void)socket(AF_INET, SOCK_STREAM, 0); break;
	case 'b': /* not a frame */ (void)!write(PROC_PARENT_FD, "\0\0\0\0\0\377\0\0", 8); break;
	case 'i': deaf = true; break;
	case 'c': /* closes its wire and lives on */
		log_set_sink(NULL, NULL);
		log_info("closing");
		(void)shutdown(PROC_PARENT_FD, SHUT_RDWR);
		(void)nanosleep(&(struct timespec){.tv_sec = 30}, NULL);
		break;
	case 'f': /* a flood */
		for (int i = 0; i < 3000; i++)
			log_info("flood");
		break;
	default: log_info("no command %c", c);
	}
	log_info("did %c", c);
}

static void
on_control(void *arg UNUSED, uint32_t events UNUSED)
{
	AUTO_FD int fd = accept4(control_fd, NULL, NULL, SOCK_CLOEXEC);
	char c;

	if (fd >= 0 && read(fd, &c, 1) == 1)
		command(c);
}

static int
c_serve(void *arg UNUSED, struct err *err)
{
	if (crash)
		return err_set(err, ERR_STATE, "told to");
	if (control_fd >= 0)
		(void)loop_io_add(child_loop, control_fd, EPOLLIN, on_control, NULL);
	log_info("up pid=%d uid=%u got%.*s", (int)getpid(), getuid(), STR_ARG(buf_str(&got)));
	return 0;
}

static int
c_parent_msg(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type, struct rd *body,
    int *fds UNUSED, size_t nfds, struct err *err UNUSED)
{
	struct str run = rd_lstr(body);

	log_info("%s %.*s%s", ipc_msg_name(type), STR_ARG(run),
	    nfds == 1 && rd_u32(body) == 5 ? " 5" : "");
	return 0;
}

/* What the writer has to finish after its loop: the parent must let it. */
static int
after_loop(int rc)
{
	const struct timespec t = {.tv_nsec = 300000000};

	(void)nanosleep(&t, NULL);
	log_info("finished");
	return rc;
}

static void
c_stop(void *arg UNUSED)
{
	log_info("stop%s", deaf ? ", no" : "");
	if (!deaf)
		loop_stop(child_loop, 0);
}

static int
child_main(const char *program)
{
	static const char *const calls[] = {"accept4", NULL};
	struct proc_ops ops = {.config = c_config,
	    .fd = c_fd,
	    .wire = c_wire,
	    .serve = c_serve,
	    .parent_msg = c_parent_msg,
	    .stop = c_stop,
	    .syscalls = calls};

	child_name = ops.name = program + strlen("cofferdam-");
	for (enum ipc_role r = IPC_ROLE_FRONT; r <= IPC_ROLE_WRITER; r++)
		if (strcmp(ipc_role_name(r), ops.name) == 0)
			ops.self = r;
	child_ops = &ops;
	child_loop = loop_new();
	return after_loop(proc_main(&ops, child_loop, NULL));
}

/* --- the rig -------------------------------------------------------------------------------- */

static char base[64];
static int err_fd = -1;
static pid_t broker;
static char *said; /* all of standard error so far */
static size_t said_n, mark;

static const char *
at(const char *path)
{
	static char full[4][256];
	static unsigned turn;
	char *to = full[turn++ % 4];

	(void)snprintf(to, sizeof(full[0]), "%s/%s", base, path);
	return to;
}

static void
put(const char *path, const char *text, mode_t mode)
{
	int fd = open(at(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

static void
put_policy(const char *text)
{
	struct hash h = hash_sha256(str_z(text));
	char hex[HASH_HEX_SIZE];
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *line = NULL;

	hash_hex(&h, hex);
	path = xasprintf("state/policy/%s.json", hex);
	line = xasprintf("%s\n", hex);
	put(path, text, 0600);
	put("state/policy/active", line, 0600);
}

static void
put_config(const char *origin)
{
	AUTO_FREE char *json = xasprintf(
	    "{\"schema\":\"cofferdam-broker/1\",\"origin\":\"%s\",\"log_level\":\"info\"}", origin);

	put("state/broker.json", json, 0600);
}

static void
program_copy(void)
{
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int out = open(at("bin/cofferdam-broker"), O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	struct stat st;
	off_t off = 0;

	assert_int_equal(fstat(in, &st), 0);
	while (off < st.st_size)
		assert_true(sendfile(out, in, &off, (size_t)(st.st_size - off)) > 0);
	(void)close(in);
	(void)close(out);
}

static int
setup(void **state UNUSED)
{
	static const char *const dirs[] = {"bin", "state", "state/keys", "state/keys/log",
	    "state/keys/ca", "state/keys/blob", "state/log", "state/policy"};
	static const char *const files[] = {"vault", "keys/vault.key", "keys/log/seed",
	    "keys/log/vkey", "keys/ca/key.pem", "keys/ca/cert.pem"};
	static const char *const programs[] = {"front", "core", "upstream", "writer", "parser"};

	(void)snprintf(base, sizeof(base), "/tmp/t_parent.XXXXXX");
	assert_non_null(mkdtemp(base));
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		assert_int_equal(mkdir(at(dirs[i]), 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		AUTO_FREE char *path = xasprintf("state/%s", files[i]);
		const char *slash = strrchr(path, '/');
		char text[2] = {(char)toupper(slash[1]), '\0'};

		put(path, text, 0600);
	}
	put("state/VERSION", "1\n", 0600);
	put_config("example.org/log");
	program_copy();
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		AUTO_FREE char *path = xasprintf("bin/cofferdam-%s", programs[i]);

		assert_int_equal(symlink("cofferdam-broker", at(path)), 0);
	}
	return 0;
}

static void
remove_tree(const char *path)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", path, (char *)NULL);
		_exit(1);
	}
	(void)waitpid(pid, NULL, 0);
}

static int
teardown(void **state UNUSED)
{
	if (broker > 0) {
		(void)kill(broker, SIGKILL);
		(void)waitpid(broker, NULL, 0);
	}
	broker = 0;
	if (err_fd >= 0)
		(void)close(err_fd);
	err_fd = -1;
	remove_tree(base);
	free(said);
	said = NULL;
	said_n = mark = 0;
	return 0;
}

static void
broker_start(void)
{
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	broker = fork();
	if (broker == 0) {
		(void)dup2(p[1], STDERR_FILENO);
		(void)execl(
		    at("bin/cofferdam-broker"), "cofferdam-broker", at("state"), (char *)NULL);
		_exit(127);
	}
	(void)close(p[1]);
	err_fd = p[0];
	mark = 0;
}

static int64_t
now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Reads more; false: nothing came in time, or the end. */
static bool
more(int64_t deadline)
{
	struct pollfd p = {.fd = err_fd, .events = POLLIN};
	int64_t left = deadline - now_ms();
	ssize_t n;

	if (left <= 0 || poll(&p, 1, (int)left) <= 0)
		return false;
	said = xreallocarray(said, said_n + 65537, 1);
	n = read(err_fd, said + said_n, 65536);
	if (n <= 0)
		return false;
	said_n += (size_t)n;
	said[said_n] = '\0';
	return true;
}

/* Waits for text after the mark, moves the mark behind it, returns where it begins. */
static const char *
expect(const char *text)
{
	int64_t deadline = now_ms() + 20000;

	for (;;) {
		char *found = said != NULL ? strstr(said + mark, text) : NULL;

		if (found != NULL) {
			mark = (size_t)(found - said) + strlen(text);
			return found;
		}
		if (!more(deadline))
			fail_msg("no \"%s\" in:\n%s", text, said != NULL ? said : "");
	}
}

/* Two processes' lines come in any order: waits until the text has come n times in all. */
static void
expect_times(const char *text, unsigned n)
{
	int64_t deadline = now_ms() + 20000;
	unsigned have;

	for (;;) {
		have = 0;
		for (const char *p = said; p != NULL && (p = strstr(p, text)) != NULL; p++)
			have++;
		if (have >= n)
			return;
		if (!more(deadline))
			fail_msg("\"%s\" came %u times, not %u, in:\n%s", text, have, n,
			    said != NULL ? said : "");
	}
}

static void
expect_ever(const char *text)
{
	expect_times(text, 1);
}

static void
expect_ready(void)
{
	(void)expect("broker: ready: ");
}

static void
order(char c)
{
	AUTO_FD int fd = -1;
	struct err err = {0};

	assert_int_equal(ipc_connect(at("state/run/control.sock"), &fd, &err), 0);
	assert_int_equal(write(fd, &c, 1), 1);
}

/* From the newest "NAME: up" line. */
static long
number_of(const char *name, const char *key)
{
	AUTO_FREE char *head = xasprintf("%s: up ", name);
	const char *last = NULL, *p = said, *v;
	int64_t deadline = now_ms() + 20000;

	while (last == NULL) {
		for (p = said; p != NULL && (p = strstr(p, head)) != NULL; p++)
			last = p;
		if (last == NULL && !more(deadline))
			fail_msg("%s is not up", name);
	}
	v = strstr(last, key);
	assert_non_null(v);
	return strtol(v + strlen(key), NULL, 10);
}

static int
broker_end(void)
{
	int status = 0;
	int64_t deadline = now_ms() + 20000;

	while (more(deadline))
		;
	assert_int_equal(waitpid(broker, &status, 0), broker);
	broker = 0;
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* --- start ---------------------------------------------------------------------------------------
 */

static void
every_child_gets_its_own_files_and_wires_and_no_other(void **state UNUSED)
{
	static const char *const wanted[] = {"writer: wire upstream\n", "writer: wire core\n",
	    "upstream: wire writer\n", "upstream: wire core\n", "upstream: wire front\n",
	    "core: wire writer\n", "core: wire upstream\n", "core: wire front\n",
	    "front: wire upstream\n", "front: wire core\n", "core: K_KEPT_END \n"};
	size_t wires = 0;

	put_policy("P");
	broker_start();
	expect_ready();
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		expect_ever(wanted[i]);
	for (const char *p = said; (p = strstr(p, ": wire ")) != NULL; p++)
		wires++;
	assert_int_equal(wires, 10);
	expect_ever(
	    " got vault:V ca-key:K ca-cert:C blob-keys:- vault-key:V control:- agent:- policy:P\n");
	expect_ever(" got log:- log-key:S log-vkey:V\n");
	assert_null(strstr(said, "SIG"));
	expect_ever("front: up pid=");
}

static void
as_root_each_child_has_a_uid_of_its_own(void **state UNUSED)
{
	if (geteuid() != 0) {
		print_message("# skipped: not for this user\n");
		return;
	}
	broker_start();
	expect_ready();
	expect_ever("spare ids from 63102 are used");
	assert_int_equal(number_of("front", "uid="), 63102);
	assert_int_equal(number_of("core", "uid="), 63103);
	assert_int_equal(number_of("upstream", "uid="), 63105);
	assert_int_equal(number_of("writer", "uid="), 63106);
}

static void
systemd_is_told_when_everybody_serves_and_when_it_ends(void **state UNUSED)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	AUTO_FD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[32] = {0};

	memcpy(sa.sun_path, at("notify"), strlen(at("notify")));
	assert_int_equal(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	(void)setenv("NOTIFY_SOCKET", sa.sun_path, 1);
	broker_start();
	(void)unsetenv("NOTIFY_SOCKET");
	assert_int_equal(recv(fd, text, sizeof(text) - 1, 0), 7);
	assert_string_equal(text, "READY=1");
	assert_int_equal(kill(broker, SIGTERM), 0);
	assert_int_equal(recv(fd, text, sizeof(text) - 1, 0), 10);
	assert_string_equal(text, "STOPPING=1");
	assert_int_equal(broker_end(), 0);
}

static void
a_second_broker_on_the_same_state_is_refused(void **state UNUSED)
{
	AUTO_FREE char *text = NULL;
	pid_t first;
	int fd;

	broker_start();
	expect_ready();
	first = broker;
	fd = err_fd;
	text = xasprintf("in use by another broker (pid %d)", (int)first);
	broker_start();
	(void)expect(text);
	assert_int_equal(broker_end(), 1);
	(void)close(err_fd);
	broker = first;
	err_fd = fd;
	order('?'); /* its sockets are still there */
	(void)expect("core: no command ?");
}

static void
a_looser_mode_stops_the_start(void **state UNUSED)
{
	assert_int_equal(chmod(at("state/keys/vault.key"), 0644), 0);
	broker_start();
	(void)expect("keys/vault.key: mode is 0644, must be 0600");
	assert_int_equal(broker_end(), 1);
	assert_int_equal(access(at("state/run/control.sock"), F_OK), -1);
}

static void
a_missing_program_stops_the_start(void **state UNUSED)
{
	assert_int_equal(unlink(at("bin/cofferdam-writer")), 0);
	broker_start();
	(void)expect("/cofferdam-writer: No such file");
	assert_int_equal(broker_end(), 1);
}

static void
the_sockets_are_closed_to_others(void **state UNUSED)
{
	struct stat st;

	broker_start();
	expect_ready();
	assert_int_equal(stat(at("state/run/agent.sock"), &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0660);
	if (geteuid() == 0)
		assert_int_equal(st.st_uid, 63103);
}

/* --- death
 * ------------------------------------------------------------------------------------------ */

static void
a_killed_child_comes_back_with_fresh_wires(void **state UNUSED)
{
	long pid;

	broker_start();
	expect_ready();
	pid = number_of("front", "pid=");
	mark = said_n;
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	(void)expect("broker: error: front was killed by SIGKILL");
	(void)expect("front: up ");
	expect_ever("core: gone: front closed the wire");
	assert_true(number_of("front", "pid=") != pid);
	expect_times("core: wire front\n", 2);
}

static void
a_forbidden_system_call_is_named(void **state UNUSED)
{
#ifdef MODE_SANITIZED
	print_message("# skipped: no filter under the sanitizers\n");
	return;
#endif
	broker_start();
	expect_ready();
	order('s');
	(void)expect("broker: error: core was killed by SIGSYS: it made a system call");
	(void)expect("core: up ");
}

static void
a_child_that_breaks_the_rules_is_ended(void **state UNUSED)
{
	broker_start();
	expect_ready();
	order('b');
	(void)expect("broker: error: core is ended: core sent message 255, which does not exist");
	(void)expect("core was killed by SIGKILL");
	(void)expect("core: up ");
	order('?');
	(void)expect("core: no command ?");
}

static void
a_child_that_closes_its_wire_and_stays_is_killed(void **state UNUSED)
{
	broker_start();
	expect_ready();
	order('c');
	(void)expect("core: closing");
	(void)expect("core closed its wire and did not end: it is killed");
	(void)expect("core was killed by SIGKILL");
	(void)expect("core: up ");
}

static void
a_new_core_gets_the_kept_listeners_and_reads_the_vault_key_again(void **state UNUSED)
{
	broker_start();
	expect_ready();
	order('k');
	(void)expect("core: did k");
	assert_int_equal(kill((pid_t)number_of("core", "pid="), SIGKILL), 0);
	(void)expect("core was killed by SIGKILL");
	(void)expect("vault-key:V");
	(void)expect("core: K_KEPT r-1 5\n");
	(void)expect("core: K_KEPT_END \n");
	order('d');
	(void)expect("core: did d");
	assert_int_equal(kill((pid_t)number_of("core", "pid="), SIGKILL), 0);
	(void)expect("core was killed by SIGKILL");
	(void)expect("core: K_KEPT_END \n");
	assert_null(strstr(strstr(said, "core: did d"), "core: K_KEPT r-1"));
}

static void
each_run_has_a_parser_that_comes_back_until_the_run_ends(void **state UNUSED)
{
	long pid;

	broker_start();
	expect_ready();
	order('p');
	expect_times("core: wire parser r-1\n", 1);
	expect_times("parser: up ", 1);
	expect_times("parser: wire core r-1\n", 1);
	pid = number_of("parser", "pid=");
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	expect_times("parser of run r-1 was killed by SIGKILL", 1);
	expect_times("core: K_PARSER_DIED r-1\n", 1);
	expect_times("core: wire parser r-1\n", 2);
	expect_times("parser: up ", 2);
	pid = number_of("parser", "pid=");
	order('e');
	expect_times("core: gone: parser closed the wire", 2);
	for (int i = 0; kill((pid_t)pid, 0) == 0 && i < 500; i++)
		(void)usleep(10000);
	assert_int_equal(kill((pid_t)pid, 0), -1);
	/* Ended on purpose: nobody is told that it died, and it does not come back. */
	order('p');
	expect_times("parser: up ", 3);
	assert_ptr_equal(strstr(strstr(said, "K_PARSER_DIED") + 1, "K_PARSER_DIED"), NULL);
}

static void
parsers_end_with_the_core_that_asked_for_them(void **state UNUSED)
{
	long pid;

	broker_start();
	expect_ready();
	order('p');
	(void)expect("parser: up ");
	pid = number_of("parser", "pid=");
	assert_int_equal(kill((pid_t)number_of("core", "pid="), SIGKILL), 0);
	(void)expect("core: K_KEPT_END");
	for (int i = 0; kill((pid_t)pid, 0) == 0 && i < 500; i++)
		(void)usleep(10000);
	assert_int_equal(kill((pid_t)pid, 0), -1);
	order('p');
	(void)expect("parser: up ");
}

static void
a_child_that_keeps_dying_is_said_and_tried_less_often(void **state UNUSED)
{
	int64_t t0;

	put_config("crash-front");
	broker_start();
	(void)expect("front: error: told to");
	(void)expect("front died 10 times in 10 s; it is started again every 5 s only");
	t0 = now_ms();
	(void)expect("front: error: told to");
	assert_in_range(now_ms() - t0, 4000, 8000);
	assert_null(strstr(said, "broker: ready"));
}

static void
the_children_die_with_the_parent(void **state UNUSED)
{
	static const char *const names[] = {"front", "core", "upstream", "writer"};
	long pids[ARRAY_LEN(names)];

	broker_start();
	expect_ready();
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		pids[i] = number_of(names[i], "pid=");
	assert_int_equal(kill(broker, SIGKILL), 0);
	assert_int_equal(waitpid(broker, NULL, 0), broker);
	broker = 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		for (int k = 0; kill((pid_t)pids[i], 0) == 0 && k < 500; k++)
			(void)usleep(10000);
		assert_int_equal(kill((pid_t)pids[i], 0), -1);
	}
}

static void
a_flood_of_log_lines_is_cut_and_the_cut_is_said(void **state UNUSED)
{
	size_t n = 0;

	broker_start();
	expect_ready();
	order('f');
	(void)usleep(300000); /* tokens come back, so the next line tells */
	order('?');
	(void)expect("lines of core were dropped");
	for (const char *p = said; (p = strstr(p, "core: flood\n")) != NULL; p++)
		n++;
	assert_in_range(n, 900, 2500);
}

/* --- reload and stop
 * ----------------------------------------------------------------------------------- */

static void
a_hangup_sends_the_active_policy_again(void **state UNUSED)
{
	broker_start();
	expect_ready();
	expect_ever("no policy is active: everything is refused");
	put_policy("Q");
	assert_int_equal(kill(broker, SIGHUP), 0);
	(void)expect("core: policy Q");
}

static void
an_active_policy_that_is_taken_away_is_taken_from_core(void **state UNUSED)
{
	put_policy("P");
	broker_start();
	expect_ready();
	assert_int_equal(unlink(at("state/policy/active")), 0);
	assert_int_equal(kill(broker, SIGHUP), 0);
	(void)expect("core: policy -");
	put_policy("P");
	assert_int_equal(kill(broker, SIGHUP), 0);
	(void)expect("core: policy P");
}

static void
an_orderly_stop_goes_from_the_front_to_the_writer(void **state UNUSED)
{
	broker_start();
	expect_ready();
	assert_int_equal(kill(broker, SIGTERM), 0);
	(void)expect("broker: stopping");
	(void)expect("front: stop\n");
	(void)expect("upstream: stop\n");
	(void)expect("core: stop\n");
	(void)expect("writer: stop\n");
	(void)expect("writer: finished\n");
	assert_int_equal(broker_end(), 0);
	assert_null(strstr(said, "exited with status"));
	assert_int_equal(access(at("state/run/control.sock"), F_OK), -1);
	assert_int_equal(access(at("state/run/broker.pid"), F_OK), -1);
}

static void
a_child_that_does_not_stop_is_killed_and_the_rest_still_stops(void **state UNUSED)
{
	broker_start();
	expect_ready();
	order('i');
	(void)expect("core: did i");
	assert_int_equal(kill(broker, SIGINT), 0);
	(void)expect("core: stop, no\n");
	(void)expect("core did not stop within 5 s and is killed");
	(void)expect("writer: stop\n");
	assert_int_equal(broker_end(), 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    T(every_child_gets_its_own_files_and_wires_and_no_other),
	    T(as_root_each_child_has_a_uid_of_its_own),
	    T(systemd_is_told_when_everybody_serves_and_when_it_ends),
	    T(a_second_broker_on_the_same_state_is_refused),
	    T(a_looser_mode_stops_the_start),
	    T(a_missing_program_stops_the_start),
	    T(the_sockets_are_closed_to_others),
	    T(a_killed_child_comes_back_with_fresh_wires),
	    T(a_forbidden_system_call_is_named),
	    T(a_child_that_breaks_the_rules_is_ended),
	    T(a_child_that_closes_its_wire_and_stays_is_killed),
	    T(a_new_core_gets_the_kept_listeners_and_reads_the_vault_key_again),
	    T(each_run_has_a_parser_that_comes_back_until_the_run_ends),
	    T(parsers_end_with_the_core_that_asked_for_them),
	    T(a_child_that_keeps_dying_is_said_and_tried_less_often),
	    T(the_children_die_with_the_parent),
	    T(a_flood_of_log_lines_is_cut_and_the_cut_is_said),
	    T(a_hangup_sends_the_active_policy_again),
	    T(an_active_policy_that_is_taken_away_is_taken_from_core),
	    T(an_orderly_stop_goes_from_the_front_to_the_writer),
	    T(a_child_that_does_not_stop_is_killed_and_the_rest_still_stops),
	};

	if (strcmp(argv[0], "cofferdam-broker") == 0 && argc == 2) {
		log_init("broker", LOG_INFO_);
		return broker_serve(argv[1]);
	}
	if (str_has_prefix(str_z(argv[0]), "cofferdam-"))
		return child_main(argv[0]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
