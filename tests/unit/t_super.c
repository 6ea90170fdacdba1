/* One sandbox from its start to its end, the causes of a program's end, and a pid 1 that lies. */
#include "super_help.h"

#include "common/json.h"

#include "common/banned.h"

/* `text` is JSON, and its member `key` the text or number `want`. */
static void
member_is(const char *text, const char *key, const char *want)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_FREE char *number = NULL;
	const struct json *v;
	struct err e = {0};

	if (json_parse(str_z(text), "level", &d, &e) != 0)
		fail_msg("%s in %s", e.msg, text);
	v = json_get(json_root(d), key);
	number = xasprintf("%lld", (long long)json_int(v));
	if (!str_eqz(json_str(v), want) && strcmp(number, want) != 0)
		fail_msg("%s is not %s in %s", key, want, text);
}

static void
level_says_what_holds(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});

	member_is(sandbox_level(sb), "level", "full");
	member_is(sandbox_level(sb), "back_end", "native");
	member_is(sandbox_level(sb), "seccomp", "filter");
	member_is(sandbox_level(sb), "workspace", "private");
	assert_non_null(strstr(sandbox_level(sb), "\"memory_mib\":1024"));
}

static void
lesser_level_is_named_and_only_had_where_the_spec_allows_it(void **state UNUSED)
{
	struct sandbox_spec s = {.may_lack = SANDBOX_LAYER_FREEZER | SANDBOX_LAYER_LIMITS};
	AUTO(sandbox) struct sandbox *sb = NULL;
	struct sandbox *none = NULL;
	struct err e = {0};

	fake_lacks = SANDBOX_LAYER_FREEZER | SANDBOX_LAYER_LIMITS;
	sb = help_create(&s);
	member_is(sandbox_level(sb), "level", "no-limits,no-freezer");
	assert_int_equal(sandbox_pause(sb, &e), ERR_UNAVAILABLE);
	s.may_lack = SANDBOX_LAYER_FREEZER;
	assert_int_equal(sandbox_create_here(&s, &none, &e), ERR_UNAVAILABLE);
}

static void
unknown_back_end_is_refused(void **state UNUSED)
{
	struct sandbox *sb = NULL;
	struct err e = {0};

	assert_int_equal(sandbox_create_here(&(struct sandbox_spec){.backend = "crun"}, &sb, &e),
	    ERR_UNSUPPORTED);
}

static void
start_that_fails_says_why_and_leaves_nothing(void **state UNUSED)
{
	static const struct {
		const char *how, *what;
	} rows[] = {{"refused", "a wall is missing: mend it"},
	    {"fatal", "pid 1 cannot start: no?filter"}, {"gone", "pid 1 is gone"},
	    {"mute", "not ready in time"}, {"forger", "pid 1 said what it may not say"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sandbox *sb = NULL;
		struct err e = {0};
		int rc;

		fake_how = rows[i].how;
		fake_ends = 0;
		rc = sandbox_create_here(&(struct sandbox_spec){0}, &sb, &e);
		if (rc != ERR_UNAVAILABLE || strstr(e.msg, rows[i].what) == NULL)
			fail_msg("%s: %d %s", rows[i].how, rc, e.msg);
		assert_int_equal(fake_ends, 1);
	}
}

static void
status_and_signal_of_a_program_come_back(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});

	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
	help_ends(sb, ARGV("sh", "-c", "exit 7"), SANDBOX_EXITED, 7);
	help_ends(sb, ARGV("sh", "-c", "kill -TERM $$"), SANDBOX_SIGNALLED, SIGTERM);
	help_ends(sb, ARGV("sh", "-c", "kill -SYS $$"), SANDBOX_POLICY, SIGSYS);
}

static void
streams_reach_the_caller(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});
	struct sandbox_exec x = {.argv = ARGV("sh", "-c", "cat; echo two >&2"),
	    .pipe_stdin = true,
	    .stdin_bytes = STR("one\n"),
	    .stdin_fd = -1,
	    .head = 100};
	struct sandbox_result r;
	struct err e;

	if (sandbox_exec(sb, &x, &r, &e) != 0)
		fail_msg("%s", e.msg);
	assert_true(r.cause == SANDBOX_EXITED && r.total == 8);
	assert_non_null(memmem(r.head.p, r.head.n, "one\n", 4));
	assert_non_null(memmem(r.head.p, r.head.n, "two\n", 4));
	sandbox_result_free(&r);
}

