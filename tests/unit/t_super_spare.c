/* Spares: who gets one, what it is before and after, when none is built. With a pid 1 that plays.
 */
#include "super_help.h"

#include "common/banned.h"

static const char *
text(void)
{
	static char t[64];

	(void)snprintf(t, sizeof(t), "t-spare-%d", (int)getpid());
	return t;
}

static pid_t
spare(uint32_t seconds)
{
	struct sandbox *sb = client_new();
	AUTO_BUF struct buf b = BUF(4096), spec = BUF(4096);
	struct err e = {0};
	uint32_t tag;
	pid_t pid = help_process(&sb->wire);

	sandbox_spec_encode(&(struct sandbox_spec){0}, &spec);
	buf_u32(&b, seconds);
	buf_lz(&b, text());
	buf_lstr(&b, buf_str(&spec));
	assert_int_equal(client_send(sb, CALL_SPARE, &b, NULL, 0, &tag, &e), 0);
	cleanup_close_fd(&sb->wire);
	client_free(sb);
	return pid;
}

/* The place whose lock names our text, once it listens. Others may have theirs. */
static char *
path_find(void)
{
	char hint[CALL_HINT + 1];
	struct err e = {0};
	AUTO_FREE char *dir = call_directory(true, &e);

	assert_non_null(dir);
	call_hint(str_z(text()), hint);
	for (int k = 0; k < 2000; k++, usleep(5000))
		for (unsigned i = 1; i <= CALL_SPARES_MAX; i++) {
			AUTO_FREE char *lock = xasprintf("%s/" CALL_SPARE_NAME ".lock", dir, i);
			AUTO_FREE char *sock = xasprintf("%s/" CALL_SPARE_NAME ".sock", dir, i);
			AUTO_FD int fd = open(lock, O_RDONLY | O_CLOEXEC);
			char is[CALL_HINT];

			if (fd >= 0 && read(fd, is, sizeof(is)) == (ssize_t)sizeof(is) &&
			    memcmp(is, hint, sizeof(is)) == 0 && access(sock, F_OK) == 0)
				return TAKE_PTR(sock);
		}
	fail_msg("no spare waits");
	return NULL;
}

static struct sandbox *
come(const char *path)
{
	struct sandbox *sb = client_new();
	struct err e = {0};

	assert_int_equal(client_connect(path, &sb->wire, &e), 0);
	sb->env = xcalloc(1, sizeof(*sb->env));
	sb->output_max = 1000000;
	return sb;
}

/* What the answer to TAKE is, or the error. */
static int
take(struct sandbox *sb, unsigned version, const char *what)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct err e = {0};
	uint32_t tag = 0;
	int rc;

	buf_u8(&b, (uint8_t)version);
	buf_u32(&b, 20);
	buf_lz(&b, what);
	rc = client_send(sb, CALL_TAKE, &b, NULL, 0, &tag, &e);
	return rc != 0 ? rc : client_created(sb, tag, 0, 20000, &e);
}

static void
leave(struct sandbox *sb)
{
	cleanup_close_fd(&sb->wire);
	client_free(sb);
}

/* Told to end, it begins no other one. */
static void
end(pid_t pid)
{
	int st = -1;

	(void)kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st));
}

static void
who_says_what_it_is_gets_it_and_nobody_else(void **state UNUSED)
{
	pid_t pid = spare(20);
	AUTO_FREE char *path = path_find();
	AUTO_FREE char *longer = xasprintf("%s0", text());
	struct sandbox *other = come(path), *old = come(path), *a = come(path), *late = come(path);
	struct stat was, is;

	assert_int_equal(stat(path, &was), 0);
	assert_int_equal(take(other, CALL_VERSION, longer), ERR_NOT_FOUND);
	assert_int_equal(take(old, CALL_VERSION + 1, text()), ERR_NOT_FOUND);
	assert_int_equal(take(a, CALL_VERSION, text()), 0);
	assert_int_equal(take(late, CALL_VERSION, text()), ERR_UNAVAILABLE);
	/* Nobody finds it there any more; the next one may have the place already. */
	assert_true(stat(path, &is) != 0 || is.st_ino != was.st_ino ||
		    is.st_ctim.tv_sec != was.st_ctim.tv_sec ||
		    is.st_ctim.tv_nsec != was.st_ctim.tv_nsec);
	help_ends(a, ARGV("sh", "-c", "exit 3"), SANDBOX_EXITED, 3);
	leave(other);
	leave(old);
	leave(late);
	end(pid);
	leave(a);
}

