/*
 * Unit tests of common/secret: reading, bounds, and that the memory really is guarded.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/secret.h"

#include "common/banned.h"

static int
pipe_with(const char *p, size_t n)
{
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	assert_int_equal(write(fd[1], p, n), (ssize_t)n);
	(void)close(fd[1]);
	return fd[0];
}

static void
a_new_secret_is_zero(void **state UNUSED)
{
	AUTO(secret) struct secret *s = secret_new(100);

	for (size_t i = 0; i < 100; i++)
		assert_int_equal(secret_bytes(s)[i], 0);
	assert_int_equal(secret_str(s).n, 100);
}

static void
a_copy_holds_the_same_bytes_elsewhere(void **state UNUSED)
{
	char src[] = "pa\0ss";
	AUTO(secret) struct secret *s = secret_copy(str_mem(src, 5));
	AUTO(secret) struct secret *none = secret_copy(STR_NONE);

	memset(src, 'x', sizeof(src));
	assert_true(str_eq(secret_str(s), str_mem("pa\0ss", 5)));
	assert_int_equal(secret_str(none).n, 0);
	secret_free(NULL);
}

/* By the kernel on our behalf: it fails where we would fault. */
static bool
can_be_read(struct secret *s)
{
	int p[2];
	bool ok;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	ok = write(p[1], secret_bytes(s), 1) == 1;
	(void)close(p[0]);
	(void)close(p[1]);
	return ok;
}

static void
what_is_hidden_cannot_be_read_until_it_is_shown(void **state UNUSED)
{
	AUTO(secret) struct secret *s = secret_copy(STR("abc"));

	assert_true(can_be_read(s));
	secret_hide(s);
	assert_false(can_be_read(s));
	secret_show(s);
	assert_true(str_eqz(secret_str(s), "abc"));
	secret_hide(s); /* and it can be freed as it is */
}

static void
all_of_a_descriptor_is_read_with_its_last_line_feed(void **state UNUSED)
{
	AUTO_FD int fd = pipe_with("token\n", 6);
	AUTO(secret) struct secret *s = NULL;

	assert_int_equal(secret_read_fd(fd, 6, &s, NULL), 0);
	assert_true(str_eqz(secret_str(s), "token\n"));
}

static void
a_secret_longer_than_allowed_is_refused_without_being_quoted(void **state UNUSED)
{
	AUTO_FD int fd = pipe_with("token\n", 6);
	struct secret *s = NULL;
	struct err e = {0};

	assert_int_equal(secret_read_fd(fd, 5, &s, &e), ERR_TOO_LARGE);
	assert_null(s);
	assert_string_equal(e.msg, "secret must be at most 5 bytes, is longer");
}

static void
an_empty_descriptor_gives_an_empty_secret(void **state UNUSED)
{
	AUTO_FD int fd = pipe_with("", 0);
	AUTO(secret) struct secret *s = NULL;

	assert_int_equal(secret_read_fd(fd, 0, &s, NULL), 0);
	assert_int_equal(secret_str(s).n, 0);
}

static void
a_descriptor_that_cannot_be_read_is_an_error(void **state UNUSED)
{
	AUTO_FD int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct secret *s = NULL;
	struct err e = {0};

	assert_int_equal(secret_read_fd(fd, 5, &s, &e), ERR_SYSTEM);
	assert_string_equal(e.msg, "reading a secret: Is a directory");
}

static int
dies(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit none = {0, 0};

		(void)setrlimit(RLIMIT_CORE, &none);
		(void)signal(SIGSEGV, SIG_DFL);
		(void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void
read_last(void)
{
	struct secret *s = secret_new(48);
	const volatile uint8_t *p = secret_bytes(s);

	(void)p[47];
}

static void
read_past(void)
{
	struct secret *s = secret_new(48);
	const volatile uint8_t *p = secret_bytes(s);

	(void)p[48];
}

static void
read_freed(void)
{
	struct secret *s = secret_new(48);
	const volatile uint8_t *p = secret_bytes(s);

	secret_free(s);
	(void)p[0];
}

static void
a_read_past_the_end_or_after_free_ends_the_process(void **state UNUSED)
{
	assert_false(dies(read_last));
	assert_true(dies(read_past));
	assert_true(dies(read_freed));
}

static void
the_memory_stays_out_of_core_dumps(void **state UNUSED)
{
	AUTO(secret) struct secret *s = secret_new(64);
	unsigned long at = (unsigned long)(uintptr_t)secret_bytes(s), lo, hi;
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512];
	bool here = false, kept_out = false;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%lx-%lx ", &lo, &hi) == 2)
			here = at >= lo && at < hi;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			kept_out = strstr(line, " dd") != NULL;
	}
	(void)fclose(f);
	assert_true(kept_out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_new_secret_is_zero),
	    cmocka_unit_test(a_copy_holds_the_same_bytes_elsewhere),
	    cmocka_unit_test(what_is_hidden_cannot_be_read_until_it_is_shown),
	    cmocka_unit_test(all_of_a_descriptor_is_read_with_its_last_line_feed),
	    cmocka_unit_test(a_secret_longer_than_allowed_is_refused_without_being_quoted),
	    cmocka_unit_test(an_empty_descriptor_gives_an_empty_secret),
	    cmocka_unit_test(a_descriptor_that_cannot_be_read_is_an_error),
	    cmocka_unit_test(a_read_past_the_end_or_after_free_ends_the_process),
	    cmocka_unit_test(the_memory_stays_out_of_core_dumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
