/* Programs that go on by themselves: their output, input, signals, and how many are known. */
#include "super_help.h"

#include "common/banned.h"

static const struct sandbox_spec plain;

static struct sandbox_exec
of(char **argv)
{
	return (struct sandbox_exec){.argv = argv, .pipe_stdin = true, .merge = true};
}

static void
ends_as(struct sandbox *sb, uint32_t proc, enum sandbox_cause cause, int value)
{
	struct sandbox_result r;
	struct err e = {0};

	if (sandbox_proc_wait(sb, proc, 20000, &r, &e) != 0)
		fail_msg("wait: %s", e.msg);
	if (r.cause != cause || r.value != value)
		fail_msg("%s %d, wanted %s %d", sandbox_cause_name(r.cause), r.value,
		    sandbox_cause_name(cause), value);
	sandbox_result_free(&r);
}

static void
output_is_kept_and_waited_for(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = of(ARGV("sh", "-c", "echo one; read x; echo $x >&2"));
	uint32_t proc = help_spawn(sb, &x);
	AUTO_BUF struct buf b = BUF(1000);
	struct sandbox_logs at;
	struct err e = {0};

	assert_int_equal(sandbox_proc_logs(sb, proc, 0, 10000, &b, &at, &e), 0);
	assert_true(str_eqz(buf_str(&b), "one\n") && at.first == 0 && at.next == 4 && at.running);
	buf_reset(&b);
	/* Nothing yet, and no wait. */
	assert_int_equal(sandbox_proc_logs(sb, proc, 4, 0, &b, &at, &e), 0);
	assert_true(b.n == 0 && at.first == 4 && at.next == 4 && at.running);
	assert_int_equal(sandbox_proc_logs(sb, proc, 4, 100, &b, &at, &e), 0);
	assert_true(b.n == 0 && at.running);
	assert_int_equal(sandbox_proc_input(sb, proc, STR("two\n"), true, &e), 0);
	assert_int_equal(sandbox_proc_logs(sb, proc, 4, 10000, &b, &at, &e), 0);
	assert_true(str_eqz(buf_str(&b), "two\n"));
	ends_as(sb, proc, SANDBOX_EXITED, 0);
	assert_int_equal(sandbox_proc_logs(sb, proc, 8, 10000, &b, &at, &e), 0);
	assert_true(!at.running && at.next == 8);
	/* From behind the end is the end. */
	assert_int_equal(sandbox_proc_logs(sb, proc, 99, 10000, &b, &at, &e), 0);
	assert_int_equal(at.first, 8);
	assert_int_equal(sandbox_proc_input(sb, proc, STR("x"), false, &e), ERR_STATE);
}

static void
last_bytes_are_kept_and_first_ones_dropped(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = of(ARGV("python3", "-c",
	    "import sys\nfor i in range(400000): sys.stdout.write('%07d\\n' % i)"));
	uint32_t proc = help_spawn(sb, &x);
	uint64_t total = 8 * UINT64_C(400000), from = 0;
	struct sandbox_logs at;
	struct err e = {0};

	ends_as(sb, proc, SANDBOX_EXITED, 0);
	for (bool first = true; from < total; first = false) {
		AUTO_BUF struct buf b = BUF(2 << 20);
		AUTO_FREE char *want = NULL;

		assert_int_equal(sandbox_proc_logs(sb, proc, from, 0, &b, &at, &e), 0);
		assert_true(!first || at.first == total - SANDBOX_LOG_MAX);
		assert_true(at.next == at.first + b.n && at.next <= total && b.n >= 8);
		want = xasprintf("%07u\n", (unsigned)(at.first / 8));
		assert_memory_equal(b.p, want, 8);
		from = at.next;
	}
}

static void
more_output_than_the_limit_ends_it(void **state UNUSED)
{
	struct sandbox_spec s = {.limits.output_mib = 1};
	AUTO(sandbox) struct sandbox *sb = help_create(&s);
	struct sandbox_exec x = of(ARGV("sh", "-c", "yes; sleep 100"));
	struct sandbox_exec y = of(ARGV("head", "-c", "1048575", "/dev/zero"));

	ends_as(sb, help_spawn(sb, &x), SANDBOX_OUTPUT, SIGKILL);
	ends_as(sb, help_spawn(sb, &y), SANDBOX_EXITED, 0);
}

