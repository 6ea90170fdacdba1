/*
 * Host ids of sandboxes that root starts: another one for each that lives, free again with its
 * supervisor, and no more than there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/xalloc.h"
#include "agent/sandbox/call.h"
#include "agent/sandbox/native.h"

#include "common/banned.h"

#define BOXES 100

static unsigned
outside_of(struct backend_box *b)
{
	AUTO_FREE char *level = buf_dup_z(&b->level);
	const char *at = strstr(level, "\"outside\":");

	assert_non_null(at);
	return (unsigned)strtoul(at + 10, NULL, 10);
}

static int
by_value(const void *a, const void *b)
{
	const unsigned *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void
a_hundred_boxes_have_a_hundred_ids(void **state UNUSED)
{
	struct super_spec s = {.limits = sandbox_limits_default()};
	static struct backend_box b[BOXES];
	unsigned ids[BOXES];

	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < BOXES; i++) {
		struct err e = {0};

		if (backend_native.start(&s, &b[i], &e) != 0)
			fail_msg("%s", e.msg);
		ids[i] = outside_of(&b[i]);
	}
	for (size_t i = 0; i < BOXES; i++)
		backend_native.end(&b[i]);
	qsort(ids, BOXES, sizeof(*ids), by_value);
	for (size_t i = 1; i < BOXES; i++)
		assert_true(ids[i - 1] < ids[i]);
}

/* Whether somebody has the id. */
static bool
taken(uid_t uid)
{
	struct err e = {0};
	AUTO_FREE char *dir = call_directory(true, &e), *path = xasprintf("%s/ids", dir);
	AUTO_FD int fd = open(path, O_RDWR | O_CLOEXEC);
	struct flock l = {.l_type = F_WRLCK, .l_start = uid - native_uid_example(), .l_len = 1};
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(fcntl(fd, F_OFD_GETLK, &l), 0);
	return l.l_type != F_UNLCK;
}

static void
an_id_is_free_when_its_holder_is_killed(void **state UNUSED)
{
	struct native_uid u = {0};
	struct err e = {0};
	uid_t uid = 0;
	int p[2];
	pid_t pid;

	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct super_spec s = {.limits = sandbox_limits_default()};
		struct backend_box b = {0};

		/* Also where the test fails before it ends this. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (backend_native.start(&s, &b, &e) != 0) {
			(void)fprintf(stderr, "# %s\n", e.msg);
			_exit(1);
		}
		uid = outside_of(&b);
		(void)!write(p[1], &uid, sizeof(uid));
		for (;;)
			(void)pause();
	}
	/* So that it is read to its end when the child has not come so far. */
	(void)close(p[1]);
	assert_int_equal(read(p[0], &uid, sizeof(uid)), sizeof(uid));
	assert_true(taken(uid));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 500 && taken(uid); i++)
		(void)usleep(10000);
	assert_false(taken(uid));
	/* And by its end. */
	assert_int_equal(native_uid_take(&u, &e), 0);
	uid = u.uid;
	assert_true(taken(uid));
	native_uid_free(&u);
	assert_false(taken(uid));
	(void)close(p[0]);
}

/* Root of a user namespace that maps no more than a container's often does. */
static void
in_a_container(void)
{
	struct native_uid u[65] = {0};
	struct err e = {0};

	for (size_t i = 0; i < 64; i++) {
		if (native_uid_take(&u[i], &e) != 0)
			_exit(2);
		for (size_t k = 0; k < i; k++)
			if (u[k].uid == u[i].uid)
				_exit(3);
		if (u[i].uid < 63200 || u[i].uid >= 63264 || u[i].root != u[i].uid + 64)
			_exit(4);
	}
	if (native_uid_take(&u[64], &e) == 0 || strstr(e.msg, "all 64 (from 63200") == NULL)
		_exit(5);
	native_uid_free(&u[7]);
	_exit(native_uid_take(&u[64], &e) == 0 ? 0 : 6);
}

static void
map_put(pid_t pid, const char *file)
{
	AUTO_FREE char *path = xasprintf("/proc/%d/%s", (int)pid, file);
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(write(fd, "0 0 65536", 9), 9);
}

static void
when_all_are_in_use_the_next_is_refused_by_number(void **state UNUSED)
{
	int p[2], q[2], status = -1;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(pipe2(q, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) != 0 || write(p[1], "", 1) != 1 ||
		    read(q[0], &(char){0}, 1) != 1)
			_exit(1);
		in_a_container();
	}
	assert_int_equal(read(p[0], &(char){0}, 1), 1);
	map_put(pid, "uid_map");
	map_put(pid, "gid_map");
	assert_int_equal(write(q[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < 2; i++) {
		(void)close(p[i]);
		(void)close(q[i]);
	}
}

/* At each place where they can run out, up to the first number that is enough. */
static _Noreturn void
run_out(bool soft)
{
	struct super_spec s = {.limits = sandbox_limits_default()};
	unsigned n = soft ? 8 : 200;
	bool started = false;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	while (started != soft && n > 7 && n < 201) {
		struct backend_box b = {0};
		struct err e = {0};
		const struct rlimit r = {n, soft ? 4096 : n};

		(void)setrlimit(RLIMIT_NOFILE, &r);
		started = backend_native.start(&s, &b, &e) == 0;
		if (started)
			backend_native.end(&b);
		else if (strstr(e.msg, "CONFIG_") != NULL || strstr(e.msg, "ulimit -n") == NULL) {
			(void)fprintf(stderr, "# %u: %s\n", n, e.msg);
			_exit(1);
		}
		n = soft ? n + 1 : n - 1;
	}
	_exit(started == soft ? 0 : 2);
}

/* Not that the kernel lacks something. */
static void
too_few_open_files_are_said_to_be_that(void **state UNUSED)
{
	for (int soft = 0; soft < 2; soft++) {
		pid_t pid = fork();
		int status = -1;

		if (pid == 0)
			run_out(soft == 1);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_hundred_boxes_have_a_hundred_ids),
	    cmocka_unit_test(an_id_is_free_when_its_holder_is_killed),
	    cmocka_unit_test(when_all_are_in_use_the_next_is_refused_by_number),
	    cmocka_unit_test(too_few_open_files_are_said_to_be_that),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
