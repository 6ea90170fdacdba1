/*
 * Unit tests of common/streams: no file of ours takes the number of a standard stream.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/streams.h"

#include "common/banned.h"

static bool
is_null(int fd)
{
	struct stat null, st;

	return stat("/dev/null", &null) == 0 && fstat(fd, &st) == 0 && st.st_rdev == null.st_rdev &&
	       S_ISCHR(st.st_mode);
}

/* In a process with these streams closed, the others on "/": its exit status. */
static int
without(unsigned closed)
{
	int status, next;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid != 0) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	next = open("/", O_RDONLY | O_CLOEXEC);
	for (int fd = 0; fd <= 2; fd++)
		if ((closed >> fd & 1) == 0)
			(void)dup2(next, fd);
	(void)close(next);
	for (int fd = 0; fd <= 2; fd++)
		if ((closed >> fd & 1) != 0)
			(void)close(fd);
	streams_open();
	for (int fd = 0; fd <= 2; fd++)
		if (is_null(fd) != ((closed >> fd & 1) != 0))
			_exit(10 + fd);
	_exit(open("/", O_RDONLY | O_CLOEXEC) > 2 ? 0 : 20);
}

static void
streams_that_are_closed_become_the_null_device_and_others_stay(void **state UNUSED)
{
	for (unsigned closed = 0; closed < 8; closed++)
		assert_int_equal(without(closed), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(streams_that_are_closed_become_the_null_device_and_others_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
