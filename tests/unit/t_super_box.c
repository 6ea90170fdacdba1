/* The sandbox as a whole: pause and time, targets, what is said of it, and callers that misbehave.
 */
#include <dirent.h>
#include <fcntl.h>

#include "super_help.h"

#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

static const struct sandbox_spec plain;

static struct sandbox_exec
of(char **argv)
{
	return (struct sandbox_exec){.argv = argv, .merge = true};
}

static void
deadlines_stand_still_while_paused(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = of(ARGV("sleep", "100"));
	struct sandbox_result r;
	struct err e = {0};
	uint32_t proc;

	x.timeout_s = 1;
	proc = help_spawn(sb, &x);
	assert_int_equal(sandbox_pause(sb, &e), 0);
	assert_int_equal(sandbox_pause(sb, &e), 0); /* again is no error */
	assert_int_equal(fake_freezes, 1);
	assert_int_equal(sandbox_proc_wait(sb, proc, 1500, &r, &e), ERR_TIMEOUT);
	help_refused(sb, ARGV("true"), ERR_STATE, "paused");
	assert_int_equal(sandbox_resume(sb, &e), 0);
	assert_int_equal(fake_freezes, 2);
	assert_int_equal(sandbox_proc_wait(sb, proc, 10000, &r, &e), 0);
	assert_int_equal(r.cause, SANDBOX_TIMEOUT);
	sandbox_result_free(&r);
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
}

static void
pause_has_an_end_and_a_paused_one_can_be_ended(void **state UNUSED)
{
	struct sandbox_spec s = {.limits.wall_s = 3};
	AUTO(sandbox) struct sandbox *sb = help_create(&s);
	struct sandbox *other = help_create(&plain);
	struct err e = {0};

	assert_int_equal(sandbox_pause(sb, &e), 0);
	assert_int_equal(sandbox_pause(other, &e), 0);
	sandbox_destroy(other);
	assert_int_equal(fake_ends, 1);
	/* 3 s is the longest pause of this test's times. */
	for (int i = 0; i < 2000 && fake_ends == 1; i++)
		(void)poll(NULL, 0, 10);
	assert_int_equal(fake_ends, 2);
}

static void
time_of_the_sandbox_ends_all_and_can_be_extended(void **state UNUSED)
{
	struct sandbox_spec s = {.limits.wall_s = 5};
	AUTO(sandbox) struct sandbox *longer = help_create(&s);
	AUTO(sandbox) struct sandbox *sb = NULL;
	struct sandbox_exec x = of(ARGV("sleep", "100"));
	struct sandbox_result r;
	struct err e = {0};
	uint32_t proc, live;

	assert_int_equal(sandbox_extend(longer, 100, &e), 0);
	live = help_spawn(longer, &x);
	sb = help_create(&s);
	proc = help_spawn(sb, &x);
	assert_int_equal(sandbox_proc_wait(sb, proc, 20000, &r, &e), 0);
	assert_int_equal(r.cause, SANDBOX_TIMEOUT);
	sandbox_result_free(&r);
	help_refused(sb, ARGV("true"), ERR_UNAVAILABLE, "its time is over");
	assert_int_equal(sandbox_proc_wait(longer, live, 100, &r, &e), ERR_TIMEOUT);
	assert_int_equal(sandbox_extend(longer, 1, &e), 0);
	assert_int_equal(sandbox_proc_wait(longer, live, 10000, &r, &e), 0);
	assert_int_equal(r.cause, SANDBOX_TIMEOUT);
	sandbox_result_free(&r);
}