static void
one_that_waits_can_be_looked_at_and_ended_but_not_used(void **state UNUSED)
{
	pid_t pid = spare(20);
	AUTO_FREE char *path = path_find();
	struct sandbox *sb = come(path);
	AUTO_BUF struct buf b = BUF(8), json = BUF(65536);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};
	int st = -1;

	buf_u8(&b, CALL_VERSION);
	assert_int_equal(client_ask(sb, CALL_ATTACH, &b, &m, &e), 0);
	help_refused(sb, ARGV("true"), ERR_STATE, "waits for");
	assert_int_equal(sandbox_pause(sb, &e), ERR_STATE);
	assert_int_equal(sandbox_extend(sb, 100, &e), ERR_STATE);
	assert_int_equal(sandbox_inspect(sb, &json, &e), 0);
	buf_put_c(&json, '\0');
	assert_non_null(strstr((const char *)json.p, "\"state\":\"spare\""));
	assert_int_equal(client_ask(sb, CALL_END, NULL, &m, &e), 0);
	leave(sb);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(access(path, F_OK), -1);
}

static void
who_looked_is_not_there_any_more_when_it_is_taken(void **state UNUSED)
{
	pid_t pid = spare(20);
	AUTO_FREE char *path = path_find();
	struct sandbox *look = come(path), *a = come(path);
	AUTO_BUF struct buf b = BUF(8);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};

	buf_u8(&b, CALL_VERSION);
	assert_int_equal(client_ask(look, CALL_ATTACH, &b, &m, &e), 0);
	assert_int_equal(take(a, CALL_VERSION, text()), 0);
	help_refused(look, ARGV("true"), ERR_UNAVAILABLE, "");
	help_ends(a, ARGV("true"), SANDBOX_EXITED, 0);
	leave(look);
	end(pid);
	leave(a);
}

static void
one_that_shows_what_is_not_there_any_more_is_not_given_and_ends(void **state UNUSED)
{
	AUTO_FREE char *path = NULL;
	struct sandbox *sb;
	int st = -1;
	pid_t pid;

	fake_how = "changed";
	pid = spare(20);
	path = path_find();
	sb = come(path);
	assert_int_equal(take(sb, CALL_VERSION, text()), ERR_NOT_FOUND);
	leave(sb);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(access(path, F_OK), -1);
}

static void
one_that_nobody_takes_ends_by_itself(void **state UNUSED)
{
	pid_t pid = spare(1);
	AUTO_FREE char *path = path_find();
	int st = -1;

	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(access(path, F_OK), -1);
}

static void
a_time_that_is_none_makes_no_spare(void **state UNUSED)
{
	const uint32_t wrong[] = {0, CALL_SPARE_S_MAX + 1};
	int st = -1;

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		pid_t pid = spare(wrong[i]);

		assert_int_equal(waitpid(pid, &st, 0), pid);
	}
}

static void
file_put(const char *path, const char *content)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(content, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void
memory_that_is_short_is_seen(void **state UNUSED)
{
	char m[] = "/tmp/t-spare-XXXXXX", p[] = "/tmp/t-spare-XXXXXX";
	AUTO_FD int fm = mkstemp(m);
	AUTO_FD int fp = mkstemp(p);

	file_put(m, "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:   1000 kB\n");
	file_put(p, "some avg10=9.99 avg60=50.00 avg300=0.00 total=1\nfull avg10=50.00\n");
	assert_false(super_room_is_short(m, p));
	file_put(p, "some avg10=10.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
	assert_true(super_room_is_short(m, p));
	file_put(p, "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n");
	file_put(m, "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:   999 kB\n");
	assert_true(super_room_is_short(m, p));
	assert_false(super_room_is_short("/nonexistent", "/nonexistent"));
	(void)unlink(m);
	(void)unlink(p);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(who_says_what_it_is_gets_it_and_nobody_else, help_reset),
	    cmocka_unit_test_setup(
		one_that_waits_can_be_looked_at_and_ended_but_not_used, help_reset),
	    cmocka_unit_test_setup(who_looked_is_not_there_any_more_when_it_is_taken, help_reset),
	    cmocka_unit_test_setup(
		one_that_shows_what_is_not_there_any_more_is_not_given_and_ends, help_reset),
	    cmocka_unit_test_setup(one_that_nobody_takes_ends_by_itself, help_reset),
	    cmocka_unit_test_setup(a_time_that_is_none_makes_no_spare, help_reset),
	    cmocka_unit_test_setup(memory_that_is_short_is_seen, help_reset),
	};

	if (argc == 3 && strcmp(argv[1], "pid1") == 0)
		return pid1_main(argv[2]);
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
