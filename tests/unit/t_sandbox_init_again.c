/*
 * Pid 1 of a sandbox: what is being made while all is stopped goes on with the rest. The program
 * that forks slowly is this test's own, run inside (role).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include <cmocka.h>

#include "tests/unit/init_help.h"

#include "common/banned.h"

#define MIB 192 /* of pages that each fork copies the tables of: it takes a while */
#define ROUNDS 60

/* Forks, waits, says so, and again. */
static int
role(void)
{
	size_t n = (size_t)MIB << 20;
	char *p = mmap(
	    NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED || madvise(p, n, MADV_NOHUGEPAGE) != 0)
		return 1;
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	for (;;) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid || write(1, "x", 1) != 1)
			return 1;
	}
}

/* All that it has said so far is read, then one more is awaited. */
static bool
goes_on(int fd)
{
	char room[4096];
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (poll(&p, 1, 0) == 1)
		if (read(fd, room, sizeof(room)) <= 0)
			return false;
	return poll(&p, 1, 20000) == 1 && read(fd, room, sizeof(room)) > 0;
}

static void
what_is_made_while_all_stands_still_goes_on_with_the_rest(void **state UNUSED)
{
	struct box b = box_start(&(struct box_want){0});
	struct spawn s = {.flags = INSIDE_MERGE, .argv = {"/tmp/bin/t_sandbox_init_again", "role"}};
	struct frame f;

	frame_want(&b, &f, INSIDE_READY, 0);
	spawn_send(&b, 1, &s);
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	for (int i = 0; i < ROUNDS; i++) {
		assert_true(goes_on(f.fds[0]));
		order(&b, INSIDE_HOLD, 0, 1);
		order(&b, INSIDE_HOLD, 0, 0);
	}
	assert_true(goes_on(f.fds[0]));
	frame_close(&f);
	order(&b, INSIDE_KILL, 1, 0);
	frame_want(&b, &f, INSIDE_EXITED, 1);
	(void)box_end(&b);
}

/* What code inside has stopped itself is its own affair. */
static void
what_programs_have_stopped_stays_so(void **state UNUSED)
{
	static char out[256];
	struct box b = box_start(&(struct box_want){0});
	struct frame f;

	frame_want(&b, &f, INSIDE_READY, 0);
	spawn_send(&b, 1, &SH("sleep 1000 & kill -STOP $!; sleep 2; echo up; sleep 1000"));
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	assert_int_equal(read(f.fds[0], out, 3), 3);
	for (int i = 0; i < 3; i++) {
		order(&b, INSIDE_HOLD, 0, 1);
		order(&b, INSIDE_HOLD, 0, 0);
	}
	/* It has been told to go on with the others; once stopped again it is left alone. */
	(void)run(&b, 2,
	    &SH("until kill -STOP $(pgrep -o sleep) 2>/dev/null; do :; done; sleep 3; "
		"ps -o stat= -C sleep | grep -c T"),
	    out, sizeof(out));
	assert_string_equal(out, "1\n");
	frame_close(&f);
	order(&b, INSIDE_KILL, 1, 0);
	frame_want(&b, &f, INSIDE_EXITED, 1);
	(void)box_end(&b);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_made_while_all_stands_still_goes_on_with_the_rest),
	    cmocka_unit_test(what_programs_have_stopped_stays_so),
	};

	if (argc > 1 && strcmp(argv[1], "role") == 0)
		_exit(role());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