static void
inspect_is_one_object_of_json(void **state UNUSED)
{
	const struct sandbox_target t[2] = {{"db\"", "127.7.0.1", 1}, {"db", "127.7.0.2", 5432}};
	const char *labels[] = {"a=\"b\"", NULL};
	struct sandbox_spec s = {.labels = labels, .targets = t + 1, .ntargets = 1};
	AUTO(sandbox) struct sandbox *sb = help_create(&s);
	struct sandbox_exec x = of(ARGV("sleep", "100"));
	AUTO_BUF struct buf b = BUF(1 << 20);
	AUTO(json) struct json_doc *d = NULL;
	const struct json *o;
	struct err e = {0};

	(void)help_spawn(sb, &x);
	assert_int_equal(sandbox_inspect(sb, &b, &e), 0);
	if (json_parse(buf_str(&b), "inspect", &d, &e) != 0)
		fail_msg("%s: %.*s", e.msg, STR_ARG(buf_str(&b)));
	o = json_root(d);
	assert_true(str_eqz(json_str(json_get(o, "state")), "running"));
	assert_true(str_eqz(json_str(json_at(json_get(o, "labels"), 0)), "a=\"b\""));
	assert_int_equal(json_int(json_get(o, "procs")), 1);
	assert_int_equal(json_int(json_get(json_get(o, "usage"), "pids")), 3);
	assert_true(str_eqz(
	    json_str(json_get(json_at(json_get(o, "targets"), 0), "address")), "127.7.0.2"));
	assert_true(json_int(json_get(o, "left_ms")) > 3500000);
	assert_true(str_eqz(json_str(json_get(json_get(o, "level"), "level")), "full"));
	assert_int_equal(json_count(json_get(o, "refused")), 0);
}

static void
inspect_says_since_when_it_is_paused_and_that_its_time_stands_still(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	AUTO_BUF struct buf b = BUF(1 << 20);
	AUTO_FREE char *on = NULL, *off = NULL;
	struct err e = {0};

	assert_int_equal(sandbox_pause(sb, &e), 0);
	assert_int_equal(sandbox_extend(sb, 100, &e), 0);
	(void)poll(NULL, 0, 1100);
	assert_int_equal(sandbox_inspect(sb, &b, &e), 0);
	on = buf_dup_z(&b);
	assert_non_null(strstr(on, "\"paused_since\":\"20"));
	assert_non_null(
	    strstr(on, "\"paused_time\":\"stands still until resume, for a day at most"));
	assert_non_null(strstr(on, "\"left_ms\":100000,"));
	assert_int_equal(sandbox_resume(sb, &e), 0);
	buf_reset(&b);
	assert_int_equal(sandbox_inspect(sb, &b, &e), 0);
	off = buf_dup_z(&b);
	assert_null(strstr(off, "paused"));
}

/* 0: it can be connected to. */
static int
reach(int listener)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);
	AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (getsockname(listener, (struct sockaddr *)&a, &n) != 0)
		return errno;
	return connect(fd, (struct sockaddr *)&a, n) == 0 ? 0 : errno;
}

static void
targets_come_and_go_as_a_whole(void **state UNUSED)
{
	const struct sandbox_target t[3] = {
	    {"a", "127.7.0.1", 1}, {"b", "127.7.0.2", 2}, {"c", "127.7.0.3", 3}};
	struct sandbox_spec s = {.targets = t, .ntargets = 1};
	AUTO(sandbox) struct sandbox *sb = help_create(&s);
	AUTO_FD int a = sandbox_listener_take(sb, 0);
	int fds[2] = {-1, -1};
	struct err e = {0};

	assert_int_equal(reach(a), 0);
	/* One that is not there, one that is, one that cannot be had: nothing changes. */
	assert_int_equal(sandbox_network(sb, t + 1, 1, t + 2, 1, fds, &e), ERR_NOT_FOUND);
	assert_int_equal(sandbox_network(sb, t, 1, NULL, 0, fds, &e), ERR_EXISTS);
	fake_listen_fails = 2;
	assert_int_equal(sandbox_network(sb, t + 1, 2, t, 1, fds, &e), ERR_SYSTEM);
	assert_int_equal(reach(a), 0);
	assert_int_equal(sandbox_network(sb, t + 1, 2, t, 1, fds, &e), 0);
	assert_int_equal(reach(a), ECONNREFUSED);
	assert_int_equal(accept(a, NULL, NULL), -1);
	assert_int_equal(reach(fds[0]), 0);
	assert_int_equal(reach(fds[1]), 0);
	assert_null(strstr(fake_hosts, "127.7.0.1"));
	assert_non_null(strstr(fake_hosts, "127.7.0.2 b\n127.7.0.3 c\n"));
	(void)close(fds[0]);
	(void)close(fds[1]);
	/* What went may come again, at the same place in the same change, too. */
	assert_int_equal(sandbox_network(sb, t + 1, 1, t + 1, 1, fds, &e), 0);
	assert_int_equal(reach(fds[0]), 0);
	(void)close(fds[0]);
	assert_int_equal(sandbox_network(sb, t, 1, NULL, 0, fds, &e), 0);
	(void)close(fds[0]);
}

