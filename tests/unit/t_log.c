/*
 * Unit tests of common/log: what may leave the process in a line, and how long it may be.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/log.h"

#include "common/banned.h"

static char got[8192];
static size_t got_n;
static int got_level = -1;

static void
sink(void *arg UNUSED, enum log_level level, struct str line)
{
	got_level = (int)level;
	got_n = line.n;
	memcpy(got, line.p, line.n);
	got[line.n] = '\0';
}

static int
begin(void **state UNUSED)
{
	got_level = -1;
	got_n = 0;
	log_init("test", LOG_INFO_);
	log_set_sink(sink, NULL);
	return 0;
}

static int
end(void **state UNUSED)
{
	log_set_sink(NULL, NULL);
	return 0;
}

static void
assert_vis(const char *in, const char *want)
{
	AUTO_FREE char *z = log_vis(str_z(in));

	assert_string_equal(z, want);
}

static void
plain_text_and_other_scripts_stay_as_they_are(void **state UNUSED)
{
	assert_vis("hello \\ \"x\" ~", "hello \\ \"x\" ~");
	assert_vis("Gr\xc3\xb6\xc3\x9f"
		   "e \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80",
	    "Gr\xc3\xb6\xc3\x9f"
	    "e \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80");
}

static void
control_characters_are_encoded(void **state UNUSED)
{
	AUTO_FREE char *z = log_vis(str_mem("\0", 1));

	assert_string_equal(z, "\\x00");
	assert_vis("a\nb\r\t\x1b[2J\x7f", "a\\x0ab\\x0d\\x09\\x1b[2J\\x7f");
	assert_vis("\xc2\x9b"
		   "31m",
	    "\\xc2\\x9b31m"); /* C1: CSI */
}

static void
bidi_and_invisible_characters_are_encoded(void **state UNUSED)
{
	assert_vis("\xe2\x80\xae", "\\xe2\\x80\\xae");		/* U+202E */
	assert_vis("\xe2\x81\xa6", "\\xe2\\x81\\xa6");		/* U+2066 */
	assert_vis("\xd8\x9c", "\\xd8\\x9c");			/* U+061C */
	assert_vis("\xe2\x80\xa8", "\\xe2\\x80\\xa8");		/* U+2028 */
	assert_vis("\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81"); /* U+E0041, tag A */
	/* The neighbours are ordinary. */
	assert_vis("\xe2\x80\xaf\xe2\x80\xa7", "\xe2\x80\xaf\xe2\x80\xa7");
}

static void
invalid_utf8_is_encoded_byte_by_byte(void **state UNUSED)
{
	assert_vis("\xff"
		   "a\xe2\x82",
	    "\\xffa\\xe2\\x82");
	assert_vis("\xed\xa0\x80", "\\xed\\xa0\\x80");
	assert_vis("\xe2\x82\xac", "\xe2\x82\xac");
}

static void
a_line_of_a_child_goes_to_the_sink_encoded_and_without_a_name(void **state UNUSED)
{
	log_warn("bad name \"%s\"", "x\ny");
	assert_int_equal(got_level, LOG_WARN_);
	assert_string_equal(got, "bad name \"x\\x0ay\"");
}

static void
levels_beyond_the_maximum_are_silent(void **state UNUSED)
{
	log_debug("no");
	assert_int_equal(got_level, -1);
	log_info("yes");
	assert_int_equal(got_level, LOG_INFO_);
}

static void
a_long_line_is_cut_with_a_mark(void **state UNUSED)
{
	char big[5000];

	memset(big, '\n', sizeof(big)); /* four characters each when encoded */
	big[sizeof(big) - 1] = '\0';
	log_error("%s", big);
	assert_true(got_n <= LOG_LINE_MAX);
	assert_true(str_has_suffix(str_z(got), "\\x0a..."));
	memset(big, 'x', LOG_LINE_MAX);
	big[LOG_LINE_MAX] = '\0';
	log_error("%s", big);
	assert_int_equal(got_n, LOG_LINE_MAX);
	assert_true(str_has_suffix(str_z(got), "xxx"));
}

static void
errno_survives_a_log_call(void **state UNUSED)
{
	errno = EXDEV;
	log_error("%s", "x");
	assert_int_equal(errno, EXDEV);
}

/* Runs fn with standard error in `got`; returns the exit status, or -1 for a signal. */
static int
with_stderr(void (*fn)(void))
{
	int p[2], status;
	ssize_t k;
	pid_t pid;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)dup2(p[1], STDERR_FILENO);
		fn();
		_exit(0);
	}
	(void)close(p[1]);
	got_n = 0;
	while ((k = read(p[0], got + got_n, sizeof(got) - 1 - got_n)) > 0)
		got_n += (size_t)k;
	got[got_n] = '\0';
	(void)close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
say_some(void)
{
	log_set_sink(NULL, NULL);
	log_init("broker", LOG_INFO_);
	log_info("started");
	log_error("bad");
	log_foreign("front", LOG_WARN_, str_mem("x\n\0y\x1b", 5));
	log_foreign("front", 99, STR("odd level"));
	log_foreign("front", LOG_DEBUG_, STR("not shown"));
}

static void
standard_error_gets_one_line_each_with_the_name_before_it(void **state UNUSED)
{
	assert_int_equal(with_stderr(say_some), 0);
	assert_string_equal(got,
	    "broker: started\nbroker: error: bad\nfront: warning: x\\x0a\\x00y\\x1b\n"
	    "front: error: odd level\n");
}

static void
end_it(void)
{
	struct err e = {0};

	log_set_sink(NULL, NULL);
	(void)err_set(&e, ERR_CONFIG, "no vault");
	fatal_err(&e);
}

static void
fatal_logs_and_ends_with_status_1(void **state UNUSED)
{
	assert_int_equal(with_stderr(end_it), 1);
	assert_string_equal(got, "test: error: no vault\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain_text_and_other_scripts_stay_as_they_are),
	    cmocka_unit_test(control_characters_are_encoded),
	    cmocka_unit_test(bidi_and_invisible_characters_are_encoded),
	    cmocka_unit_test(invalid_utf8_is_encoded_byte_by_byte),
	    cmocka_unit_test_setup_teardown(
		a_line_of_a_child_goes_to_the_sink_encoded_and_without_a_name, begin, end),
	    cmocka_unit_test_setup_teardown(levels_beyond_the_maximum_are_silent, begin, end),
	    cmocka_unit_test_setup_teardown(a_long_line_is_cut_with_a_mark, begin, end),
	    cmocka_unit_test_setup_teardown(errno_survives_a_log_call, begin, end),
	    cmocka_unit_test(standard_error_gets_one_line_each_with_the_name_before_it),
	    cmocka_unit_test_setup_teardown(fatal_logs_and_ends_with_status_1, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
