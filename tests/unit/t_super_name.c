/* Sandboxes with a name: who has it, who may come, how long one lives on alone, how it ends. */
#include "super_help.h"

#include <sys/un.h>

#include "common/banned.h"

static char *
path_of(const char *name, const char *what)
{
	struct err e = {0};
	AUTO_FREE char *dir = call_directory(true, &e);

	assert_non_null(dir);
	return xasprintf("%s/%s.%s", dir, name, what);
}

/* The names of this test alone: others may run beside it. */
static const char *
name_make(const char *what)
{
	static char name[64];

	(void)snprintf(name, sizeof(name), "t-%s-%d", what, (int)getpid());
	return name;
}

static void
is_gone(pid_t pid, const char *name)
{
	AUTO_FREE char *sock = path_of(name, "sock"), *lock = path_of(name, "lock");
	int st = -1;

	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(access(sock, F_OK), -1);
	assert_int_equal(access(lock, F_OK), -1);
}

static void
others_attach_and_programs_outlive_their_caller(void **state UNUSED)
{
	const char *env[] = {"GREETING=hello", NULL}, *name = name_make("attach");
	struct sandbox_spec s = {.name = name, .env = env};
	struct sandbox *a, *b = NULL;
	struct sandbox_exec x = {
	    .argv = ARGV("sh", "-c", "echo $GREETING; sleep 100"), .merge = true};
	AUTO_FREE char *sock = path_of(name, "sock");
	AUTO_BUF struct buf out = BUF(1000);
	struct sandbox_logs at;
	struct stat st;
	struct err e = {0};
	uint32_t proc;
	pid_t pid;

	a = help_named(&s, &pid, 0);
	assert_int_equal(stat(sock, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	proc = help_spawn(a, &x);
	(void)close(TAKE_FD(a->wire)); /* as if it had been killed */
	sandbox_destroy(a);
	assert_int_equal(sandbox_attach(name, &b, &e), 0);
	assert_non_null(strstr(sandbox_level(b), name));
	assert_int_equal(sandbox_proc_logs(b, proc, 0, 10000, &out, &at, &e), 0);
	assert_true(str_eqz(buf_str(&out), "hello\n"));
	help_ends(b, ARGV("sh", "-c", "test $GREETING = hello"), SANDBOX_EXITED, 0);
	sandbox_detach(b);
	assert_int_equal(sandbox_attach(name, &b, &e), 0);
	sandbox_destroy(b);
	is_gone(pid, name);
	assert_int_equal(sandbox_attach(name, &b, &e), ERR_NOT_FOUND);
}

static void
name_has_one_holder_and_a_dead_ones_is_free(void **state UNUSED)
{
	const char *name = name_make("one");
	struct sandbox_spec s = {.name = name};
	struct sandbox *a, *b;
	AUTO_FREE char *sock = path_of(name, "sock");
	pid_t pid, other;

	a = help_named(&s, &pid, 0);
	assert_null(help_named(&s, &other, ERR_EXISTS));
	/* Killed: its socket is still there, and nobody behind it. */
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(access(sock, F_OK), 0);
	b = help_named(&s, &other, 0);
	help_ends(b, ARGV("true"), SANDBOX_EXITED, 0);
	sandbox_destroy(a);
	sandbox_destroy(b);
	is_gone(other, name);
}

static void
of_many_creators_of_one_name_one_wins(void **state UNUSED)
{
	struct sandbox_spec s = {.name = name_make("race")};
	struct sandbox *sb[8];
	uint32_t tag[8];
	pid_t pid[8];
	int won = 0;

	for (size_t i = 0; i < ARRAY_LEN(sb); i++) {
		AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
		struct err e = {0};

		sb[i] = client_for(&s);
		pid[i] = help_process(&sb[i]->wire);
		assert_int_equal(client_create_body(&s, sb[i]->env, &b, &e), 0);
		assert_int_equal(client_send(sb[i], CALL_CREATE, &b, NULL, 0, &tag[i], &e), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(sb); i++) {
		struct err e = {0};
		int rc = client_created(sb[i], tag[i], 0, CLIENT_CREATE_MS, &e);

		assert_true(rc == 0 || rc == ERR_EXISTS);
		won += rc == 0;
	}
	assert_int_equal(won, 1);
	for (size_t i = 0; i < ARRAY_LEN(sb); i++) {
		sandbox_destroy(sb[i]);
		assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
	}
}

static void
lives_on_alone_for_its_linger_and_no_longer(void **state UNUSED)
{
	const char *name = name_make("linger");
	struct sandbox_spec s = {.name = name, .limits.linger_s = 3};
	struct sandbox *sb;
	struct err e = {0};
	pid_t pid;

	sb = help_named(&s, &pid, 0);
	(void)poll(NULL, 0, 3500); /* not alone: its caller is there */
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
	sandbox_detach(sb);
	assert_int_equal(sandbox_attach(name, &sb, &e), 0); /* begins anew */
	sandbox_detach(sb);
	is_gone(pid, name);
}

static void
order_to_end_by_signal_leaves_nothing(void **state UNUSED)
{
	const char *name = name_make("term");
	struct sandbox_spec s = {.name = name};
	struct sandbox *sb;
	pid_t pid;

	sb = help_named(&s, &pid, 0);
	assert_int_equal(getsid(pid), pid); /* no terminal's signal reaches it */
	assert_int_equal(kill(pid, SIGTERM), 0);
	is_gone(pid, name);
	sandbox_destroy(sb);
}

static struct sandbox *
attached(const char *name)
{
	struct sandbox *sb = NULL;
	struct err e = {0};

	if (sandbox_attach(name, &sb, &e) != 0)
		fail_msg("%s", e.msg);
	return sb;
}

static void
caller_over_the_limit_may_look_and_end_things_alone(void **state UNUSED)
{
	const char *name = name_make("many");
	struct sandbox_spec s = {.name = name};
	struct sandbox *sb[SUPER_CONNS_MAX], *control;
	struct sandbox_exec x = {.argv = ARGV("sleep", "1000"), .merge = true};
	AUTO_BUF struct buf b = BUF(1 << 20);
	struct sandbox_logs at;
	struct err e = {0};
	uint32_t proc, other;
	pid_t pid;

	sb[0] = help_named(&s, &pid, 0);
	proc = help_spawn(sb[0], &x);
	for (size_t i = 1; i < SUPER_CONNS_MAX; i++)
		sb[i] = attached(name);
	help_ends(sb[SUPER_CONNS_MAX - 1], ARGV("true"), SANDBOX_EXITED, 0);
	control = attached(name);
	help_refused(control, ARGV("true"), ERR_STATE, "256 callers are attached, limit 256");
	assert_int_equal(sandbox_spawn(control, &x, &other, &e), ERR_STATE);
	assert_int_equal(sandbox_proc_logs(control, proc, 0, 0, &b, &at, &e), ERR_STATE);
	assert_int_equal(sandbox_inspect(control, &b, &e), 0);
	assert_int_equal(sandbox_extend(control, 100, &e), 0);
	assert_int_equal(sandbox_pause(control, &e), 0);
	assert_int_equal(sandbox_resume(control, &e), 0);
	assert_int_equal(sandbox_proc_signal(control, proc, SIGCONT, &e), 0);
	assert_int_equal(sandbox_proc_list(control, &b, &e), 0);
	assert_int_equal(sandbox_proc_kill(control, proc, &e), 0);
	/* As one goes there is room for it. */
	(void)close(TAKE_FD(sb[1]->wire));
	sandbox_destroy(sb[1]);
	for (int i = 0; i < 500 && sandbox_spawn(control, &x, &other, &e) != 0; i++) {
		assert_int_equal(e.code, ERR_STATE);
		(void)poll(NULL, 0, 20);
	}
	help_ends(control, ARGV("true"), SANDBOX_EXITED, 0);
	sb[1] = attached(name);
	help_refused(sb[1], ARGV("true"), ERR_STATE, "limit 256");
	sandbox_destroy(sb[1]); /* its order to end is taken */
	is_gone(pid, name);
	sb[1] = control;
	for (size_t i = 0; i < SUPER_CONNS_MAX; i++) {
		(void)close(TAKE_FD(sb[i]->wire));
		sandbox_destroy(sb[i]);
	}
}

static void
callers_over_both_limits_are_told_so(void **state UNUSED)
{
	const char *name = name_make("more");
	struct sandbox_spec s = {.name = name};
	struct sandbox *sb[SUPER_CONNS_MAX + SUPER_CONTROL_MAX], *none;
	struct err e = {0};
	pid_t pid;

	sb[0] = help_named(&s, &pid, 0);
	for (size_t i = 1; i < ARRAY_LEN(sb); i++)
		sb[i] = attached(name);
	assert_int_equal(sandbox_attach(name, &none, &e), ERR_STATE);
	assert_non_null(strstr(e.msg, "32 more to control it"));
	sandbox_detach(sb[1]);
	for (int i = 0; i < 500 && sandbox_attach(name, &sb[1], &e) != 0; i++) {
		assert_int_equal(e.code, ERR_STATE);
		(void)poll(NULL, 0, 20);
	}
	for (size_t i = 1; i < ARRAY_LEN(sb); i++)
		sandbox_detach(sb[i]);
	sandbox_destroy(sb[0]);
	is_gone(pid, name);
}

/* In a child, as an ordinary user without XDG_RUNTIME_DIR: 0, or the line that did not hold. */
static int
fallback_look(void)
{
	struct err e = {0};
	char *dir, *file;
	struct stat st;

	(void)unsetenv("XDG_RUNTIME_DIR");
	if (setgid(61235) != 0 || setuid(61235) != 0)
		return __LINE__;
	if ((dir = call_directory(true, &e)) == NULL || strncmp(dir, "/tmp/", 5) != 0)
		return __LINE__;
	file = xasprintf("%s/x.lock", dir);
	(void)close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	call_directory_clear(); /* another sandbox is there */
	if (stat(dir, &st) != 0 || unlink(file) != 0)
		return __LINE__;
	call_directory_clear();
	if (stat(dir, &st) == 0)
		return __LINE__;
	return 0;
}

static void
directory_in_tmp_goes_with_the_last_sandbox(void **state UNUSED)
{
	int st = 0;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0)
		_exit(fallback_look() & 255);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

static void
strangers_directory_in_tmp_names_the_way_round_it(void **state UNUSED)
{
	static const char dir[] = "/tmp/cofferdam-sandbox-61236";
	int st = 0;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(dir, 0700), 0);
	pid = fork();
	if (pid == 0) {
		struct err e = {0};
		struct sandbox *sb;

		(void)unsetenv("XDG_RUNTIME_DIR");
		if (setgid(61236) != 0 || setuid(61236) != 0)
			_exit(1);
		if (call_directory(true, &e) != NULL || e.code != ERR_DENIED ||
		    strstr(e.msg, "XDG_RUNTIME_DIR") == NULL || strstr(e.msg, dir) == NULL)
			_exit(2);
		if (sandbox_attach("x", &sb, &e) == 0 || e.code != ERR_DENIED)
			_exit(3);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(st, 0);
}

static void
one_that_is_not_there_is_looked_for_in_a_directory_that_is_named(void **state UNUSED)
{
	AUTO_FREE char *dir = call_directory_path();
	struct sandbox *sb;
	struct err e = {0};

	assert_int_equal(sandbox_attach("t-none", &sb, &e), ERR_NOT_FOUND);
	assert_non_null(strstr(e.msg, "there is no \"t-none\""));
	assert_non_null(strstr(e.msg, dir));
}

static void
who_does_not_attach_first_is_dropped(void **state UNUSED)
{
	const char *name = name_make("first");
	struct sandbox_spec s = {.name = name};
	struct sandbox *sb, *other = client_new();
	AUTO_FREE char *sock = path_of(name, "sock");
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};
	pid_t pid;

	sb = help_named(&s, &pid, 0);
	assert_int_equal(client_connect(sock, &other->wire, &e), 0);
	assert_int_equal(client_ask(other, CALL_END, NULL, &m, &e), ERR_UNAVAILABLE);
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
	(void)close(TAKE_FD(other->wire));
	sandbox_destroy(other);
	sandbox_destroy(sb);
	is_gone(pid, name);
}

static void
thread_of_the_command_line_takes_no_name(void **state UNUSED)
{
	struct sandbox *sb = NULL;
	struct err e = {0};

	assert_int_equal(
	    sandbox_create_here(&(struct sandbox_spec){.name = "t-thread"}, &sb, &e), ERR_INVALID);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(others_attach_and_programs_outlive_their_caller, help_reset),
	    cmocka_unit_test_setup(name_has_one_holder_and_a_dead_ones_is_free, help_reset),
	    cmocka_unit_test_setup(of_many_creators_of_one_name_one_wins, help_reset),
	    cmocka_unit_test_setup(lives_on_alone_for_its_linger_and_no_longer, help_reset),
	    cmocka_unit_test_setup(order_to_end_by_signal_leaves_nothing, help_reset),
	    cmocka_unit_test_setup(caller_over_the_limit_may_look_and_end_things_alone, help_reset),
	    cmocka_unit_test_setup(callers_over_both_limits_are_told_so, help_reset),
	    cmocka_unit_test_setup(directory_in_tmp_goes_with_the_last_sandbox, help_reset),
	    cmocka_unit_test_setup(strangers_directory_in_tmp_names_the_way_round_it, help_reset),
	    cmocka_unit_test_setup(
		one_that_is_not_there_is_looked_for_in_a_directory_that_is_named, help_reset),
	    cmocka_unit_test_setup(who_does_not_attach_first_is_dropped, help_reset),
	    cmocka_unit_test_setup(thread_of_the_command_line_takes_no_name, help_reset),
	};

	if (argc == 3 && strcmp(argv[1], "pid1") == 0)
		return pid1_main(argv[2]);
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