/* Is there a cat that stands still? */
static bool
cat_stands(void)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	bool stands = false;

	assert_non_null(d);
	while (!stands && (e = readdir(d)) != NULL) {
		AUTO_FREE char *path = xasprintf("/proc/%s/stat", e->d_name);
		AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
		char text[64] = "";

		stands = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
			 strstr(text, " (cat) T ") != NULL;
	}
	(void)closedir(d);
	return stands;
}

static void
holding_stops_programs_until_it_is_let_go(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = {.argv = ARGV("cat"), .pipe_stdin = true, .merge = true};
	uint32_t proc = help_spawn(sb, &x);
	AUTO_BUF struct buf on = BUF(4), off = BUF(4), b = BUF(100);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct sandbox_logs at;
	struct err e = {0};

	buf_u8(&on, 1);
	buf_u8(&off, 0);
	assert_int_equal(client_ask(sb, CALL_HOLD, &on, &m, &e), 0);
	/* Done once it is ordered; a program's input does not wait in the same line. */
	for (int i = 0; i < 1000 && !cat_stands(); i++)
		(void)usleep(10000);
	assert_int_equal(sandbox_proc_input(sb, proc, STR("x"), false, &e), 0);
	assert_int_equal(sandbox_proc_logs(sb, proc, 0, 200, &b, &at, &e), 0);
	assert_int_equal(b.n, 0);
	assert_int_equal(client_ask(sb, CALL_HOLD, &off, &m, &e), 0);
	assert_int_equal(sandbox_proc_logs(sb, proc, 0, 10000, &b, &at, &e), 0);
	assert_int_equal(b.n, 1);
}

/* --- callers -------------------------------------------------------------------------------- */

/* A frame as it stands; then the supervisor must have ended the connection. */
static void
raw_ends(struct sandbox *sb, const uint8_t *p, size_t n)
{
	struct pollfd w = {.fd = sb->wire, .events = POLLIN};
	char room[4096];
	ssize_t k = 1;

	assert_int_equal(write(sb->wire, p, n), (ssize_t)n);
	while (k > 0 && poll(&w, 1, 10000) == 1)
		k = read(sb->wire, room, sizeof(room));
	assert_true(k == 0 || (k < 0 && errno == ECONNRESET));
}

static void
request_that_is_none_ends_the_connection_and_so_the_sandbox(void **state UNUSED)
{
	static const struct {
		const char *bytes;
		size_t n;
	} rows[] = {
	    {"\0\0\0\4\14\0\0\0\0\1", 10},	   /* no such type */
	    {"\0\0\0\5\24\0\0\0\0\1x", 11},	   /* PROCS with a byte too much */
	    {"\0\0\0\4\26\0\0\0\0\1", 10},	   /* SIGNAL without a program */
	    {"\0\0\0\3\24\0\0\0\1", 9},		   /* no room for a tag */
	    {"\377\377\377\377\24\0", 6},	   /* a length over the limit */
	    {"\0\0\0\4\24\1\0\0\0\1", 10},	   /* a descriptor that does not come */
	    {"\0\0\0\10\1\0\0\0\0\1\0\0\0\0", 14}, /* CREATE again */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(sandbox) struct sandbox *sb = help_create(&plain);

		fake_ends = 0;
		raw_ends(sb, (const uint8_t *)rows[i].bytes, rows[i].n);
		for (int k = 0; k < 1000 && fake_ends == 0; k++)
			(void)poll(NULL, 0, 10);
		assert_int_equal(fake_ends, 1);
	}
}