static void
input_that_nobody_reads_is_taken_in_part(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = of(ARGV("sleep", "100")), cat = of(ARGV("wc", "-c"));
	uint32_t proc = help_spawn(sb, &x);
	AUTO_FREE char *much = xcalloc(1, 300000);
	AUTO_BUF struct buf b = BUF(100000);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct sandbox_logs at;
	struct err e = {0};
	uint32_t taken = 65536;

	for (int i = 0; i < 3; i++) {
		struct rd r;

		buf_reset(&b);
		buf_u32(&b, proc);
		buf_u8(&b, 1);
		buf_lstr(&b, str_mem(much, 65536));
		assert_int_equal(client_ask(sb, CALL_INPUT, &b, &m, &e), 0);
		r = rd_init(buf_str(&m.body));
		taken = rd_u32(&r);
		if (taken < 65536)
			break;
		assert_int_equal(i, 0); /* a pipe holds that much, and was closed behind it */
		proc = help_spawn(sb, &x);
		buf_reset(&b);
		buf_u32(&b, proc);
		buf_u8(&b, 0);
		buf_lstr(&b, str_mem(much, 65536));
		assert_int_equal(client_ask(sb, CALL_INPUT, &b, &m, &e), 0);
	}
	assert_int_equal(taken, 0);
	proc = help_spawn(sb, &cat);
	assert_int_equal(sandbox_proc_input(sb, proc, str_mem(much, 300000), true, &e), 0);
	buf_reset(&b);
	assert_int_equal(sandbox_proc_logs(sb, proc, 0, 10000, &b, &at, &e), 0);
	assert_true(str_eqz(buf_str(&b), "300000\n"));
}

static void
terminal_has_a_size_and_an_end_of_input(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = {
	    .argv = ARGV("sh", "-c", "read x; stty size <&0; cat >/dev/null"), .tty = true};
	struct sandbox_exec none = of(ARGV("sleep", "100"));
	uint32_t proc = help_spawn(sb, &x);
	AUTO_BUF struct buf b = BUF(1000);
	struct sandbox_logs at = {0};
	struct err e = {0};

	assert_int_equal(sandbox_proc_resize(sb, proc, 33, 77, &e), 0);
	assert_int_equal(sandbox_proc_input(sb, proc, STR("go\n"), false, &e), 0);
	while (b.n == 0 || memmem(b.p, b.n, "33 77", 5) == NULL) {
		assert_int_equal(sandbox_proc_logs(sb, proc, at.next, 10000, &b, &at, &e), 0);
		assert_true(at.running);
	}
	assert_int_equal(sandbox_proc_input(sb, proc, STR(""), true, &e), 0);
	ends_as(sb, proc, SANDBOX_EXITED, 0);
	assert_int_equal(sandbox_proc_resize(sb, help_spawn(sb, &none), 1, 1, &e), ERR_STATE);
}

static void
signals_and_kills_reach_the_one_that_is_meant(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = of(ARGV("sleep", "100"));
	uint32_t a = help_spawn(sb, &x), b = help_spawn(sb, &x);
	struct sandbox_result r;
	struct err e = {0};

	assert_int_equal(sandbox_proc_signal(sb, a, SIGTERM, &e), 0);
	ends_as(sb, a, SANDBOX_SIGNALLED, SIGTERM);
	assert_int_equal(sandbox_proc_wait(sb, b, 0, &r, &e), ERR_TIMEOUT);
	assert_int_equal(sandbox_proc_wait(sb, b, 50, &r, &e), ERR_TIMEOUT);
	assert_int_equal(sandbox_proc_kill(sb, b, &e), 0);
	ends_as(sb, b, SANDBOX_KILLED, SIGKILL);
	assert_int_equal(sandbox_proc_signal(sb, b, SIGTERM, &e), ERR_STATE);
	assert_int_equal(sandbox_proc_signal(sb, 99, SIGTERM, &e), ERR_NOT_FOUND);
	assert_int_equal(sandbox_proc_wait(sb, 99, 0, &r, &e), ERR_NOT_FOUND);
	assert_int_equal(sandbox_proc_input(sb, 99, STR("x"), false, &e), ERR_NOT_FOUND);
}

static void
what_is_left_in_the_background_still_writes_and_can_be_ended(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x =
	    of(ARGV("sh", "-c", "setsid sh -c 'sleep 0.5; echo late' & exit 3"));
	AUTO_BUF struct buf b = BUF(1000);
	struct sandbox_logs at = {0};
	struct err e = {0};
	uint32_t proc;

	x.background = true;
	proc = help_spawn(sb, &x);
	ends_as(sb, proc, SANDBOX_EXITED, 3);
	for (int i = 0; i < 500 && b.n == 0; i++) {
		assert_int_equal(sandbox_proc_logs(sb, proc, 0, 1000, &b, &at, &e), 0);
		(void)poll(NULL, 0, 20);
	}
	assert_true(str_eqz(buf_str(&b), "late\n"));
}

/* The list as text; the caller frees. */
static char *
list_of(struct sandbox *sb)
{
	AUTO_BUF struct buf b = BUF(1 << 20);
	struct err e = {0};

	assert_int_equal(sandbox_proc_list(sb, &b, &e), 0);
	return buf_dup_z(&b);
}