static void
code_and_descriptors_reach_the_program(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});
	AUTO_FD int fd = eventfd(0, EFD_CLOEXEC);
	struct sandbox_exec x = {.language = "bash",
	    .code = STR("test -e /proc/self/fd/10 && ! test -e /proc/self/fd/11 && exit 42"),
	    .stdin_fd = -1,
	    .fds = &fd,
	    .nfds = 1};
	struct sandbox_result r;
	struct err e;

	assert_int_equal(sandbox_exec(sb, &x, &r, &e), 0);
	assert_int_equal(r.value, 42);
	sandbox_result_free(&r);
	/* Empty code is a program that does nothing, not one that runs what it reads. */
	x.code = STR_NONE;
	x.pipe_stdin = true;
	x.stdin_bytes = STR("exit 9");
	assert_int_equal(sandbox_exec(sb, &x, &r, &e), 0);
	assert_int_equal(r.value, 0);
	sandbox_result_free(&r);
}

static void
missing_program_is_not_found_and_its_words_are_printable(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});

	help_refused(sb, ARGV("no-such-program"), ERR_NOT_FOUND, "no-such-program");
	help_refused(sb, ARGV("@ugly"), ERR_NOT_FOUND, "sandbox: a?[2J?: No such file");
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
}

static void
full_pids_limit_is_named_with_the_way_out(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){.limits.pids = 77});
	struct sandbox_exec x = {.argv = ARGV("@again")};
	struct err e = {0};
	uint32_t proc;

	help_refused(sb, ARGV("@again"), ERR_SYSTEM,
	    "the limit pids (77 processes and threads, of which 3 are there)");
	assert_int_equal(sandbox_spawn(sb, &x, &proc, &e), ERR_SYSTEM);
	assert_non_null(strstr(e.msg, "--pids"));
	assert_non_null(strstr(e.msg, "kill NAME PROC"));
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
}

static void
own_time_of_a_program_ends_it_and_no_other(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});
	struct sandbox_result r = help_exec(sb, ARGV("sleep", "100"), 1);

	assert_int_equal(r.cause, SANDBOX_TIMEOUT);
	sandbox_result_free(&r);
	r = help_exec(sb, ARGV("true"), 1);
	assert_int_equal(r.cause, SANDBOX_EXITED);
	sandbox_result_free(&r);
}

static void
memory_kill_is_told_from_other_ends(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});
	struct sandbox_exec x = {.argv = ARGV("cat"), .pipe_stdin = true};
	struct sandbox_result r;
	struct err e;
	uint32_t cat;

	help_ends(sb, ARGV("sh", "-c", "exit 137"), SANDBOX_EXITED, 137);
	cat = help_spawn(sb, &x);
	fake_ooms = 5;
	assert_int_equal(sandbox_proc_input(sb, cat, STR(""), true, &e), 0);
	assert_int_equal(sandbox_proc_wait(sb, cat, 5000, &r, &e), 0);
	assert_int_equal(
	    r.cause, SANDBOX_MEMORY); /* alone: it, or a child that it knew how to lose */
	sandbox_result_free(&r);
	/* Before its time. */
	help_ends(sb, ARGV("sh", "-c", "exit 1"), SANDBOX_EXITED, 1);
	/* In company only what looks like it. */
	cat = help_spawn(sb, &x);
	for (int i = 0; i < 2; i++) {
		struct sandbox_exec y = {
		    .argv = ARGV("sh", "-c", "read x; exit $x"), .pipe_stdin = true};
		uint32_t sh = help_spawn(sb, &y);

		fake_ooms++;
		assert_int_equal(
		    sandbox_proc_input(sb, sh, i == 0 ? STR("1\n") : STR("137\n"), true, &e), 0);
		assert_int_equal(sandbox_proc_wait(sb, sh, 5000, &r, &e), 0);
		assert_int_equal(r.cause, i == 0 ? SANDBOX_EXITED : SANDBOX_MEMORY);
		sandbox_result_free(&r);
	}
}