static void
malformed_exec_is_refused_and_the_next_one_runs(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	AUTO_BUF struct buf b = BUF(100);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};
	uint32_t tag;

	buf_lstr(&b, STR("\0\0\0"));
	buf_u8(&b, 0);
	assert_int_equal(client_send(sb, CALL_EXEC, &b, NULL, 0, &tag, &e), 0);
	assert_int_equal(client_answer(sb, tag, CALL_STARTED, 10000, &m, &e), ERR_PROTOCOL);
	help_ends(sb, ARGV("true"), SANDBOX_EXITED, 0);
}

static void
caller_that_does_not_read_is_dropped(void **state UNUSED)
{
	AUTO(sandbox) struct sandbox *sb = help_create(&plain);
	struct sandbox_exec x = of(ARGV("sh", "-c", "head -c 900000 /dev/zero; sleep 100"));
	uint32_t proc = help_spawn(sb, &x), tag;
	AUTO_BUF struct buf b = BUF(100);
	struct err e = {0};

	(void)poll(NULL, 0, 500);
	buf_u32(&b, proc);
	buf_u64(&b, 0);
	buf_u32(&b, 0);
	buf_u32(&b, 1 << 20);
	for (int i = 0; i < 10; i++)
		(void)client_send(sb, CALL_LOGS, &b, NULL, 0, &tag, &e);
	for (int k = 0; k < 2000 && fake_ends == 0; k++)
		(void)poll(NULL, 0, 10);
	assert_int_equal(fake_ends, 1);
}

static void
caller_that_goes_leaves_nothing(void **state UNUSED)
{
	int wire;
	pid_t pid = help_process(&wire);
	struct sandbox *sb = client_for(&plain);
	struct err e = {0};
	int st;

	sb->wire = wire;
	assert_int_equal(client_create(sb, &plain, &e), 0);
	(void)help_spawn(sb, &(struct sandbox_exec){.argv = ARGV("sleep", "1000")});
	(void)close(TAKE_FD(sb->wire));
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	sandbox_destroy(sb);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(deadlines_stand_still_while_paused, help_reset),
	    cmocka_unit_test_setup(pause_has_an_end_and_a_paused_one_can_be_ended, help_reset),
	    cmocka_unit_test_setup(time_of_the_sandbox_ends_all_and_can_be_extended, help_reset),
	    cmocka_unit_test_setup(
		inspect_says_since_when_it_is_paused_and_that_its_time_stands_still, help_reset),
	    cmocka_unit_test_setup(inspect_is_one_object_of_json, help_reset),
	    cmocka_unit_test_setup(targets_come_and_go_as_a_whole, help_reset),
	    cmocka_unit_test_setup(holding_stops_programs_until_it_is_let_go, help_reset),
	    cmocka_unit_test_setup(
		request_that_is_none_ends_the_connection_and_so_the_sandbox, help_reset),
	    cmocka_unit_test_setup(malformed_exec_is_refused_and_the_next_one_runs, help_reset),
	    cmocka_unit_test_setup(caller_that_does_not_read_is_dropped, help_reset),
	    cmocka_unit_test_setup(caller_that_goes_leaves_nothing, help_reset),
	};

	if (argc == 3 && strcmp(argv[1], "pid1") == 0)
		return pid1_main(argv[2]);
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
