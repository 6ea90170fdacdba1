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
		int rc = client_created(sb[i], tag[i], 0, &e);

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

static void
more_callers_than_the_limit_are_told_so(void **state UNUSED)
{
	const char *name = name_make("many");
	struct sandbox_spec s = {.name = name};
	struct sandbox *sb[SUPER_CONNS_MAX + 1];
	struct err e = {0};
	pid_t pid;

	sb[0] = help_named(&s, &pid, 0);
	for (size_t i = 1; i < SUPER_CONNS_MAX; i++)
		assert_int_equal(sandbox_attach(name, &sb[i], &e), 0);
	assert_int_equal(sandbox_attach(name, &sb[SUPER_CONNS_MAX], &e), ERR_STATE);
	assert_non_null(strstr(e.msg, "16 callers"));
	sandbox_detach(sb[1]);
	for (int i = 0; i < 100; i++) {
		if (sandbox_attach(name, &sb[1], &e) == 0)
			break;
		assert_int_equal(e.code, ERR_STATE);
		(void)poll(NULL, 0, 20);
	}
	for (size_t i = 1; i < SUPER_CONNS_MAX; i++)
		sandbox_detach(sb[i]);
	sandbox_destroy(sb[0]);
	is_gone(pid, name);
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
	    cmocka_unit_test_setup(more_callers_than_the_limit_are_told_so, help_reset),
	    cmocka_unit_test_setup(who_does_not_attach_first_is_dropped, help_reset),
	    cmocka_unit_test_setup(thread_of_the_command_line_takes_no_name, help_reset),
	};

	if (argc == 3 && strcmp(argv[1], "pid1") == 0)
		return pid1_main(argv[2]);
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
