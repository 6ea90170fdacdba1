/*
 * Pid 1 of a sandbox and the limit of open files: programs have less than pid 1, so that what they
 * leave in flight in unix sockets does not stop it; and where it does, one start is refused, at
 * once. The hostile program is this test's own, run inside (role).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/init_help.h"

#include "common/banned.h"

static char out[1 << 16];

/* Once its standard input ends: as many descriptors in flight as it is let; then it waits. Not
 * before: what it leaves in flight could reach its own start's answer otherwise. */
static int
role(void)
{
	int pair[2], fds[50];
	char said[1];
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(fds))];
	} c = {.h = {.cmsg_level = SOL_SOCKET,
		   .cmsg_type = SCM_RIGHTS,
		   .cmsg_len = CMSG_LEN(sizeof(fds))}};
	struct iovec iov = {(char[]){"x"}, 1};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};

	if (read(0, said, 1) != 0)
		return 1;
	memset(fds, 0, sizeof(fds)); /* its standard input, again and again */
	memcpy(CMSG_DATA(&c.h), fds, sizeof(fds));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return 1;
	while (sendmsg(pair[0], &m, MSG_DONTWAIT) == 1)
		continue;
	(void)!write(1, errno == ETOOMANYREFS ? "full" : "else", 4);
	for (;;)
		(void)pause();
}

/* Its number is 1. */
static void
fill(struct box *b)
{
	struct spawn s = {.flags = INSIDE_MERGE | INSIDE_STDIN,
	    .argv = {"/tmp/bin/t_sandbox_init_files", "role"}};
	char said[5] = "";
	struct frame f;

	spawn_send(b, 1, &s);
	frame_want(b, &f, INSIDE_SPAWNED, 1);
	assert_int_equal(f.nfds, 2);
	assert_int_equal(close(f.fds[1]), 0);
	f.nfds = 1;
	assert_int_equal(read(f.fds[0], said, 4), 4);
	assert_string_equal(said, "full");
	frame_close(&f);
}

static void
fill_end(struct box *b)
{
	struct frame f;

	order(b, INSIDE_KILL, 1, 0);
	frame_want(b, &f, INSIDE_EXITED, 1);
}

static struct box
box_files(const struct box_want *w, const char *want)
{
	struct box b = box_start(w);
	struct frame f;

	frame_want(&b, &f, INSIDE_READY, 0);
	if (want != NULL && strstr(f.body, want) == NULL)
		fail_msg("ready: %s, must have %s", f.body, want);
	return b;
}

static void
programs_may_open_what_was_said(void **state UNUSED)
{
	struct box b = box_files(&(struct box_want){.word = "files=64"}, "\"open_files\":64");

	(void)run(
	    &b, 1, &SH("ulimit -Sn; ulimit -Hn; ulimit -n 65 2>&1 || echo no"), out, sizeof(out));
	assert_ptr_equal(strstr(out, "64\n64\n"), out);
	(void)box_end(&b);
	b = box_files(&(struct box_want){.word = "files=16"}, "\"open_files\":16");
	(void)run(&b, 1, &SH("ulimit -n; echo few | cat"), out, sizeof(out));
	assert_string_equal(out, "16\nfew\n");
	(void)box_end(&b);
}

/* Pid 1 never has only as many as they. */
static void
programs_have_half_of_what_there_is_at_most(void **state UNUSED)
{
	struct box b = box_files(
	    &(struct box_want){.word = "landlock,files=1000", .files = 300}, "\"open_files\":150");

	(void)run(&b, 1, &SH("ulimit -n"), out, sizeof(out));
	assert_string_equal(out, "150\n");
	(void)box_end(&b);
}

static void
a_word_that_is_no_number_of_files_is_refused(void **state UNUSED)
{
	static const char *const words[] = {
	    "files", "files=", "files=0", "files=x", "files=1x", "files=-1", "files=1234567890"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		struct box b = box_start(&(struct box_want){.word = words[i]});
		struct frame f;

		frame_want(&b, &f, INSIDE_FATAL, 0);
		(void)box_end(&b);
	}
}

static void
what_programs_leave_in_flight_does_not_stop_pid_1(void **state UNUSED)
{
	struct box b = box_files(&(struct box_want){.word = "files=64"}, NULL);

	fill(&b);
	for (uint32_t i = 2; i < 20; i++) {
		assert_int_equal(run(&b, i, &SH("echo on"), out, sizeof(out)), 0);
		assert_string_equal(out, "on\n");
	}
	fill_end(&b);
	(void)box_end(&b);
}

/* Without the word programs have pid 1's own limit. */
static void
where_it_does_one_start_fails_and_nothing_hangs(void **state UNUSED)
{
	struct box b = box_files(&(struct box_want){.files = 64}, NULL);
	struct frame f;

	fill(&b);
	for (uint32_t i = 2; i < 6; i++) {
		spawn_send(&b, i, &SH("sleep 1000 & sleep 1000"));
		frame_want(&b, &f, INSIDE_FAILED, i);
		assert_int_equal(f.h.a, ETOOMANYREFS);
		assert_non_null(strstr(f.body, "in flight"));
	}
	fill_end(&b);
	assert_int_equal(
	    run(&b, 9, &SH("echo on; ps ax | grep -c [s]leep.1000"), out, sizeof(out)), 1 << 8);
	assert_string_equal(out, "on\n0\n");
	(void)box_end(&b);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(programs_may_open_what_was_said),
	    cmocka_unit_test(programs_have_half_of_what_there_is_at_most),
	    cmocka_unit_test(a_word_that_is_no_number_of_files_is_refused),
	    cmocka_unit_test(what_programs_leave_in_flight_does_not_stop_pid_1),
	    cmocka_unit_test(where_it_does_one_start_fails_and_nothing_hangs),
	};

	if (argc > 1 && strcmp(argv[1], "role") == 0)
		_exit(role()); /* without what a sanitizer does at exit */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