static void
full_disk_is_the_cause_of_a_failure_alone(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});

	fake_disk_full = 1;
	help_ends(sb, ARGV("sh", "-c", "exit 28"), SANDBOX_DISK, 28);
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
	fake_disk_full = 0;
	help_ends(sb, ARGV("sh", "-c", "exit 28"), SANDBOX_EXITED, 28);
}

static void
whatever_pid_1_may_not_say_ends_the_sandbox(void **state UNUSED)
{
	static const char *const lies[] = {"@twice", "@nofds", "@count", "@many", "@file",
	    "@writer", "@early", "@short", "@other", "@both-other", "@stray", "@type", "@size",
	    "@ready", "@emptied"};

	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});
		AUTO_FREE char *lie = xstrdup(lies[i]);
		struct sandbox_exec x = {.argv = ARGV(lie), .stdin_fd = -1};
		struct sandbox_result r;
		struct err e = {0};
		int rc = sandbox_exec(sb, &x, &r, &e);

		if (rc == 0 ? r.cause != SANDBOX_UNAVAILABLE : rc != ERR_UNAVAILABLE)
			fail_msg("%s: %d %s", lies[i], rc, e.msg);
		if (rc == 0)
			sandbox_result_free(&r);
		help_refused(sb, ARGV("true"), ERR_UNAVAILABLE, "pid 1");
		assert_int_equal(fake_ends, (int)i + 1);
	}
}

static void
start_and_end_that_are_known_at_once_are_one_answer(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});
	struct sandbox_exec x = {.argv = ARGV("@both"), .stdin_fd = -1};
	AUTO_STARTED struct client_started s = CLIENT_STARTED;
	struct sandbox_result r = {0};
	struct err e = {0};

	assert_int_equal(client_start(sb, &x, false, &s, &e), 0);
	assert_true(s.out >= 0 && s.errs >= 0);
	assert_true(client_has(sb, s.tag));
	assert_int_equal(client_ended(sb, &s, 0, &r, &e), 0);
	assert_int_equal(r.cause, SANDBOX_EXITED);
	assert_int_equal(r.value, 3);
	sandbox_result_free(&r);
	/* One that is kept, and one that nobody hears of, come to their end as well. */
	assert_int_equal(sandbox_proc_wait(sb, help_spawn(sb, &x), 1000, &r, &e), 0);
	assert_int_equal(r.value, 3);
	sandbox_result_free(&r);
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
}

static void
descriptors_are_of_the_frame_that_names_them(void **state UNUSED)
{
	static const char *const none[] = {NULL};
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});
	struct sandbox_exec mute = {.argv = ARGV("@mute")}, burst = {.argv = ARGV("@burst")};
	AUTO_BUF struct buf exec = BUF(4096), b = BUF(8192);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	AUTO_STARTED struct client_started s = CLIENT_STARTED;
	struct sandbox_result r = {0};
	struct err e = {0};
	uint32_t tag;

	sandbox_exec_encode(&mute, none, &exec);
	buf_lstr(&b, buf_str(&exec));
	buf_u8(&b, 0);
	assert_int_equal(client_send(sb, CALL_EXEC, &b, NULL, 0, &tag, &e), 0);
	assert_int_equal(client_start(sb, &burst, false, &s, &e), 0);
	assert_true(s.out >= 0 && s.errs >= 0);
	assert_int_equal(client_ended(sb, &s, 1000, &r, &e), 0);
	sandbox_result_free(&r);
	assert_int_equal(client_answer(sb, tag, CALL_STARTED, 1000, &m, &e), ERR_NOT_FOUND);
}