static void
what_an_exec_left_is_listed_until_it_is_gone(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = {.argv = ARGV("sh", "-c", "sleep 1000 >/dev/null 2>&1 & exit 3"),
	    .stdin_fd = -1,
	    .background = true};
	struct sandbox_exec t = of(ARGV("true"));
	struct sandbox_result r;
	struct err e = {0};
	AUTO_FREE char *z = NULL, *after = NULL;

	assert_int_equal(sandbox_exec(sb, &x, &r, &e), 0);
	assert_int_equal(r.value, 3);
	sandbox_result_free(&r);
	/* More ends than are kept of those that left nothing. */
	for (int i = 0; i <= SUPER_KEPT_MAX; i++)
		ends_as(sb, help_spawn(sb, &t), SANDBOX_EXITED, 0);
	z = list_of(sb);
	assert_non_null(strstr(z, "\"cause\":\"exited\",\"left\":true,\"output\":0,\"proc\":1,"));
	assert_int_equal(sandbox_proc_kill(sb, 1, &e), 0);
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
	after = list_of(sb);
	assert_null(strstr(after, "\"left\""));
	assert_null(strstr(after, "\"proc\":1,"));
	/* One that left nothing is not listed. */
	x.argv = ARGV("true");
	assert_int_equal(sandbox_exec(sb, &x, &r, &e), 0);
	sandbox_result_free(&r);
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
	free(TAKE_PTR(after));
	after = list_of(sb);
	assert_null(strstr(after, "\"left\""));
}

static void
list_has_what_runs_and_the_last_that_ended(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec t = of(ARGV("true")), x = of(ARGV("sleep", "1\"00\n"));
	struct sandbox_result r;
	AUTO_BUF struct buf b = BUF(1 << 20);
	AUTO_FREE char *z = NULL;
	struct err e = {0};
	uint32_t first = help_spawn(sb, &t);

	x.argv = ARGV("sh", "-c", "sleep 100", "a\"b\n");
	ends_as(sb, first, SANDBOX_EXITED, 0);
	(void)help_spawn(sb, &x);
	for (int i = 0; i < SUPER_KEPT_MAX; i++)
		ends_as(sb, help_spawn(sb, &t), SANDBOX_EXITED, 0);
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0); /* of its caller alone: is not listed */
	assert_int_equal(sandbox_proc_list(sb, &b, &e), 0);
	z = buf_dup_z(&b);
	assert_non_null(strstr(
	    z, "{\"argv\":[\"sh\",\"-c\",\"sleep 100\",\"a\\\"b\\n\"],\"output\":0,\"proc\":2,"));
	assert_non_null(strstr(z, "\"cause\":\"exited\",\"output\":0,\"proc\":66,"));
	assert_null(strstr(z, "\"proc\":1,"));
	assert_null(strstr(z, "\"proc\":67,"));
	assert_int_equal(sandbox_proc_wait(sb, first, 0, &r, &e), ERR_NOT_FOUND);
}

static void
no_more_programs_at_once_than_the_limit(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = of(ARGV("sleep", "1000"));
	uint32_t proc, last = 0;
	struct err e = {0};

	for (int i = 0; i < SANDBOX_PROCS_MAX; i++)
		last = help_spawn(sb, &x);
	assert_int_equal(sandbox_spawn(sb, &x, &proc, &e), ERR_TOO_LARGE);
	assert_non_null(strstr(e.msg, "256 programs run, limit 256"));
	assert_int_equal(sandbox_proc_kill(sb, last, &e), 0);
	assert_int_equal(sandbox_spawn(sb, &x, &proc, &e), 0);
}

static void
program_goes_on_without_its_caller(void **state UNUSED)
{
	struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = of(ARGV("sleep", "1000"));

	(void)help_spawn(sb, &x);
	/* The end of an unnamed one's caller is its own: nothing is waited for. */
	sandbox_destroy(sb);
	assert_int_equal(fake_ends, 1);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(output_is_kept_and_waited_for, help_reset),
	    cmocka_unit_test_setup(last_bytes_are_kept_and_first_ones_dropped, help_reset),
	    cmocka_unit_test_setup(more_output_than_the_limit_ends_it, help_reset),
	    cmocka_unit_test_setup(input_that_nobody_reads_is_taken_in_part, help_reset),
	    cmocka_unit_test_setup(terminal_has_a_size_and_an_end_of_input, help_reset),
	    cmocka_unit_test_setup(signals_and_kills_reach_the_one_that_is_meant, help_reset),
	    cmocka_unit_test_setup(
		what_is_left_in_the_background_still_writes_and_can_be_ended, help_reset),
	    cmocka_unit_test_setup(what_an_exec_left_is_listed_until_it_is_gone, help_reset),
	    cmocka_unit_test_setup(list_has_what_runs_and_the_last_that_ended, help_reset),
	    cmocka_unit_test_setup(no_more_programs_at_once_than_the_limit, help_reset),
	    cmocka_unit_test_setup(program_goes_on_without_its_caller, help_reset),
	};

	if (argc == 3 && strcmp(argv[1], "pid1") == 0)
		return pid1_main(argv[2]);
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