static void
pid_1_that_goes_or_says_nothing_is_the_end(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *a = help_create(&(struct sandbox_spec){0});
	AUTO(sandbox) struct sandbox *b = help_create(&(struct sandbox_spec){0});
	struct sandbox_exec x = {.argv = ARGV("sleep", "100")};
	struct sandbox_result r;
	struct err e;
	uint32_t proc = help_spawn(a, &x);

	help_refused(a, ARGV("@die"), ERR_UNAVAILABLE, "pid 1 is gone");
	assert_int_equal(sandbox_proc_wait(a, proc, 0, &r, &e), 0);
	assert_int_equal(r.cause, SANDBOX_UNAVAILABLE);
	sandbox_result_free(&r);
	assert_int_equal(sandbox_spawn(a, &x, &proc, &e), ERR_UNAVAILABLE);
	help_refused(b, ARGV("@mute"), ERR_UNAVAILABLE, "pid 1 does not answer");
}

static void
program_that_cannot_be_ended_takes_the_sandbox_with_it(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&(struct sandbox_spec){0});
	struct sandbox_result r = help_exec(sb, ARGV("@deaf"), 1);

	assert_int_equal(r.cause, SANDBOX_TIMEOUT);
	sandbox_result_free(&r);
	help_refused(sb, ARGV("true"), ERR_UNAVAILABLE, "could not be ended");
	assert_int_equal(fake_ends, 1);
}

static void
refused_calls_are_told_with_the_end(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = NULL;
	AUTO_FD int bell = eventfd(3, EFD_CLOEXEC);
	struct sandbox_exec cat = {.argv = ARGV("cat"), .pipe_stdin = true};
	struct sandbox_result r;
	uint64_t two = 2;

	fake_notify = bell;
	sb = help_create(&(struct sandbox_spec){0});
	/* What came before the program is not its. */
	r = help_exec(sb, ARGV("true"), 0);
	assert_null(r.refused);
	sandbox_result_free(&r);
	help_spawn(sb, &cat);
	assert_int_equal(write(bell, &two, sizeof(two)), sizeof(two));
	r = help_exec(sb, ARGV("true"), 0);
	assert_string_equal(
	    r.refused, "[{\"shared\":true,\"call\":\"ptrace\",\"program\":\"a{\",\"count\":2}]");
	sandbox_result_free(&r);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(level_says_what_holds, help_reset),
	    cmocka_unit_test_setup(
		lesser_level_is_named_and_only_had_where_the_spec_allows_it, help_reset),
	    cmocka_unit_test_setup(unknown_back_end_is_refused, help_reset),
	    cmocka_unit_test_setup(start_that_fails_says_why_and_leaves_nothing, help_reset),
	    cmocka_unit_test_setup(status_and_signal_of_a_program_come_back, help_reset),
	    cmocka_unit_test_setup(streams_reach_the_caller, help_reset),
	    cmocka_unit_test_setup(code_and_descriptors_reach_the_program, help_reset),
	    cmocka_unit_test_setup(
		missing_program_is_not_found_and_its_words_are_printable, help_reset),
	    cmocka_unit_test_setup(full_pids_limit_is_named_with_the_way_out, help_reset),
	    cmocka_unit_test_setup(own_time_of_a_program_ends_it_and_no_other, help_reset),
	    cmocka_unit_test_setup(memory_kill_is_told_from_other_ends, help_reset),
	    cmocka_unit_test_setup(full_disk_is_the_cause_of_a_failure_alone, help_reset),
	    cmocka_unit_test_setup(whatever_pid_1_may_not_say_ends_the_sandbox, help_reset),
	    cmocka_unit_test_setup(start_and_end_that_are_known_at_once_are_one_answer, help_reset),
	    cmocka_unit_test_setup(descriptors_are_of_the_frame_that_names_them, help_reset),
	    cmocka_unit_test_setup(pid_1_that_goes_or_says_nothing_is_the_end, help_reset),
	    cmocka_unit_test_setup(
		program_that_cannot_be_ended_takes_the_sandbox_with_it, help_reset),
	    cmocka_unit_test_setup(refused_calls_are_told_with_the_end, help_reset),
	};

	if (argc == 3 && strcmp(argv[1], "pid1") == 0)
		return pid1_main(argv[2]);
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
